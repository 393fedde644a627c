// Calls an absl::Mutex by the method names that its release has: lock() in
// current ones, where Lock() is deprecated, and Lock() alone in earlier ones.

#ifndef WHEELCACHE_WHEEL_INTERNAL_ABSL_MUTEX_H_
#define WHEELCACHE_WHEEL_INTERNAL_ABSL_MUTEX_H_

#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace wheelcache::internal {

template <typename M, typename = void>
struct HasStandardNames : std::false_type {};
template <typename M>
struct HasStandardNames<M, decltype(std::declval<M&>().lock())>
    : std::true_type {};

// Templates, although M is always absl::Mutex, so that the branch for the other
// releases need not compile.
template <typename M>
void Lock(M& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) {
  if constexpr (HasStandardNames<M>::value) {
    mu.lock();
  } else {
    mu.Lock();
  }
}

template <typename M>
bool TryLock(M& mu) ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true, mu) {
  if constexpr (HasStandardNames<M>::value) {
    return mu.try_lock();
  } else {
    return mu.TryLock();
  }
}

template <typename M>
void Unlock(M& mu) ABSL_UNLOCK_FUNCTION(mu) {
  if constexpr (HasStandardNames<M>::value) {
    mu.unlock();
  } else {
    mu.Unlock();
  }
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_ABSL_MUTEX_H_
