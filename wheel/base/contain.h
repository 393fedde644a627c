// Exceptions, in builds with and without them: contains those of user code
// where no caller could catch them, and reports that there is no memory.

#ifndef WHEELCACHE_WHEEL_BASE_CONTAIN_H_
#define WHEELCACHE_WHEEL_BASE_CONTAIN_H_

#include <cstdlib>
#include <new>
#include <utility>

#include "absl/base/config.h"

namespace wheelcache::internal {

// Calls `function` and returns whether it returned without an exception:
// always, in a build without exceptions.
template <typename Function>
bool Contain(Function&& function) {
#ifdef ABSL_HAVE_EXCEPTIONS
  try {
    std::forward<Function>(function)();
  } catch (...) {
    return false;
  }
#else
  std::forward<Function>(function)();
#endif
  return true;
}

// Throws std::bad_alloc or, in a build without exceptions, ends the program.
[[noreturn]] inline void ThrowBadAlloc() {
#ifdef ABSL_HAVE_EXCEPTIONS
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_CONTAIN_H_
