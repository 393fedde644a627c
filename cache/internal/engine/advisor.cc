#include "wheelcache/cache/internal/engine/advisor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "wheelcache/cache/internal/advice/reuse_sample.h"

namespace wheelcache::internal {

Advisor::Advisor(bool on, Room limits, const Clock* clock)
    : clock_(*clock),
      sample_(on ? new (std::nothrow) ReuseSample(
                       {limits.entries, limits.bytes}, clock->NowNanos())
                 : nullptr) {
  if (sample_ != nullptr) threshold_ = sample_->threshold();
}

Advisor::~Advisor() = default;

void Advisor::RecordIfSampled(Hash32 hash, Change change) {
  const uint32_t key = KeyOf(hash);
  if (!IsSampled(key)) return;
  MutexLock lock(&mu_);
  change(key);
  threshold_.store(sample_->threshold(), std::memory_order_relaxed);
}

void Advisor::TryRecordIfSampled(Hash32 hash, Change change) {
  const uint32_t key = KeyOf(hash);
  if (!IsSampled(key) || !mu_.TryLock()) return;
  change(key);
  mu_.Unlock();
}

void Advisor::ReadIfSampled(Hash32 hash, bool hit) {
  TryRecordIfSampled(hash,
                     [&](uint32_t key) { sample_->Read(key, hit, Now()); });
}

void Advisor::RefuseIfSampled(Hash32 hash) {
  TryRecordIfSampled(hash, [&](uint32_t key) { sample_->Refuse(key); });
}

void Advisor::ExtendIfSampled(Hash32 hash, int64_t deadline_nanos) {
  TryRecordIfSampled(
      hash, [&](uint32_t key) { sample_->Touch(key, deadline_nanos, Now()); });
}

void Advisor::TouchIfSampled(Hash32 hash, int64_t deadline_nanos) {
  RecordIfSampled(
      hash, [&](uint32_t key) { sample_->Touch(key, deadline_nanos, Now()); });
}

bool Advisor::StoreIfSampled(Hash32 hash, const SampledEntry& stored,
                             int64_t* untold) {
  if (!stored.replaces) CountInsertion(1, untold);
  const bool sampled = IsSampled(KeyOf(hash));
  RecordIfSampled(hash,
                  [&](uint32_t key) { sample_->Store(key, stored, Now()); });
  return sampled;
}

// What would be evicted, the sample finds out by itself.
void Advisor::RemoveIfSampled(Hash32 hash, RemovalCause cause,
                              int64_t* untold) {
  if (cause == RemovalCause::kEvicted) return;
  CountInsertion(-1, untold);
  RecordIfSampled(hash, [&](uint32_t key) {
    if (cause == RemovalCause::kExpired) {
      sample_->Expire(key);
    } else {
      sample_->Delete(key);
    }
  });
}

void Advisor::CountInsertion(int by, int64_t* untold) {
  constexpr int64_t kStride = 16;
  *untold += by;
  if (std::abs(*untold) < kStride) return;
  sample_->CountInsertions(std::exchange(*untold, int64_t{0}));
}

void Advisor::DeleteAll() {
  if (!on()) return;
  MutexLock lock(&mu_);
  sample_->DeleteAll();
}

void Advisor::SetLimits(Room limits, Reads until_now) {
  if (!on()) return;
  MutexLock lock(&mu_);
  sample_->SetLimits({limits.entries, limits.bytes});
  hits_before_.store(until_now.hits, std::memory_order_relaxed);
  misses_before_.store(until_now.misses, std::memory_order_relaxed);
  const MoreHits more = *more_hits();
  half_before_.store(more.half, std::memory_order_relaxed);
  twice_before_.store(more.twice, std::memory_order_relaxed);
  four_times_before_.store(more.four_times, std::memory_order_relaxed);
  sampled_misses_before_.store(more.misses, std::memory_order_relaxed);
  threshold_.store(sample_->threshold(), std::memory_order_relaxed);
}

void Advisor::FollowLimits(Room limits) {
  if (!on()) return;
  MutexLock lock(&mu_);
  sample_->FollowLimits({limits.entries, limits.bytes});
}

auto Advisor::more_hits() const -> std::optional<MoreHits> {
  if (!on()) return std::nullopt;
  return MoreHits{sample_->more_hits(ReuseSample::kHalf),
                  sample_->more_hits(ReuseSample::kTwice),
                  sample_->more_hits(ReuseSample::kFourTimes),
                  sample_->sampled_misses()};
}

std::optional<CacheAdvice> Advisor::Advise(Reads now) const {
  if (!on()) return std::nullopt;
  const auto since = [](auto count, const auto& before) {
    return static_cast<double>(count - before.load(std::memory_order_relaxed));
  };
  const MoreHits sampled = *more_hits();
  const double hits = since(now.hits, hits_before_);
  const double misses = since(now.misses, misses_before_);
  const double sampled_misses = since(sampled.misses, sampled_misses_before_);
  const double reads = hits + misses;
  const auto ratio_with = [&](double more) {
    if (reads <= 0) return 0.0;
    // As the same part of the misses as of those of the sample, of which there
    // are more or fewer by chance.
    if (more > 0) more *= misses / std::max(sampled_misses, more);
    return std::clamp((hits + more) / reads, 0.0, 1.0);
  };
  const auto misses_by = [&](ReuseSample::Cause cause) {
    return static_cast<int64_t>(std::llround(sample_->misses(cause)));
  };
  CacheAdvice advice;
  advice.half = ratio_with(since(sampled.half, half_before_));
  advice.same = ratio_with(0);
  advice.twice = ratio_with(since(sampled.twice, twice_before_));
  advice.four_times = ratio_with(since(sampled.four_times, four_times_before_));
  advice.first_uses = misses_by(ReuseSample::kFirstUse);
  advice.expired = misses_by(ReuseSample::kExpired);
  advice.evicted = misses_by(ReuseSample::kEvicted);
  advice.deleted = misses_by(ReuseSample::kDeleted);
  advice.sampled =
      ReuseSample::RateOf(threshold_.load(std::memory_order_relaxed));
  return advice;
}

}  // namespace wheelcache::internal
