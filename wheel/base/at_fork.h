// Keeps an object usable in the child of fork().
//
//   class Queue {
//     ...
//    private:
//     friend class internal::ForkRegistration;
//     void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) {
//       mu_.LockAmongMany();
//     }
//     void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) {
//       mu_.UnlockAmongMany();
//     }
//     void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mu_) {
//       mu_.UnlockInChild();
//     }
//
//     Mutex mu_;
//     ...
//     internal::ForkRegistration fork_registration_{this};  // The last member.
//   };
//
// Only the calling thread exists in the child. What another thread had locked
// stays locked there, and what it was changing stays half changed, unless the
// forking thread held that lock itself.
//
// BeforeFork() runs from the youngest registration to the oldest, the others in
// reverse, so that an object may lock itself and then one that it uses. A lock
// that is taken here must never be held while user code runs: a thread that
// forks under a lock of its own would deadlock with a callback that waits for
// that lock.
//
// A condition variable must be constructed anew in the child, without
// destroying the old one: threads that no longer exist may wait in it.
//
// Threads. Thread-safe; not to be created or destroyed under a lock that one of
// the three methods takes.

#ifndef WHEELCACHE_WHEEL_BASE_AT_FORK_H_
#define WHEELCACHE_WHEEL_BASE_AT_FORK_H_

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Calls the three methods of an object, on the forking thread, at every fork()
// of the process during its own lifetime. Not virtual methods: a fork() may
// come while a derived class is being constructed.
class WHEELCACHE_EXPORT ForkRegistration {
 public:
  template <typename T>
  explicit ForkRegistration(T* object)
      : object_(object),
        before_(&Call<T, &T::BeforeFork>),
        in_parent_(&Call<T, &T::AfterForkInParent>),
        in_child_(&Call<T, &T::AfterForkInChild>) {
    Add();
  }
  ~ForkRegistration();

  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  friend class ForkRegistry;
  using Callback = void (*)(void* object);

  template <typename T, void (T::*Method)()>
  static void Call(void* object) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    (static_cast<T*>(object)->*Method)();
  }

  void Add();

  void* const object_;
  const Callback before_;
  const Callback in_parent_;
  const Callback in_child_;

  // The neighbours in the registry, which guards them.
  ForkRegistration* older_ = nullptr;
  ForkRegistration* younger_ = nullptr;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_AT_FORK_H_
