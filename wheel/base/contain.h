// Contains exceptions of user code where no caller could catch them.

#ifndef WHEELCACHE_WHEEL_BASE_CONTAIN_H_
#define WHEELCACHE_WHEEL_BASE_CONTAIN_H_

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

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_CONTAIN_H_
