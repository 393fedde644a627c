// Statistics: what counts as what, and the line that tells of it once a minute.

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

class CacheStatsTest : public CacheEnvironment {
 protected:
  // Each value leaves for some reason, or stays.
  static void ExpectSetsAddUp(const CacheStats& stats) {
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.evictions +
                              stats.expirations + stats.replaced);
  }
};

TEST_F(CacheStatsTest, NewCacheHasDoneNothing) {
  for (const CacheStats& stats : {CacheStats(), New<int, int>()->stats()}) {
    EXPECT_EQ(stats.hits, 0);
    EXPECT_EQ(stats.misses, 0);
    EXPECT_EQ(stats.sets, 0);
    EXPECT_EQ(stats.deletes, 0);
    EXPECT_EQ(stats.evictions, 0);
    EXPECT_EQ(stats.expirations, 0);
    EXPECT_EQ(stats.replaced, 0);
    EXPECT_EQ(stats.listener_exceptions, 0);
    EXPECT_EQ(stats.entries, 0);
    EXPECT_EQ(stats.bytes, 0);
    EXPECT_EQ(stats.hit_ratio(), 0.0);
  }
  EXPECT_EQ(CacheStats().resident_bytes, 0);
}

TEST_F(CacheStatsTest, ReadsCountAsHitsOrMisses) {
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  (void)cache->Get(1);
  (void)cache->Find(1);
  cache->Visit(1, [](int) {});
  (void)cache->GetOrLoad(1, [] { return absl::StatusOr<int>(1); });
  (void)cache->Get(2);
  clock_.Advance(absl::Seconds(1));
  (void)cache->Get(1);
  (void)cache->GetOrLoad(3, [] { return absl::StatusOr<int>(1); });
  (void)cache->Peek(1);
  (void)cache->Contains(1);
  (void)cache->TimeToLive(1);
  EXPECT_EQ(cache->stats().hits, 4);
  EXPECT_EQ(cache->stats().misses, 3);
  EXPECT_DOUBLE_EQ(cache->stats().hit_ratio(), 4.0 / 7);
}

TEST_F(CacheStatsTest, SetsAreValuesThatBecameVisible) {
  options_.max_bytes = 1000;
  auto cache = New<int, std::string>();
  cache->Set(1, "stored");
  cache->Set(1, "replaced");
  cache->Set(2, std::string(2000, 'x'));        // Too large.
  cache->Set(3, "dead", absl::ZeroDuration());  // Never alive.
  (void)cache->GetOrLoad(4,
                         [] { return absl::StatusOr<std::string>("loaded"); });
  EXPECT_EQ(cache->stats().sets, 3);
  ExpectSetsAddUp(cache->stats());
}

TEST_F(CacheStatsTest, RefusedValuesAreCounted) {
  options_.max_bytes = 1000;
  auto cache = New<int, std::string>();
  cache->Set(2, std::string(2000, 'x'));
  cache->Set(3, "dead", absl::ZeroDuration());
  (void)cache->GetOrLoad(4, absl::Seconds(-1),
                         [] { return absl::StatusOr<std::string>("loaded"); });
  cache->Set(5, "stored");
  cache->Touch(5, absl::ZeroDuration());  // Deletes.
  EXPECT_EQ(cache->stats().refused, 3);
  ExpectSetsAddUp(cache->stats());
}

TEST_F(CacheStatsTest, LoadsAreCountedByWhatBecameOfThem) {
  using Result = absl::StatusOr<int>;
  auto cache = New<int, int>();
  (void)cache->GetOrLoad(1, [] { return Result(1); });
  (void)cache->GetOrLoad(1, [] { return Result(1); });  // A hit.
  (void)cache->GetOrLoad(2, [] { return Result(absl::NotFoundError("")); });
  EXPECT_THROW(
      (void)cache->GetOrLoad(3, []() -> Result { throw std::logic_error(""); }),
      std::logic_error);
  (void)cache->GetOrLoad(4, [&] {
    cache->Set(4, 0);
    return Result(1);
  });
  (void)cache->GetOrLoad(5, [&] {
    return cache->GetOrLoad(5, [] { return Result(1); });  // Waits, in vain.
  });
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.loads, 5);
  EXPECT_EQ(stats.load_errors, 3);
  EXPECT_EQ(stats.superseded_loads, 1);
  EXPECT_EQ(stats.load_waits, 1);
}

TEST_F(CacheStatsTest, LoadCountsForADayAtMost) {
  auto cache = New<int, int>();
  for (const int hours : {1, 30}) {
    (void)cache->GetOrLoad(hours, [&]() -> absl::StatusOr<int> {
      clock_.Advance(absl::Hours(hours));
      return 0;
    });
  }
  EXPECT_EQ(absl::Nanoseconds(cache->stats().load_nanos), absl::Hours(1 + 24));
}

TEST_F(CacheStatsTest, BoundsOfAgesAreRoundTimes) {
  using absl::Hours, absl::Minutes, absl::Seconds;
  std::vector<absl::Duration> bounds;
  for (const double seconds : kEvictionAgeBounds) {
    bounds.push_back(absl::Seconds(seconds));
  }
  EXPECT_THAT(
      bounds,
      ElementsAre(Seconds(0.1), Seconds(0.3), Seconds(1), Seconds(3),
                  Seconds(10), Seconds(30), Minutes(1), Minutes(3), Minutes(10),
                  Minutes(30), Hours(1), Hours(3), Hours(10), Hours(24),
                  Hours(3 * 24), Hours(7 * 24), Hours(30 * 24)));
}

TEST_F(CacheStatsTest, EvictionsTellTheAgeWhicheverShardTheyComeFrom) {
  options_.max_entries = 64;
  options_.shards = 8;
  auto cache = New<int, int>();
  for (int i = 0; i < 64; ++i) cache->Set(i, i, absl::Seconds(200));
  clock_.Advance(absl::Seconds(50));
  for (int i = 64; i < 96; ++i) cache->Set(i, i, absl::Seconds(200));
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.evictions, 32);
  // By chance, a shard may be left with fresh values alone.
  const int64_t old = stats.eviction_age.counts[6];  // 30 to 60 s.
  EXPECT_GE(old, 24);
  EXPECT_EQ(stats.eviction_age.counts[0], 32 - old);
  EXPECT_DOUBLE_EQ(stats.eviction_age.sum, static_cast<double>(old) * 50);
  EXPECT_EQ(stats.eviction_life_left.counts[7], old);  // 0.75.
  EXPECT_EQ(stats.eviction_life_left.counts[9], 32 - old);
}

TEST_F(CacheStatsTest, QuantileIsWithinTheBucketOfItsValue) {
  Histogram histogram = {kEvictionLifeLeftBounds};
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  histogram.counts[2] = 10;
  EXPECT_DOUBLE_EQ(histogram.Quantile(0), 0.2);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.5), 0.25);
  EXPECT_DOUBLE_EQ(histogram.Quantile(1), 0.3);
  histogram.counts[4] = 10;
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.5), 0.3);
  EXPECT_DOUBLE_EQ(histogram.Quantile(0.75), 0.45);
  Histogram beyond = {kEvictionAgeBounds};
  beyond.counts[17] = 1;
  EXPECT_EQ(beyond.Quantile(0.5), 2592000);
}

TEST_F(CacheStatsTest, EachCauseOfRemovalIsCounted) {
  options_.max_entries = 3;
  auto cache = New<int, int>();
  for (int i = 0; i < 8; ++i) cache->Set(i, i);  // Evicts 5.
  cache->Set(7, 0);
  cache->Set(7, 1);
  cache->Del(7);
  cache->Touch(6, absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  cache->RunMaintenance();
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.evictions, 5);
  EXPECT_EQ(stats.replaced, 2);
  EXPECT_EQ(stats.deletes, 1);
  EXPECT_EQ(stats.expirations, 1);
  EXPECT_EQ(stats.entries, 1);
  EXPECT_EQ(stats.bytes, cache->bytes());
  ExpectSetsAddUp(stats);
}

TEST_F(CacheStatsTest, CountsOfManyThreadsAddUp) {
  constexpr int kThreads = 20;  // More than there are stripes of counters.
  constexpr int kCalls = 1000;
  options_.max_entries = 64;
  options_.shards = 4;
  auto cache = New<int, int>();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kCalls; ++i) {
        const int key = static_cast<int>(random() % 100);
        (void)cache->Get(key);
        cache->Set(key, i, absl::Milliseconds(1 + random() % 20));
        if (random() % 8 == 0) cache->Del(key);
        if (random() % 8 == 0) clock_.Advance(absl::Milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.hits + stats.misses, kThreads * kCalls);
  EXPECT_EQ(stats.sets, kThreads * kCalls);
  ExpectSetsAddUp(stats);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// As go-zero writes it, with a fraction in the ratio.
TEST_F(CacheStatsTest, LineTellsOfTheMinuteBetweenTwoReadings) {
  CacheStats before;
  before.hits = 100;
  before.misses = 50;
  CacheStats after;
  after.hits = 109;
  after.misses = 53;
  after.entries = 7;
  EXPECT_EQ(StatsLine("sessions", before, after),
            "cache(sessions) - qpm: 12, hit_ratio: 75.0%, elements: 7, "
            "hit: 9, miss: 3");
  EXPECT_EQ(StatsLine("idle", after, after),
            "cache(idle) - qpm: 0, hit_ratio: 0.0%, elements: 7, "
            "hit: 0, miss: 0");
}

class StatsLogTest : public CacheStatsTest {
 protected:
  StatsLogTest() {
    options_.name = "proc";
    options_.reaper = &reaper_;
    options_.stats_log = [this](absl::string_view line) {
      lines_.emplace_back(line);
    };
  }

  std::vector<std::string> RunForAMinute() {
    clock_.RunFor(absl::Minutes(1));
    return std::exchange(lines_, {});
  }

  std::vector<std::string> lines_;
  Reaper reaper_{clock_};
};

TEST_F(StatsLogTest, TellsOnceAMinuteWhatWasDoneInIt) {
  auto cache = New<int, int>();
  cache->Set(1, 1);
  for (int i = 0; i < 3; ++i) (void)cache->Get(1);
  (void)cache->Get(2);
  EXPECT_THAT(RunForAMinute(),
              ElementsAre("cache(proc) - qpm: 4, hit_ratio: 75.0%, "
                          "elements: 1, hit: 3, miss: 1"));
  (void)cache->Get(2);
  EXPECT_THAT(RunForAMinute(),
              ElementsAre("cache(proc) - qpm: 1, hit_ratio: 0.0%, "
                          "elements: 1, hit: 0, miss: 1"));
}

TEST_F(StatsLogTest, IsSilentWhileTheCacheIsIdle) {
  auto cache = New<int, int>();
  EXPECT_THAT(RunForAMinute(), ElementsAre());
  (void)cache->Get(1);
  EXPECT_EQ(RunForAMinute().size(), 1u);
  cache->Set(1, 1);
  EXPECT_THAT(RunForAMinute(), ElementsAre());
  (void)cache->Get(1);
  EXPECT_EQ(RunForAMinute().size(), 1u);
}

TEST_F(StatsLogTest, IsOnlyWrittenOnRequest) {
  options_.stats_log = nullptr;
  auto cache = New<int, int>();
  clock_.WaitUntilAsleep();
  const int64_t wake_ups = clock_.wake_ups();
  (void)cache->Get(1);
  EXPECT_THAT(RunForAMinute(), ElementsAre());
  EXPECT_EQ(clock_.wake_ups(), wake_ups);
}

TEST_F(StatsLogTest, IsWrittenByRunMaintenanceWhereThereIsNoReaper) {
  options_.reaper = nullptr;
  auto cache = New<int, int>();
  (void)cache->Get(1);
  EXPECT_EQ(cache->NextDeadline(), absl::Minutes(1));
  cache->RunMaintenance();
  EXPECT_THAT(lines_, ElementsAre());
  clock_.Advance(absl::Minutes(1));
  cache->RunMaintenance();
  cache->RunMaintenance();
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_EQ(cache->NextDeadline(), absl::Minutes(2));
}

TEST_F(StatsLogTest, MayCallTheCacheAndThrow) {
  Cache<int, int>* cache_view = nullptr;
  options_.stats_log = [&](absl::string_view line) {
    lines_.emplace_back(line);
    cache_view->Set(1, 1, absl::Seconds(1));
    cache_view->Clear();
    (void)cache_view->Get(1);
    throw std::runtime_error("from the log");
  };
  auto cache = New<int, int>();
  cache_view = cache.get();
  (void)cache->Get(1);
  EXPECT_EQ(RunForAMinute().size(), 1u);
  EXPECT_EQ(reaper_.exceptions(), 1);
  EXPECT_EQ(RunForAMinute().size(), 1u);
}

}  // namespace
}  // namespace wheelcache
