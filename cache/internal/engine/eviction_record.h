// Counts the evictions of a shard by where in their lives the entries were: how
// old, and how far on the way to their deadline.
//
// All bytes zero is a record of nothing, so in fresh pages it takes no memory
// until an entry is evicted.
//
// Threads. Add belongs to the lock of the shard. AddTo takes no lock.
//
// Cost. Some 35 instructions, one of them a division, and two cache lines.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_RECORD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_RECORD_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/numeric/bits.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// The buckets of CacheStats::eviction_age, for ages in steps of age.h.
class AgeBuckets {
 public:
  static constexpr size_t kCount = std::size(kEvictionAgeBounds) + 1;

  constexpr AgeBuckets() {
    // Each bound is a whole number of steps; its product may fall just short.
    constexpr double kStepsPerSecond = 1e9 / kAgeStepNanos;
    for (size_t i = 0; i + 1 < kCount; ++i) {
      const double steps = kEvictionAgeBounds[i] * kStepsPerSecond;
      bounds_[i] = static_cast<uint32_t>(steps + 1e-3);
    }
    bounds_[kCount - 1] = ~uint32_t{0};
    // The smallest age with this highest bit belongs there.
    for (size_t bit = 0; bit < 32; ++bit) {
      if (bit > 0) first_[bit] = first_[bit - 1];
      while (bounds_[first_[bit]] < uint32_t{1} << bit) ++first_[bit];
    }
  }

  // A bound is at least twice the one before: between two powers of two, there
  // is one at most.
  size_t Of(uint32_t age) const {
    const auto highest = static_cast<uint32_t>(absl::bit_width(age | 1)) - 1;
    const size_t first = first_[highest];
    return first + (age > bounds_[first] ? 1 : 0);
  }

 private:
  std::array<uint32_t, kCount> bounds_ = {};
  std::array<uint8_t, 32> first_ = {};  // By the highest bit of the age.
};
inline constexpr AgeBuckets kAgeBuckets;

class WHEELCACHE_EXPORT EvictionRecord {
 public:
  // A reading of the clock, and the same as a time of creation.
  struct Time {
    Time(int64_t now_nanos, CreationTime now_steps)
        : nanos(now_nanos), steps(now_steps) {}
    explicit Time(const Clock& clock)
        : nanos(clock.NowNanos()), steps(CreationTimeAt(nanos)) {}

    int64_t nanos;
    CreationTime steps;
  };

  EvictionRecord() = default;
  EvictionRecord(const EvictionRecord&) = delete;
  EvictionRecord& operator=(const EvictionRecord&) = delete;

  // Records that the entry is evicted now.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(const EntryHeader& entry, Time now) {
    const uint64_t age = AgeSteps(entry.created(), now.steps);
    age_sum_.store(Read(age_sum_) + age, std::memory_order_relaxed);
    CountIn(&ages_[kAgeBuckets.Of(static_cast<uint32_t>(age))]);
    const int64_t deadline = entry.deadline();
    if (deadline == Clock::kNever) return;
    // Not reclaimed yet, if it expired within the present tick.
    size_t bucket = kLifeBuckets - 1;
    if (ABSL_PREDICT_TRUE(now.nanos < deadline)) {
      // Without a sign: no overflow where the clock began below zero, nor in
      // the product; nor in the sum.
      const uint64_t left = std::min(
          static_cast<uint64_t>(deadline) - static_cast<uint64_t>(now.nanos),
          uint64_t{1} << 63);
      const uint64_t lived = age * kAgeStepNanos;
      bucket = lived * kLifeBuckets / (lived + left);
    }
    CountIn(&lived_[bucket]);
  }

  // The bytes that were charged to it.
  void AddBytes(int64_t bytes) {
    bytes_.store(Read(bytes_) + static_cast<uint64_t>(bytes),
                 std::memory_order_relaxed);
  }

  // Adds what was recorded to the statistics.
  void AddTo(CacheStats* stats) const;

 private:
  using Number = std::atomic<uint64_t>;  // Relaxed: to look at.

  static constexpr size_t kLifeBuckets = std::size(kEvictionLifeLeftBounds);

  static uint64_t Read(const Number& number) {
    return number.load(std::memory_order_relaxed);
  }
  // No other thread writes.
  ABSL_ATTRIBUTE_ALWAYS_INLINE static void CountIn(Number* bucket) {
    bucket->store(Read(*bucket) + 1, std::memory_order_relaxed);
  }

  alignas(ABSL_CACHELINE_SIZE) Number age_sum_{0};  // In steps.
  Number bytes_{0};
  // By the tenths of their lives that entries had had.
  std::array<Number, kLifeBuckets> lived_ = {};
  std::array<Number, AgeBuckets::kCount> ages_ = {};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_RECORD_H_
