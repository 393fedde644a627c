#include "wheelcache/wheel/base/at_fork.h"

#include <pthread.h>

#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

// All registrations, from the oldest to the youngest. Never destroyed: objects
// with static storage unregister at exit.
class ForkRegistry {
 public:
  static ForkRegistry& Get() {
    static ForkRegistry* const registry = new ForkRegistry;
    return *registry;
  }

  void Add(ForkRegistration* registration) {
    MutexLock lock(&mu_);
    registration->older_ = youngest_;
    (youngest_ != nullptr ? youngest_->younger_ : oldest_) = registration;
    youngest_ = registration;
  }

  void Remove(ForkRegistration* registration) {
    MutexLock lock(&mu_);
    ForkRegistration* const older = registration->older_;
    ForkRegistration* const younger = registration->younger_;
    (older != nullptr ? older->younger_ : oldest_) = younger;
    (younger != nullptr ? younger->older_ : youngest_) = older;
  }

 private:
  ForkRegistry() { pthread_atfork(&Before, &InParent, &InChild); }

  static void Before() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ForkRegistry& registry = Get();
    registry.mu_.Lock();
    for (ForkRegistration* r = registry.youngest_; r != nullptr;
         r = r->older_) {
      r->before_(r->object_);
    }
  }

  static void InParent() { After(&ForkRegistration::in_parent_); }
  static void InChild() { After(&ForkRegistration::in_child_); }

  static void After(const ForkRegistration::Callback ForkRegistration::*method)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ForkRegistry& registry = Get();
    for (ForkRegistration* r = registry.oldest_; r != nullptr;
         r = r->younger_) {
      (r->*method)(r->object_);
    }
    registry.mu_.Unlock();
  }

  Mutex mu_;
  ForkRegistration* oldest_ ABSL_GUARDED_BY(mu_) = nullptr;
  ForkRegistration* youngest_ ABSL_GUARDED_BY(mu_) = nullptr;
};

namespace {

// Initialized at load time, if not earlier: a fork() while another thread
// initializes it would leave it half initialized in the child forever.
[[maybe_unused]] const ForkRegistry& made_at_load = ForkRegistry::Get();

}  // namespace

void ForkRegistration::Add() { ForkRegistry::Get().Add(this); }

ForkRegistration::~ForkRegistration() { ForkRegistry::Get().Remove(this); }

}  // namespace wheelcache::internal
