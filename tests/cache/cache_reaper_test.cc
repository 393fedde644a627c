// What the background thread does for a cache while nobody calls.

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Notification;

class CacheReaperTest : public CacheEnvironment {
 protected:
  CacheReaperTest() {
    options_.reaper = &reaper_;
    clock_.Advance(absl::Hours(1));
  }

  std::unique_ptr<Cache<int, int>> NewCache() {
    return New<int, int>(log_.hooks());
  }

  RemovalLog<int, int> log_;
  Reaper reaper_{clock_};
};

TEST_F(CacheReaperTest, ExpiredEntriesGoWithinTheReclaimDelay) {
  for (const absl::Duration delay :
       {absl::ZeroDuration(), absl::Milliseconds(100), absl::Seconds(5)}) {
    options_.reclaim_delay = delay;
    auto cache = NewCache();
    cache->Set(1, 1, absl::Seconds(2));
    clock_.RunFor(absl::Seconds(2) - absl::Nanoseconds(1));
    EXPECT_EQ(cache->size(), 1);
    clock_.RunFor(delay + options_.tick);
    EXPECT_EQ(cache->size(), 0);
    EXPECT_EQ(cache->bytes(), 0);
    EXPECT_THAT(log_.Take(), ElementsAre(Removal<int, int>{
                                 1, 1, RemovalCause::kExpired, {}}));
  }
}

TEST_F(CacheReaperTest, EachEntryGoesInItsTurn) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = NewCache();
    for (int i = 1; i <= 300; ++i) cache->Set(i, i, absl::Seconds(i * 3));
    for (int i = 1; i <= 300; ++i) {
      clock_.RunFor(absl::Seconds(3) - absl::Nanoseconds(1));
      EXPECT_EQ(cache->size(), 301 - i) << shards;
      clock_.RunFor(absl::Nanoseconds(1));
    }
    clock_.RunFor(options_.reclaim_delay);
    EXPECT_EQ(cache->size(), 0) << shards;
  }
}

TEST_F(CacheReaperTest, NothingWakesUpWhileNothingIsDue) {
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2, absl::Hours(2));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Hours(2) - absl::Nanoseconds(1));
  EXPECT_EQ(clock_.wake_ups(), before);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
  clock_.RunFor(absl::Hours(1000));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
}

TEST_F(CacheReaperTest, TrafficDoesNotWakeTheThread) {
  auto cache = NewCache();
  cache->Set(0, 0, absl::Seconds(1));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  for (int i = 1; i <= 1000; ++i) {
    cache->Set(i, i, absl::Hours(1));
    cache->Get(i);
    cache->Touch(i, absl::Hours(2));
    cache->Del(i);
  }
  clock_.WaitUntilAsleep();
  EXPECT_EQ(clock_.wake_ups(), before);
}

// A thousand entries that expire within one reclaim_delay cost one wake-up.
TEST_F(CacheReaperTest, OneWakeUpReclaimsAllThatIsDue) {
  options_.maintenance_budget = 4096;
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) {
    cache->Set(i, i, absl::Seconds(10) + absl::Microseconds(99 * i));
  }
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Seconds(10) + options_.reclaim_delay);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(clock_.wake_ups(), before + 1);
}

TEST_F(CacheReaperTest, EarlierDeadlineWakesTheThreadEarlier) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::Hours(5));
  cache->Set(2, 2, absl::Hours(5));
  clock_.WaitUntilAsleep();
  cache->Touch(1, absl::Seconds(1));
  cache->Set(2, 2, absl::Seconds(2));
  clock_.RunFor(absl::Seconds(1) + options_.reclaim_delay);
  EXPECT_EQ(cache->size(), 1);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheReaperTest, MassExpiryIsWorkedOffWhateverTheBudget) {
  for (const int64_t budget : {int64_t{1}, int64_t{64}, int64_t{1} << 60,
                               std::numeric_limits<int64_t>::max()}) {
    for (const int shards : {1, 16}) {
      options_.maintenance_budget = budget;
      options_.shards = shards;
      auto cache = NewCache();
      for (int i = 0; i < 1000; ++i) cache->Set(i, i, absl::Seconds(1));
      clock_.RunFor(absl::Seconds(1) + options_.reclaim_delay);
      EXPECT_EQ(cache->size(), 0) << budget << " " << shards;
    }
  }
}

TEST_F(CacheReaperTest, OneThreadServesAllCaches) {
  std::vector<std::unique_ptr<Cache<int, int>>> caches;
  for (int i = 0; i < 20; ++i) {
    caches.push_back(NewCache());
    caches.back()->Set(i, i, absl::Seconds(1 + i));
  }
  clock_.RunFor(absl::Seconds(21));
  const auto removals = log_.Take();
  ASSERT_EQ(removals.size(), 20u);
  for (const auto& removal : removals) {
    EXPECT_EQ(removal.thread, removals[0].thread);
    EXPECT_NE(removal.thread, std::this_thread::get_id());
  }
}

TEST_F(CacheReaperTest, ProcessThatWasStoppedCatchesUpAtOnce) {
  auto cache = NewCache();
  for (int i = 0; i < 100; ++i) cache->Set(i, i, absl::Seconds(i));
  clock_.Advance(absl::Hours(24 * 365));
  clock_.WaitUntilAsleep();
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheReaperTest, EndOfACacheWaitsForTheMaintenanceThatRuns) {
  Notification started;
  Notification may_end;
  Cache<int, int>::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    started.Notify();
    may_end.Wait();
  };
  auto cache = New<int, int>(hooks);
  cache->Set(1, 1, absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  started.Wait();
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};
  std::thread owner([&] {
    ending.store(true);
    cache = nullptr;
    ended.store(true);
  });
  while (!ending.load()) std::this_thread::yield();
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended.load());
  may_end.Notify();
  owner.join();
}

// Without a thread, those who call do its work.
TEST_F(CacheReaperTest, CacheWithoutAReaperReclaimsWhenItIsUsed) {
  options_.reaper = nullptr;
  options_.shards = 1;
  auto cache = NewCache();
  for (int i = 0; i < 10; ++i) cache->Set(i, i, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->size(), 10);
  cache->Set(10, 10);
  EXPECT_EQ(cache->size(), 1);
}

}  // namespace
}  // namespace wheelcache
