#include "wheelcache/cache/internal/engine/advisor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>

namespace wheelcache::internal {

std::unique_ptr<Advisor> Advisor::Make(Room limits, const Clock* clock) {
  return std::unique_ptr<Advisor>(new (std::nothrow) Advisor(limits, clock));
}

Advisor::Advisor(Room limits, const Clock* clock)
    : clock_(*clock),
      threshold_(0),
      sample_({limits.entries, limits.bytes}, clock->NowNanos()) {
  threshold_.store(sample_.threshold(), std::memory_order_relaxed);
}

void Advisor::Read(Hash32 hash, bool hit) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed) || !mu_.TryLock()) return;
  sample_.Read(mixed, hit, clock_.CoarseNowNanos());
  mu_.Unlock();
}

void Advisor::Refuse(Hash32 hash) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed) || !mu_.TryLock()) return;
  sample_.Refuse(mixed);
  mu_.Unlock();
}

void Advisor::Store(Hash32 hash, ReuseSample::Stored stored) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed)) return;
  MutexLock lock(&mu_);
  sample_.Store(mixed, stored, clock_.CoarseNowNanos());
  ShowThreshold();
}

void Advisor::Delete(Hash32 hash) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed)) return;
  MutexLock lock(&mu_);
  sample_.Delete(mixed);
}

void Advisor::Expire(Hash32 hash) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed)) return;
  MutexLock lock(&mu_);
  sample_.Expire(mixed);
}

void Advisor::Touch(Hash32 hash, int64_t deadline_nanos) {
  const uint32_t mixed = Mix(hash);
  if (!IsSampled(mixed)) return;
  MutexLock lock(&mu_);
  sample_.Touch(mixed, deadline_nanos, clock_.CoarseNowNanos());
}

void Advisor::DeleteAll() {
  MutexLock lock(&mu_);
  sample_.DeleteAll();
}

void Advisor::SetLimits(Room limits, Reads until_now) {
  MutexLock lock(&mu_);
  sample_.SetLimits({limits.entries, limits.bytes});
  hits_before_.store(until_now.hits, std::memory_order_relaxed);
  misses_before_.store(until_now.misses, std::memory_order_relaxed);
  ShowThreshold();
}

CacheAdvice Advisor::Advise(Reads now) const {
  const auto since = [](int64_t count, const std::atomic<int64_t>& before) {
    return static_cast<double>(count - before.load(std::memory_order_relaxed));
  };
  const double hits = since(now.hits, hits_before_);
  const double misses = since(now.misses, misses_before_);
  const double reads = hits + misses;
  const auto ratio_at = [&](ReuseSample::Size size) {
    if (reads <= 0) return 0.0;
    double more = sample_.more_hits(size);
    // As the same part of the misses as of those of the sample, of which there
    // are more or fewer by chance.
    if (more > 0) more *= misses / std::max(sample_.sampled_misses(), more);
    return std::clamp((hits + more) / reads, 0.0, 1.0);
  };
  const auto misses_by = [&](ReuseSample::Cause cause) {
    return static_cast<int64_t>(std::llround(sample_.misses(cause)));
  };
  CacheAdvice advice;
  advice.half = ratio_at(ReuseSample::kHalf);
  advice.same = ratio_at(ReuseSample::kSame);
  advice.twice = ratio_at(ReuseSample::kTwice);
  advice.four_times = ratio_at(ReuseSample::kFourTimes);
  advice.first_uses = misses_by(ReuseSample::kFirstUse);
  advice.expired = misses_by(ReuseSample::kExpired);
  advice.evicted = misses_by(ReuseSample::kEvicted);
  advice.deleted = misses_by(ReuseSample::kDeleted);
  advice.sampled =
      ReuseSample::RateOf(threshold_.load(std::memory_order_relaxed));
  return advice;
}

}  // namespace wheelcache::internal
