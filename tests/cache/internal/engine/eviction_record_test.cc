#include "wheelcache/cache/internal/engine/eviction_record.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "gtest/gtest.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// The statistics after one eviction, at `now`.
CacheStats Evict(int64_t created, int64_t deadline, int64_t now) {
  EntryHeader entry;
  entry.SetCreated(CreationTimeAt(created));
  entry.deadline_nanos.store(deadline);
  EvictionRecord record;
  record.Add(entry, {now, CreationTimeAt(now)});
  CacheStats stats;
  record.AddTo(&stats);
  EXPECT_EQ(stats.evictions, 1);
  EXPECT_EQ(stats.eviction_age.count(), 1);
  return stats;
}

// The bucket that has something.
size_t BucketOf(const Histogram& histogram) {
  size_t bucket = 0;
  while (histogram.counts[bucket] == 0) ++bucket;
  return bucket;
}

TEST(EvictionRecordTest, AgeIsInTheBucketOfTheFirstBoundThatIsNotLess) {
  for (size_t i = 0; i < std::size(kEvictionAgeBounds); ++i) {
    const auto bound =
        static_cast<int64_t>(kEvictionAgeBounds[i] * 10 + 0.5) * kSecond / 10;
    const auto bucket = [&](int64_t age) {
      return BucketOf(Evict(0, Clock::kNever, age).eviction_age);
    };
    EXPECT_EQ(bucket(bound - kAgeStepNanos), i) << bound;
    EXPECT_EQ(bucket(bound), i) << bound;
    EXPECT_EQ(bucket(bound + kAgeStepNanos), i + 1) << bound;
    EXPECT_DOUBLE_EQ(Evict(0, Clock::kNever, bound).eviction_age.sum,
                     kEvictionAgeBounds[i]);
  }
  EXPECT_EQ(BucketOf(Evict(7, Clock::kNever, 7).eviction_age), 0u);
}

TEST(EvictionRecordTest, EveryAgeIsInTheBucketThatASearchFinds) {
  for (int shift = 0; shift < 32; ++shift) {
    for (int64_t steps :
         {(int64_t{1} << shift) - 1, int64_t{1} << shift,
          (int64_t{1} << shift) + 1, int64_t{3} << shift >> 1}) {
      if (steps > int64_t{kMaxAge}) continue;
      const int64_t age = steps * kAgeStepNanos;
      size_t expected = 0;
      while (expected < std::size(kEvictionAgeBounds) &&
             static_cast<double>(age) / 1e9 >
                 kEvictionAgeBounds[expected] + 1e-9) {
        ++expected;
      }
      EXPECT_EQ(BucketOf(Evict(0, Clock::kNever, age).eviction_age), expected)
          << steps;
    }
  }
}

TEST(EvictionRecordTest, ClockThatWasTurnedBackGivesNoAge) {
  const CacheStats stats = Evict(100 * kSecond, Clock::kNever, 50 * kSecond);
  EXPECT_EQ(BucketOf(stats.eviction_age), 0u);
  EXPECT_EQ(stats.eviction_age.sum, 0);
}

TEST(EvictionRecordTest, PartOfTheLifeThatIsLeftIsInItsTenth) {
  const auto bucket = [](int64_t lived, int64_t left) {
    return BucketOf(Evict(0, lived + left, lived).eviction_life_left);
  };
  for (size_t tenth = 1; tenth <= 10; ++tenth) {
    const auto left = static_cast<int64_t>(tenth) * kSecond;
    // A bound belongs to the bucket below it.
    EXPECT_EQ(bucket(10 * kSecond - left, left), tenth - 1);
    if (tenth == 10) continue;
    EXPECT_EQ(bucket(10 * kSecond - left, left + 1), tenth);
    EXPECT_EQ(bucket(10 * kSecond - left, left - 1), tenth - 1);
  }
}

TEST(EvictionRecordTest, WhatHasExpiredHasNothingLeft) {
  for (int64_t late : {int64_t{0}, int64_t{1}, 5 * kSecond}) {
    const CacheStats stats = Evict(0, kSecond, kSecond + late);
    EXPECT_EQ(BucketOf(stats.eviction_life_left), 0u);
  }
  EXPECT_EQ(BucketOf(Evict(0, 0, 0).eviction_life_left), 0u);
}

TEST(EvictionRecordTest, WhatNeverExpiresHasAnAgeAndNoLife) {
  const CacheStats stats = Evict(0, Clock::kNever, kSecond);
  EXPECT_EQ(stats.eviction_life_left.count(), 0);
  EXPECT_EQ(stats.eviction_life_left.sum, 0);
}

TEST(EvictionRecordTest, LivesOfAnyLengthAtAnyTimeDoNotOverflow) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = Clock::kNever - 1;
  // Just stored, for 292 years.
  EXPECT_EQ(BucketOf(Evict(0, kMost, 0).eviction_life_left), 9u);
  EXPECT_EQ(BucketOf(Evict(kLeast, -2, kLeast).eviction_life_left), 9u);
  // The greatest age, of twice that.
  const int64_t age = int64_t{kMaxAge} * kAgeStepNanos;
  const int64_t start = kLeast / kAgeStepNanos * kAgeStepNanos;
  EXPECT_EQ(BucketOf(Evict(0, 2 * age, age).eviction_life_left), 4u);
  EXPECT_EQ(
      BucketOf(Evict(start, start + 2 * age, start + age).eviction_life_left),
      4u);
}

TEST(EvictionRecordTest, SumOfLivesTakesTheMiddleOfEachBucket) {
  EXPECT_DOUBLE_EQ(Evict(0, 10 * kSecond, 2 * kSecond).eviction_life_left.sum,
                   0.75);
}

}  // namespace
}  // namespace wheelcache::internal
