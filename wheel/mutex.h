// The project's lock: absl::Mutex and absl::CondVar, made visible to
// ThreadSanitizer.
//
//   class Mailbox {
//    public:
//     void Put(int letter) {
//       MutexLock lock(&mu_);
//       letters_.push_back(letter);
//       arrived_.Signal();
//     }
//     int Take() {
//       MutexLock lock(&mu_);
//       while (letters_.empty()) arrived_.Wait(&mu_);
//       const int letter = letters_.front();
//       letters_.pop_front();
//       return letter;
//     }
//
//    private:
//     Mutex mu_;
//     CondVar arrived_;
//     std::deque<int> letters_ ABSL_GUARDED_BY(mu_);
//   };
//
// Why: ThreadSanitizer learns of a lock from code that is compiled with it. A
// prebuilt Abseil is not, so a variable that its mutex guards perfectly would
// be reported as a race. These classes announce each step by hand.
//
// Guarantees: those of absl::Mutex and absl::CondVar. Clang checks the thread
// annotations of the users with -Wthread-safety.
//
// Threads: thread-safe; the thread that locked a Mutex must unlock it.
//
// Cost: without ThreadSanitizer none; each method is one inline call of
// Abseil's, and each object has its size.
//
// Left out: absl::Condition. Abseil evaluates it in whatever thread unlocks,
// out of reach of the announcements; a loop around CondVar::Wait does the same.

#ifndef WHEELCACHE_WHEEL_MUTEX_H_
#define WHEELCACHE_WHEEL_MUTEX_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/internal/absl_mutex.h"
#include "wheelcache/wheel/internal/tsan_mutex.h"

namespace wheelcache {

// A mutual exclusion lock; not reentrant.
class ABSL_LOCKABLE Mutex : private internal::TsanMutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Blocks until the calling thread holds the lock.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    BeforeLock();
    internal::Lock(mu_);
    AfterLock();
  }

  // REQUIRES: the calling thread holds the lock.
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    BeforeUnlock();
    internal::Unlock(mu_);
    AfterUnlock();
  }

  // Takes the lock if that needs no waiting; returns whether it did. On rare
  // occasions returns false for a lock that is free.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    BeforeTryLock();
    const bool locked = internal::TryLock(mu_);
    AfterTryLock(locked);
    return locked;
  }

  // Ends the process if the calling thread does not hold the lock; in an
  // optimized build it may return instead.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() { mu_.AssertHeld(); }

 private:
  friend class CondVar;

  absl::Mutex mu_;
};

// Holds a Mutex for the length of a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(*mu) {
    mu_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Lets threads sleep until another one reports a change of what a Mutex guards.
// Wake-ups may come without cause: wait in a loop that tests for the change.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mu`, sleeps until woken, and holds `mu` again on return.
  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    mu->BeforeUnlock();
    mu->AfterUnlock();
    cv_.Wait(&mu->mu_);
    mu->BeforeLock();
    mu->AfterLock();
  }

  // As Wait, for at most `timeout`; returns whether that ran out. Takes a
  // length, for a point in time would be one of the wall clock, which jumps.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    mu->BeforeUnlock();
    mu->AfterUnlock();
    const bool timed_out = cv_.WaitWithTimeout(&mu->mu_, timeout);
    mu->BeforeLock();
    mu->AfterLock();
    return timed_out;
  }

  // Wakes one waiting thread, if any.
  void Signal() { cv_.Signal(); }

  // Wakes all waiting threads.
  void SignalAll() { cv_.SignalAll(); }

 private:
  absl::CondVar cv_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_MUTEX_H_
