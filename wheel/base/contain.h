// Keeps exceptions of user code out of threads that nobody could catch them on.

#ifndef WHEELCACHE_WHEEL_BASE_CONTAIN_H_
#define WHEELCACHE_WHEEL_BASE_CONTAIN_H_

#include <utility>

#include "absl/base/config.h"

namespace wheelcache::internal {

// Calls `function` and returns whether it came back without an exception, which
// it always does in a build that has none.
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
