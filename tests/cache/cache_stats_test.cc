// Statistics: what counts as what; the line that tells of them once a minute;
// and Cache::Advise, against caches with the limits that it advises on.

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

// Each value leaves for some reason, or stays.
bool AddsUp(const CacheStats& stats) {
  return stats.sets == stats.entries + stats.deletes + stats.evictions +
                           stats.expirations + stats.replaced;
}

class CacheStatsTest : public CacheEnvironment {};

TEST_F(CacheStatsTest, AllIsZeroAtFirst) {
  CacheStats stats;
  stats.advice = CacheAdvice();
  stats.ForEachMetric([](const Metric& metric) {
    EXPECT_EQ(metric.value, 0) << metric.name << " " << metric.label;
  });
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
  EXPECT_TRUE(AddsUp(cache->stats()));
}

// Promise: Observable
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

TEST_F(CacheStatsTest, EvictedBytesAreThoseThatWereChargedToTheEvictedAlone) {
  options_.max_entries = 64;
  options_.shards = 8;
  auto cache = New<int, std::string>();
  int64_t charged = 0;
  for (int i = 0; i < 100; ++i) {
    cache->Set(i, std::string(static_cast<size_t>(10 * i), 'x'));
    charged += cache->Find(i).charge();
  }
  EXPECT_EQ(cache->stats().evictions, 36);
  EXPECT_EQ(cache->stats().evicted_bytes, charged - cache->bytes());
  const int64_t evicted = cache->stats().evicted_bytes;
  cache->Del(99);
  cache->Set(98, "replaced");
  cache->Clear();
  EXPECT_EQ(cache->stats().evicted_bytes, evicted);
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

// Sets and removals add up in both processes: in the call that the thread is
// in, and in what it does afterwards.
TEST_F(CacheStatsTest, ForkOfAListenerComesBetweenWholeEvents) {
  pid_t child = -1;
  bool added_up = true;
  options_.max_bytes = kUnlimited;
  const auto adds_up = [](const Cache<int, int>& cache) {
    return AddsUp(cache.stats()) && cache.stats().deletes == 5;
  };
  auto cache = NewListening<int, int>(
      [&](auto& of_listener, int key, int, RemovalCause) {
        if (key == 2) child = fork();
        added_up = added_up && adds_up(of_listener);
      });
  for (int key = 0; key < 5; ++key) cache->Set(key, key);
  cache->Clear();
  added_up = added_up && adds_up(*cache);
  if (child == 0) _exit(added_up ? 0 : 1);
  EXPECT_TRUE(added_up);
  EXPECT_TRUE(testing::EndedWell(child));
}

// What other limits would do, and why reads miss.

using StringCache = Cache<std::string, int>;

class CacheAdviceTest : public CacheEnvironment {
 protected:
  CacheAdviceTest() {
    // The same keys are sampled in each run.
    internal::SetHashSeed(1);
    options_.advise = true;
  }

  static std::string Key(int number) {
    return "customer:" + std::to_string(number);
  }

  static void ReadThrough(StringCache& cache, int key) {
    if (!cache.Get(Key(key)).has_value()) cache.Set(Key(key), key);
  }

  // Reads `reads` keys, a few of them often, and stores those that miss.
  void ReadThrough(StringCache& cache, int keys, int reads, uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < reads; ++i) {
      clock_.Advance(absl::Milliseconds(1));
      const double uniform = static_cast<double>(random()) / 4294967296.0;
      ReadThrough(cache, static_cast<int>(keys * std::pow(uniform, 3)));
    }
  }

  // What a cache with these limits reaches in the same reads.
  double RatioWith(int64_t entries, int keys, int reads) {
    CacheOptions options = options_;
    options.advise = false;
    options.max_entries = entries;
    auto cache = *StringCache::Create(options);
    ReadThrough(*cache, keys, reads);
    return cache->stats().hit_ratio();
  }

  void ExpectAccurate(int64_t entries, int keys, int reads) {
    options_.max_entries = entries;
    auto cache = New<std::string, int>();
    ReadThrough(*cache, keys, reads);
    const CacheAdvice advice = *cache->Advise();
    EXPECT_EQ(advice.same, cache->stats().hit_ratio());
    EXPECT_NEAR(advice.half, RatioWith(entries / 2, keys, reads), 0.02);
    EXPECT_NEAR(advice.twice, RatioWith(entries * 2, keys, reads), 0.02);
    EXPECT_NEAR(advice.four_times, RatioWith(entries * 4, keys, reads), 0.02);
  }
};

// Promise: Observable
TEST_F(CacheAdviceTest, IsAccurateForASmallCache) {
  ExpectAccurate(/*entries=*/200, /*keys=*/4'000, /*reads=*/20'000);
}

// Promise: Observable
TEST_F(CacheAdviceTest, IsAccurateForSeveralShards) {
  ExpectAccurate(/*entries=*/6'000, /*keys=*/60'000, /*reads=*/60'000);
}

// Promise: Observable
TEST_F(CacheAdviceTest, IsAccurateWithTtls) {
  options_.default_ttl = absl::Seconds(5);
  ExpectAccurate(/*entries=*/500, /*keys=*/6'000, /*reads=*/40'000);
}

// Promise: Observable
// The curve of a loop is a step, at the number of its keys.
TEST_F(CacheAdviceTest, TellsOnWhichSideOfALimitALoopIs) {
  options_.max_entries = 10'000;
  for (const uint64_t seed : {1, 2}) {
    internal::SetHashSeed(seed);
    for (const int keys : {19'600, 20'400}) {
      auto cache = New<std::string, int>();
      for (int i = 0; i < 3 * keys; ++i) ReadThrough(*cache, i % keys);
      EXPECT_NEAR(cache->Advise()->twice, keys < 20'000 ? 2 / 3.0 : 0, 0.02)
          << keys << " keys, with seed " << seed;
    }
  }
}

TEST_F(CacheAdviceTest, KeysThatExpireAgainAndAgainStandForNoOthers) {
  options_.max_entries = 10'000;
  for (const int keys : {19'600, 20'400}) {
    auto cache = New<std::string, int>();
    for (int i = 0; i < 3 * keys; ++i) {
      ReadThrough(*cache, i % keys);
      cache->Set("hot:" + std::to_string(i % 100), i, absl::Milliseconds(1));
      clock_.Advance(absl::Milliseconds(2));
    }
    EXPECT_NEAR(cache->Advise()->twice, keys < 20'000 ? 2 / 3.0 : 0, 0.02);
  }
}

TEST_F(CacheAdviceTest, IsAccurateForBytes) {
  StringCache::Hooks hooks;
  hooks.weigher = [](std::string_view, int) { return uint64_t{44}; };
  options_.max_bytes = 300 * 100;  // With 56 bytes of overhead each.
  auto cache = New<std::string, int>(hooks);
  ReadThrough(*cache, 4'000, 20'000);
  options_.max_bytes = kUnlimited;
  const CacheAdvice advice = *cache->Advise();
  EXPECT_NEAR(advice.half, RatioWith(150, 4'000, 20'000), 0.02);
  EXPECT_NEAR(advice.twice, RatioWith(600, 4'000, 20'000), 0.02);
  EXPECT_NEAR(advice.four_times, RatioWith(1'200, 4'000, 20'000), 0.02);
}

TEST_F(CacheAdviceTest, SamplesAPartOfALargeCache) {
  options_.max_entries = 100'000;
  EXPECT_NEAR((New<int, int>()->Advise()->sampled), 0.0091, 0.0001);
  options_.max_entries = 500;
  EXPECT_EQ((New<int, int>()->Advise()->sampled), 1);
}

TEST_F(CacheAdviceTest, IsEmptyWithoutTheOptionAndZeroAtFirst) {
  options_.max_entries = 10;
  const CacheAdvice advice = *New<int, int>()->Advise();
  EXPECT_EQ(advice.half + advice.same + advice.twice + advice.four_times, 0);
  EXPECT_EQ(advice.first_uses, 0);
  options_.advise = false;
  auto cache = New<int, int>();
  EXPECT_FALSE(cache->Advise().has_value());
  EXPECT_FALSE(cache->stats().advice.has_value());
}

// Promise: Observable
TEST_F(CacheAdviceTest, TellsWhyReadsMiss) {
  options_.max_entries = 2;
  auto cache = New<int, int>();
  EXPECT_FALSE(cache->Get(1).has_value());
  cache->Set(1, 1, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(cache->Get(1).has_value());
  cache->Set(1, 1);
  cache->Set(2, 2);
  cache->Set(3, 3);
  EXPECT_FALSE(cache->Get(1).has_value());
  cache->Del(2);
  EXPECT_FALSE(cache->Get(2).has_value());
  (void)cache->Take(3);
  EXPECT_FALSE(cache->Find(3));
  cache->Set(4, 4);
  cache->Clear();
  EXPECT_FALSE(cache->Visit(4, [](int) {}));
  const CacheAdvice advice = *cache->Advise();
  EXPECT_EQ(advice.first_uses, 1);
  EXPECT_EQ(advice.expired, 1);
  EXPECT_EQ(advice.evicted, 1);
  EXPECT_EQ(advice.deleted, 3);
  EXPECT_EQ(cache->stats().misses, 6);
}

TEST_F(CacheAdviceTest, EveryWayToReadCounts) {
  options_.max_entries = 2;
  auto cache = New<int, int>();
  (void)cache->Get(1);
  (void)cache->Find(2);
  (void)cache->Visit(3, [](int) {});
  (void)cache->Take(4);
  (void)cache->GetOrLoad(5, [] { return absl::StatusOr<int>(5); });
  cache->Update(6, [](const auto&) { return Decision<int>::Keep(); });
  EXPECT_EQ(cache->Advise()->first_uses, 6);
  (void)cache->Peek(7);
  (void)cache->Contains(8);
  (void)cache->TimeToLive(9);
  EXPECT_EQ(cache->Advise()->first_uses, 6);
}

TEST_F(CacheAdviceTest, ConditionalWritesCountAsWrites) {
  options_.max_entries = 4;
  auto cache = New<int, int>();
  EXPECT_EQ(cache->SetIf(1, {}, 1), Put::kStored);
  const auto handle = cache->Find(1);
  EXPECT_TRUE(cache->DelIf(1, handle));
  EXPECT_FALSE(cache->Get(1).has_value());
  cache->Set(2, 2);
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 1);
  EXPECT_FALSE(cache->Get(2).has_value());
  EXPECT_EQ(cache->Advise()->deleted, 2);
}

TEST_F(CacheAdviceTest, TouchedValuesLiveOn) {
  options_.max_entries = 100;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  cache->Touch(1, absl::Seconds(10));
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(cache->Get(1).has_value());
  EXPECT_EQ(cache->Advise()->half, 1);
  EXPECT_EQ(cache->Advise()->four_times, 1);
  clock_.Advance(absl::Seconds(5));
  EXPECT_FALSE(cache->Get(1).has_value());
  EXPECT_EQ(cache->Advise()->expired, 1);
}

TEST_F(CacheAdviceTest, RatiosAreOfTheTimeSinceTheLimitsWereSet) {
  options_.max_entries = 50;
  auto cache = New<std::string, int>();
  ReadThrough(*cache, 1'000, 5'000);
  const double before = cache->Advise()->twice;
  ASSERT_TRUE(cache->SetLimits(100, kUnlimited).ok());
  EXPECT_EQ(cache->Advise()->same, 0);
  ReadThrough(*cache, 1'000, 5'000);
  const CacheAdvice after = *cache->Advise();
  EXPECT_NEAR(after.same, before, 0.02);
  EXPECT_NEAR(after.half, RatioWith(50, 1'000, 5'000), 0.02);
  EXPECT_NEAR(after.twice, RatioWith(200, 1'000, 5'000), 0.03);
  EXPECT_GT(after.first_uses, 0);
}

TEST_F(CacheAdviceTest, OrderOfEvictionIsThatWithoutAdvice) {
  for (const int64_t entries : {20, 5'000}) {
    std::vector<int64_t> hits;
    for (const bool advise : {false, true}) {
      options_.advise = advise;
      options_.max_entries = entries;
      auto cache = New<std::string, int>();
      ReadThrough(*cache, static_cast<int>(entries) * 10, 30'000);
      hits.push_back(cache->stats().hits);
      EXPECT_TRUE(cache->CheckInvariants().ok());
    }
    EXPECT_NEAR(static_cast<double>(hits[0]), static_cast<double>(hits[1]),
                entries == 20 ? 0 : 100);
  }
}

TEST_F(CacheAdviceTest, LoadedValuesAreHits) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  for (int i = 0; i < 10; ++i) {
    (void)cache->GetOrLoad(1, [] { return absl::StatusOr<int>(1); });
  }
  EXPECT_EQ(cache->Advise()->first_uses, 1);
  EXPECT_DOUBLE_EQ(cache->Advise()->half, 0.9);
}

TEST_F(CacheAdviceTest, RefusedReadsAreMissesWithAnyLimits) {
  options_.max_entries = 2;
  auto cache = New<int, int>();
  for (int i = 0; i < 30; ++i) {
    if (!cache->Get(i % 3).has_value()) cache->Set(i % 3, i);
  }
  LoadOptions fresh;
  fresh.max_age = absl::ZeroDuration();
  for (int i = 0; i < 30; ++i) {
    clock_.Advance(absl::Milliseconds(40));
    (void)cache->FindOrLoad(2, fresh, []() -> absl::StatusOr<Loaded<int>> {
      return Loaded<int>{2};
    });
  }
  EXPECT_EQ(cache->stats().misses, 60);
  EXPECT_DOUBLE_EQ(cache->Advise()->twice, 27 / 60.0);
}

// Promise: Observable
TEST_F(CacheAdviceTest, IsShownAndExported) {
  options_.name = "advised";
  options_.max_entries = 10;
  auto cache = New<int, int>();
  options_.name = "other";
  options_.advise = false;
  auto other = New<int, int>();
  EXPECT_FALSE(absl::StrContains(StatusPage(), "aria-label=\"Hit ratio at"));
  (void)cache->Get(1);
  EXPECT_TRUE(absl::StrContains(StatusPage(), "aria-label=\"Hit ratio at"));
  EXPECT_TRUE(absl::StrContains(StatusPage(), "first use"));
  const std::string text = PrometheusText();
  EXPECT_TRUE(absl::StrContains(
      text,
      "wheelcache_sampled_misses_total{cache=\"advised\",cause=\"first "
      "use\"} 1\n"));
  EXPECT_TRUE(absl::StrContains(
      text,
      "wheelcache_advised_hit_ratio{cache=\"advised\",limits=\"half\"} 0\n"));
  EXPECT_FALSE(absl::StrContains(text, "ratio{cache=\"other\",limits"));
}

TEST_F(CacheAdviceTest, ChildOfForkGoesOn) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  cache->Set(1, 1);
  EXPECT_TRUE(testing::HoldsInChild([&] {
    cache->Set(2, 2);
    cache->Del(2);
    return !cache->Get(2).has_value() && cache->Get(1) == 1 &&
           cache->Advise()->deleted == 1;
  }));
  EXPECT_EQ(cache->Get(1), 1);
}

}  // namespace
}  // namespace wheelcache
