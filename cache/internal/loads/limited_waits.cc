#include "wheelcache/cache/internal/loads/limited_waits.h"

namespace wheelcache::internal {

auto LimitedWaits::Add(int64_t deadline_nanos, Wait wait) -> Id {
  MutexLock lock(&mu_);
  const Id id = {deadline_nanos, ++last_};
  waits_.emplace(id, wait);
  UpdateDueLocked();
  return id;
}

EntryRef LimitedWaits::Remove(Id id) {
  MutexLock lock(&mu_);
  const auto wait = waits_.find(id);
  if (wait == waits_.end()) return 0;
  const EntryRef placeholder = wait->second.placeholder;
  waits_.erase(wait);
  UpdateDueLocked();
  return placeholder;
}

auto LimitedWaits::TakeLate(int64_t now_nanos) -> std::optional<Wait> {
  if (due_nanos() > now_nanos) return std::nullopt;
  MutexLock lock(&mu_);
  const auto wait = waits_.begin();
  if (wait == waits_.end() || wait->first.first > now_nanos) {
    return std::nullopt;
  }
  const Wait late = wait->second;
  waits_.erase(wait);
  UpdateDueLocked();
  return late;
}

void LimitedWaits::UpdateDueLocked() {
  due_.store(waits_.empty() ? Clock::kNever : waits_.begin()->first.first,
             std::memory_order_seq_cst);
}

}  // namespace wheelcache::internal
