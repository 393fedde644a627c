#include "wheelcache/cache/any_cache.h"

#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/engine.h"

namespace wheelcache {

void AnyCache::Clear() { engine_->Clear(); }

absl::Status AnyCache::SetLimits(int64_t entries, int64_t bytes) {
  return engine_->SetLimits(entries, bytes);
}

CacheLimits AnyCache::limits() const {
  const internal::Room limit = engine_->limit();
  return {limit.entries, limit.bytes};
}

int64_t AnyCache::size() const { return engine_->used().entries; }
int64_t AnyCache::bytes() const { return engine_->used().bytes; }

CacheStats AnyCache::stats() const { return engine_->stats(); }
std::optional<CacheAdvice> AnyCache::Advise() const {
  return engine_->Advise();
}
const CacheOptions& AnyCache::options() const { return engine_->options(); }

int64_t AnyCache::RunMaintenance(int64_t budget) {
  return engine_->RunMaintenance(budget);
}

absl::Duration AnyCache::NextDeadline() const {
  return engine_->NextDeadline();
}

void AnyCache::Stop() { engine_->Stop(); }

const absl::Status& AnyCache::reaper_status() const {
  return engine_->reaper_status();
}

absl::Status AnyCache::CheckInvariants() { return engine_->CheckInvariants(); }

}  // namespace wheelcache
