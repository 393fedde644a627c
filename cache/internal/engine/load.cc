#include "wheelcache/cache/internal/engine/load.h"

#include <new>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {
namespace {

// Guards what each thread of the process waits for. Taken before the lock of a
// load, and only by threads that are about to wait for one.
class WaitsMutex {
 public:
  // Never destroyed: threads may outlive static objects.
  static Mutex* Get() {
    static WaitsMutex* const waits = new WaitsMutex;
    return &waits->mu_;
  }

  void BeforeFork() {}
  void AfterForkInParent() {}
  // A thread that is gone may have held it. What such a thread waited for does
  // not matter: the child has forgotten all loads of other threads.
  void AfterForkInChild() { ::new (&mu_) Mutex; }

 private:
  Mutex mu_;
  ForkRegistration fork_registration_{this};
};

// At load time, if not earlier: a fork() while another thread does this would
// leave it half done in the child forever.
[[maybe_unused]] const Mutex* const made_at_load = WaitsMutex::Get();

}  // namespace

// The load that this thread waits for, or null. Guarded by WaitsMutex. A wait
// that would close a cycle is refused, so that there never is one.
thread_local Load* Load::waits_for = nullptr;

Load::Load(Hash32 hash) : hash_(hash), loader_waits_for_(waits_for) {}

void Load::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  has_ended_.SignalAll();
}

bool Load::WaitForEnd() {
  {
    MutexLock waits(WaitsMutex::Get());
    Interleave("load: among the waits");
    if (WaitsForThisThread()) return false;
    waits_for = this;
  }
  {
    MutexLock lock(&mu_);
    while (!ended_) has_ended_.Wait(&mu_);
  }
  Interleave("load: after the wait");
  MutexLock waits(WaitsMutex::Get());
  waits_for = nullptr;
  return true;
}

// Whether this thread runs the loader, or one for which that loader waits, and
// so on. A load that has ended waits for nobody.
bool Load::WaitsForThisThread() {
  for (Load* next = this; next != nullptr;) {
    Load& load = *next;
    // As long as it has not ended, the thread of its loader exists.
    MutexLock lock(&load.mu_);
    if (load.ended_) return false;
    if (&load.loader_waits_for_ == &waits_for) return true;
    next = load.loader_waits_for_;
  }
  return false;
}

void Load::ResetAfterFork() {
  ::new (&mu_) Mutex;
  ::new (&has_ended_) CondVar;
}

}  // namespace wheelcache::internal
