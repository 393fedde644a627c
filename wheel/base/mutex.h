// The project's lock: std::mutex and std::condition_variable, with Clang's
// thread annotations.
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
// Why not absl::Mutex: a prebuilt Abseil may have been built with its deadlock
// detector, as Debian's was, which costs more than the lock at each use, and
// hides its locks from ThreadSanitizer. The standard locks have neither fault.
//
// Guarantees. Those of std::mutex and std::condition_variable.
//
// Threads. Thread-safe; the thread that locked a Mutex must unlock it.
//
// Cost. Each method is one inline call of the standard library's, and each
// object has its size. On contention, Lock spins for some microseconds before
// it sleeps.

#ifndef WHEELCACHE_WHEEL_BASE_MUTEX_H_
#define WHEELCACHE_WHEEL_BASE_MUTEX_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <pthread.h>
#include <sanitizer/tsan_interface.h>
#include <unistd.h>
#endif

namespace wheelcache {

// A mutual exclusion lock; not reentrant.
class WHEELCACHE_EXPORT ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

#ifdef ABSL_HAVE_THREAD_SANITIZER
  // std::mutex does nothing here, and ThreadSanitizer would take a new lock at
  // the same address for this one.
  ~Mutex() { pthread_mutex_destroy(mu_.native_handle()); }
#endif

  // Blocks until the calling thread holds the lock. Inlined into each Set.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (ABSL_PREDICT_FALSE(!mu_.try_lock())) LockContended();
  }

  // REQUIRES: the calling thread holds the lock.
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }

  // As Lock and Unlock, for a thread that holds many locks at a time.
  // ThreadSanitizer's deadlock detector, which ends a program in which a thread
  // holds more than 64, is told that this one is free meanwhile.
  void LockAmongMany() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mu_.lock();
#ifdef ABSL_HAVE_THREAD_SANITIZER
    if (SeesLocks()) AnnotateUnlock(&mu_);
#endif
  }
  void UnlockAmongMany() ABSL_UNLOCK_FUNCTION() {
#ifdef ABSL_HAVE_THREAD_SANITIZER
    if (SeesLocks()) AnnotateLock(&mu_);
#endif
    mu_.unlock();
  }

  // Takes the lock if that needs no waiting; returns whether it did. May rarely
  // fail for a lock that is free.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mu_.try_lock();
  }

  // Tells Clang's analysis that the calling thread holds the lock, where it
  // cannot see that.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  // Spins for a few microseconds before it sleeps: most locks are held for less
  // than it takes to sleep and wake up, and a woken thread preempts one that
  // works.
  ABSL_ATTRIBUTE_NOINLINE void LockContended() {
    constexpr int kLooks = 64;
    for (int i = 0; i < kLooks; ++i) {
      Pause();
      if (mu_.try_lock()) return;
    }
    mu_.lock();
  }

  // Leaves the core to its other hardware thread for some hundred cycles.
  static void Pause() {
    for (int i = 0; i < 8; ++i) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("isb" ::: "memory");
#else
      std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
    }
  }

#ifdef ABSL_HAVE_THREAD_SANITIZER
  static void AnnotateLock(std::mutex* mu) {
    __tsan_mutex_pre_lock(mu->native_handle(), __tsan_mutex_try_lock);
    __tsan_mutex_post_lock(mu->native_handle(), __tsan_mutex_try_lock, 0);
  }

  // Returns how many times the lock was taken that ThreadSanitizer knew of.
  static int AnnotateUnlock(std::mutex* mu) {
    const int times = __tsan_mutex_pre_unlock(mu->native_handle(),
                                              __tsan_mutex_recursive_unlock);
    __tsan_mutex_post_unlock(mu->native_handle(), 0);
    return times;
  }

  // Whether ThreadSanitizer sees that a lock is taken. In the child of a
  // program of several threads it does not, but still sees annotations, so that
  // those would contradict what it has seen.
  static bool SeesLocks() {
    static std::atomic<pid_t> process{0};
    static std::atomic<bool> sees_locks{false};
    if (process.load() != getpid()) {
      sees_locks.store(ProbeLocks());
      process.store(getpid());
    }
    return sees_locks.load();
  }

  static bool ProbeLocks() {
    static std::mutex probe;
    probe.lock();
    AnnotateLock(&probe);
    const bool sees_locks = AnnotateUnlock(&probe) == 2;
    if (sees_locks) AnnotateLock(&probe);
    probe.unlock();
    return sees_locks;
  }
#endif

  std::mutex mu_;
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

// Lets threads sleep until another one signals a change of what a Mutex guards.
// Wake-ups may be spurious: wait in a loop that tests for the change.
class WHEELCACHE_EXPORT CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mu`, sleeps until woken, and holds `mu` again on return.
  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // As Wait, for at most `timeout`; returns whether that ran out. Takes a
  // length because a point in time would be one of the wall clock, which jumps.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Wakes one waiting thread, if any.
  void Signal() { cv_.notify_one(); }

  // Wakes all waiting threads.
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_BASE_MUTEX_H_
