// Clocks that begin anywhere in the range of readings, below zero too.

#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

// What a clock reads says nothing by itself: only differences do.
class CacheClockRangeTest : public ::testing::TestWithParam<absl::Duration> {
 protected:
  CacheClockRangeTest() {
    options_.clock = &clock_;
    options_.reaper = &reaper_;
    options_.jitter = 0;
    options_.shards = 1;
  }
  ~CacheClockRangeTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  void MakeCache() { cache_ = *Cache<int, int>::Create(options_); }

  SimulatedClock clock_{GetParam()};
  Reaper reaper_{clock_};
  CacheOptions options_;
  std::unique_ptr<Cache<int, int>> cache_;
};

INSTANTIATE_TEST_SUITE_P(
    Readings, CacheClockRangeTest,
    ::testing::Values(-absl::InfiniteDuration(), absl::Hours(-24 * 365 * 200),
                      absl::Hours(-1), absl::Microseconds(-1500),
                      absl::Milliseconds(-1), absl::Nanoseconds(-1),
                      absl::ZeroDuration(), absl::Hours(24 * 365 * 200)));

TEST_P(CacheClockRangeTest, ExpiredEntriesGoWithinTheReclaimDelay) {
  MakeCache();
  for (int key = 1; key <= 100; ++key) {
    cache_->Set(key, key, absl::Milliseconds(key) / 4);
  }
  for (int key = 1; key <= 100; ++key) {
    EXPECT_EQ(cache_->TimeToLive(key), absl::Milliseconds(1) / 4);
    clock_.RunFor(absl::Milliseconds(1) / 4);
    EXPECT_FALSE(cache_->Contains(key));
  }
  EXPECT_GT(cache_->size(), 0);
  clock_.RunFor(options_.reclaim_delay + options_.tick);
  EXPECT_EQ(cache_->size(), 0);
}

TEST_P(CacheClockRangeTest, ReclaimsTheExpiredBeforeEvictingTheLive) {
  options_.reaper = nullptr;
  options_.max_entries = 20;
  MakeCache();
  for (int key = 0; key < 20; ++key) {
    cache_->Set(key, key, absl::Milliseconds(key < 10 ? 1000 : 5));
  }
  clock_.Advance(absl::Milliseconds(10));
  for (int key = 20; key < 30; ++key) cache_->Set(key, key);
  for (int key = 0; key < 30; ++key) {
    EXPECT_EQ(cache_->Contains(key), key < 10 || key >= 20) << key;
  }
  EXPECT_EQ(cache_->stats().evictions, 0);
}

TEST_P(CacheClockRangeTest, NextDeadlineIsWhenMaintenanceIsDue) {
  options_.reaper = nullptr;
  MakeCache();
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
  cache_->Set(1, 1, absl::Milliseconds(5));
  EXPECT_GE(cache_->NextDeadline(), clock_.Now() + absl::Milliseconds(5));
  EXPECT_LT(cache_->NextDeadline(), clock_.Now() + absl::Milliseconds(6));
  clock_.AdvanceTo(cache_->NextDeadline());
  EXPECT_GE(cache_->RunMaintenance(), 1);
  EXPECT_EQ(cache_->size(), 0);
}

// While a reader holds something back, maintenance is to look now and then.
TEST_P(CacheClockRangeTest, NextDeadlineHasComeWhileAReaderHoldsBack) {
  options_.reaper = nullptr;
  MakeCache();
  cache_->Set(1, 1);
  cache_->Visit(1, [&](int) {
    cache_->Set(2, 2);
    cache_->Del(2);
    EXPECT_LE(cache_->NextDeadline(), clock_.Now());
  });
}

// As long as all readings together: a difference of two of them may overflow.
TEST_P(CacheClockRangeTest, EntryLivesForItsTtlHoweverFarTheClockJumps) {
  options_.reaper = nullptr;
  MakeCache();
  cache_->Set(1, 1, absl::Seconds(1));
  cache_->Set(2, 2, absl::Nanoseconds(Clock::kNever - 1));
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_TRUE(cache_->Contains(1));
  clock_.AdvanceTo(absl::InfiniteDuration());
  EXPECT_FALSE(cache_->Contains(1));
  EXPECT_EQ(cache_->Contains(2), GetParam() > absl::ZeroDuration());
}

}  // namespace
}  // namespace wheelcache
