// Tells ThreadSanitizer of a lock whose own code it cannot see; an empty class
// in every other build.
//
// ThreadSanitizer ignores what happens between a Before and its After, so a
// lock that it does see, such as an absl::Mutex compiled with it, may be
// announced here as well: the two stand at different addresses.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TSAN_MUTEX_H_
#define WHEELCACHE_WHEEL_INTERNAL_TSAN_MUTEX_H_

#include "absl/base/attributes.h"
#include "absl/base/config.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace wheelcache::internal {

#ifdef ABSL_HAVE_THREAD_SANITIZER

// A lock is known by the address of this object.
class TsanMutex {
 public:
  TsanMutex() { __tsan_mutex_create(this, 0); }
  ~TsanMutex() { __tsan_mutex_destroy(this, 0); }

  void BeforeLock() { __tsan_mutex_pre_lock(this, 0); }
  void AfterLock() { __tsan_mutex_post_lock(this, 0, 0); }
  void BeforeTryLock() { __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock); }
  void AfterTryLock(bool locked) {
    __tsan_mutex_post_lock(
        this,
        locked ? __tsan_mutex_try_lock
               : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed,
        0);
  }
  void BeforeUnlock() { __tsan_mutex_pre_unlock(this, 0); }
  void AfterUnlock() { __tsan_mutex_post_unlock(this, 0); }

 private:
  // Keeps the empty base optimization from giving the address to a lock that
  // ThreadSanitizer may know as well.
  ABSL_ATTRIBUTE_UNUSED char own_address_ = 0;
};

#else

class TsanMutex {
 public:
  void BeforeLock() {}
  void AfterLock() {}
  void BeforeTryLock() {}
  void AfterTryLock(bool /*locked*/) {}
  void BeforeUnlock() {}
  void AfterUnlock() {}
};

#endif

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TSAN_MUTEX_H_
