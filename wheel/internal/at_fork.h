// Keeps an object whole across fork().
//
//   class Queue : private internal::ForkHandler {
//     ...
//     void BeforeFork() override { mu_.Lock(); }
//     void AfterForkInParent() override { mu_.Unlock(); }
//     void AfterForkInChild() override { new (&mu_) Mutex; }
//
//     Mutex mu_;
//     internal::ForkRegistration fork_registration_{this};  // The last member.
//   };
//
// In the child of fork() only the calling thread goes on. What another thread
// had locked stays locked, and what it was changing stays half changed, unless
// the forking thread held that lock itself.
//
// BeforeFork() is called for the youngest registration first and the others for
// the oldest first, so that an object may lock itself and then one that it was
// built upon. A lock that is taken here must never be held while user code
// runs: a thread that forks under a lock of its own would wait for a callback
// that waits for that lock.
//
// The child builds its locks anew and unlocks none: threads that no longer
// exist may be queued in them.

#ifndef WHEELCACHE_WHEEL_INTERNAL_AT_FORK_H_
#define WHEELCACHE_WHEEL_INTERNAL_AT_FORK_H_

namespace wheelcache::internal {

// Called by the thread that forks.
class ForkHandler {
 public:
  virtual void BeforeFork() = 0;
  virtual void AfterForkInParent() = 0;
  virtual void AfterForkInChild() = 0;

 protected:
  ~ForkHandler() = default;
};

// Has `handler` called at every fork() of the process during its own lifetime.
// Thread-safe; not to be created or destroyed under a lock that a handler
// takes.
class ForkRegistration {
 public:
  explicit ForkRegistration(ForkHandler* handler);
  ~ForkRegistration();

  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  friend class ForkRegistry;

  ForkHandler* const handler_;
  ForkRegistration* older_ = nullptr;
  ForkRegistration* younger_ = nullptr;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_AT_FORK_H_
