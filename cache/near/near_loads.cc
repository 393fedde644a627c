#include "wheelcache/cache/near/near_loads.h"

#include "absl/time/time.h"

namespace wheelcache::internal {

const NearLoads::Running* NearLoads::FindWriterLocked(
    absl::string_view key) const {
  const auto [begin, end] = running_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const std::thread::id writer = it->second->writer_;
    if (writer != std::thread::id() && writer != std::this_thread::get_id()) {
      return it->second;
    }
  }
  return nullptr;
}

void NearLoads::Supersede(absl::string_view key, int64_t deadline_nanos) {
  if (count_.load() == 0) return;
  MutexLock lock(&mu_);
  const auto [begin, end] = running_.equal_range(key);
  for (auto it = begin; it != end; ++it) it->second->is_superseded_ = true;
  while (FindWriterLocked(key) != nullptr) {
    const int64_t left = deadline_nanos - clock_.NowNanos();
    if (left <= 0) return;
    ended_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
  }
}

void NearLoads::Wake(absl::string_view key) {
  if (count_.load() == 0) return;
  MutexLock lock(&mu_);
  const auto [begin, end] = waiting_.equal_range(key);
  for (auto it = begin; it != end; ++it) it->second->Wake();
}

void NearLoads::WakeAll() {
  if (count_.load() == 0) return;
  MutexLock lock(&mu_);
  for (const auto& [key, sleeper] : waiting_) sleeper->Wake();
}

NearLoads::Running::Running(NearLoads* loads, absl::string_view key)
    : loads_(*loads) {
  MutexLock lock(&loads_.mu_);
  place_ = loads_.running_.emplace(std::string(key), this);
  ++loads_.count_;
}

NearLoads::Running::~Running() {
  MutexLock lock(&loads_.mu_);
  loads_.running_.erase(place_);
  --loads_.count_;
  loads_.ended_.SignalAll();
}

bool NearLoads::Running::BeginWrite() {
  MutexLock lock(&loads_.mu_);
  if (!is_superseded_) writer_ = std::this_thread::get_id();
  return !is_superseded_;
}

NearLoads::Waiting::Waiting(NearLoads* loads, const std::string& key,
                            const std::string& lock)
    : loads_(*loads), sleeper_(loads->clock_.NewSleeper()) {
  MutexLock held(&loads_.mu_);
  key_ = loads_.waiting_.emplace(key, sleeper_.get());
  lock_ = loads_.waiting_.emplace(lock, sleeper_.get());
  ++loads_.count_;
}

NearLoads::Waiting::~Waiting() {
  MutexLock held(&loads_.mu_);
  loads_.waiting_.erase(key_);
  loads_.waiting_.erase(lock_);
  --loads_.count_;
}

}  // namespace wheelcache::internal
