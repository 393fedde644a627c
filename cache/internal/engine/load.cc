#include "wheelcache/cache/internal/engine/load.h"

#include <new>
#include <thread>

#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

void Load::End() {
  MutexLock lock(&mu_);
  ended_ = true;
  has_ended_.SignalAll();
}

bool Load::WaitForEnd() {
  if (std::this_thread::get_id() == loader_thread_) return false;
  MutexLock lock(&mu_);
  while (!ended_) has_ended_.Wait(&mu_);
  return true;
}

void Load::ResetAfterFork() {
  ::new (&mu_) Mutex;
  ::new (&has_ended_) CondVar;
}

}  // namespace wheelcache::internal
