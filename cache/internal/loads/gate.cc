#include "wheelcache/cache/internal/loads/gate.h"

namespace wheelcache::internal {

Gate::Visit::Visit(Gate* gate) : gate_(*gate) {
  MutexLock lock(&gate_.mu_);
  if (gate_.closed_) return;
  admitted_ = true;
  next_ = gate_.inside_;
  gate_.inside_ = this;
}

Gate::Visit::~Visit() {
  if (!admitted_) return;
  MutexLock lock(&gate_.mu_);
  Visit** link = &gate_.inside_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  gate_.left_.SignalAll();
}

bool Gate::SetClosesLocked(bool closes) {
  bool inside = false;
  for (Visit* visit = inside_; visit != nullptr; visit = visit->next_) {
    if (visit->thread_ != std::this_thread::get_id()) continue;
    visit->closes_ = closes;
    inside = true;
  }
  return inside;
}

// Whether another thread is inside, for a thread that is or is not.
bool Gate::MustWaitLocked(bool inside) const {
  for (const Visit* visit = inside_; visit != nullptr; visit = visit->next_) {
    if (visit->thread_ == std::this_thread::get_id()) continue;
    // It may be waiting for the visit of this thread.
    if (!(inside && visit->closes_)) return true;
  }
  return false;
}

void Gate::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  const bool inside = SetClosesLocked(true);
  if (inside) left_.SignalAll();
  while (MustWaitLocked(inside)) left_.Wait(&mu_);
  if (inside) SetClosesLocked(false);
}

}  // namespace wheelcache::internal
