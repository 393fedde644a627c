// Cache::Advise: what other limits would do, against caches that have them, and
// why reads miss.

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/failing_allocations.h"

namespace wheelcache {
namespace {

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

  // Reads `reads` keys, a few of them often, and stores those that miss.
  void ReadThrough(StringCache& cache, int keys, int reads, uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int i = 0; i < reads; ++i) {
      clock_.Advance(absl::Milliseconds(1));
      const double uniform = static_cast<double>(random()) / 4294967296.0;
      const int key = static_cast<int>(keys * std::pow(uniform, 3));
      if (!cache.Get(Key(key)).has_value()) cache.Set(Key(key), i);
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

TEST_F(CacheAdviceTest, IsAccurateForASmallCache) {
  ExpectAccurate(/*entries=*/200, /*keys=*/4'000, /*reads=*/20'000);
}

TEST_F(CacheAdviceTest, IsAccurateForSeveralShards) {
  ExpectAccurate(/*entries=*/6'000, /*keys=*/60'000, /*reads=*/60'000);
}

TEST_F(CacheAdviceTest, IsAccurateWithTtls) {
  options_.default_ttl = absl::Seconds(5);
  ExpectAccurate(/*entries=*/500, /*keys=*/6'000, /*reads=*/40'000);
}

// The curve of a loop is a step, at the number of its keys.
TEST_F(CacheAdviceTest, TellsOnWhichSideOfALimitALoopIs) {
  options_.max_entries = 10'000;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    internal::SetHashSeed(seed);
    for (const int keys : {19'600, 20'400}) {
      auto cache = New<std::string, int>();
      for (int i = 0; i < 3 * keys; ++i) {
        if (!cache->Get(Key(i % keys)).has_value())
          cache->Set(Key(i % keys), i);
      }
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
      if (!cache->Get(Key(i % keys)).has_value()) cache->Set(Key(i % keys), i);
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

TEST_F(CacheAdviceTest, IsEmptyWithoutTheOption) {
  options_.advise = false;
  auto cache = New<int, int>();
  EXPECT_FALSE(cache->Advise().has_value());
  EXPECT_FALSE(cache->stats().advice.has_value());
}

TEST_F(CacheAdviceTest, NewAdviceIsZero) {
  options_.max_entries = 10;
  for (const CacheAdvice& advice :
       {CacheAdvice(), *New<int, int>()->Advise()}) {
    EXPECT_EQ(advice.half, 0);
    EXPECT_EQ(advice.same, 0);
    EXPECT_EQ(advice.twice, 0);
    EXPECT_EQ(advice.four_times, 0);
    EXPECT_EQ(advice.first_uses, 0);
  }
}

TEST_F(CacheAdviceTest, TouchGivesCachesOfAllSizesTheNewDeadline) {
  options_.max_entries = 100;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(cache->Get(1), 1);
  const CacheAdvice advice = *cache->Advise();
  EXPECT_EQ(advice.half, 1);
  EXPECT_EQ(advice.twice, 1);
}

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

TEST_F(CacheAdviceTest, WithoutMemoryThereIsNoAdvice) {
  options_.max_entries = 10;
  int advised = 0;
  int silent = 0;
  for (int64_t n = 0; n < 100; ++n) {
    std::unique_ptr<Cache<int, int>> cache;
    (void)testing::ThrowsWithoutMemory(n, /*all_that_follow=*/false,
                                       [&] { cache = New<int, int>(); });
    if (cache == nullptr) continue;
    cache->Set(1, 1);
    EXPECT_EQ(cache->Get(1), 1);
    (cache->Advise().has_value() ? advised : silent) += 1;
  }
  EXPECT_GT(advised, 0);
  EXPECT_EQ(silent, 1);
}

TEST_F(CacheAdviceTest, ChildOfForkGoesOn) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  cache->Set(1, 1);
  const pid_t child = fork();
  if (child == 0) {
    testing::EndInAMinute();
    cache->Set(2, 2);
    cache->Del(2);
    const bool missed = !cache->Get(2).has_value() && cache->Get(1) == 1;
    _exit(missed && cache->Advise()->deleted == 1 ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
  EXPECT_EQ(cache->Get(1), 1);
}

TEST_F(CacheAdviceTest, ManyThreadsMayBeAtTheSample) {
  options_.max_entries = 300;
  options_.shards = 4;
  auto cache = New<std::string, int>();
  std::atomic<bool> stop{false};
  std::thread looks([&] {
    while (!stop.load()) {
      const CacheAdvice advice = *cache->Advise();
      ASSERT_GE(advice.half, 0);
      ASSERT_LE(advice.four_times, 1);
      (void)cache->stats();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5'000; ++i) {
        const std::string key = Key(i * (t + 1) % 700);
        if (!cache->Get(key).has_value()) cache->Set(key, i);
        if (i % 50 == 0) cache->Del(key);
        if (i % 70 == 0) cache->Touch(key, absl::Seconds(1));
        if (i % 1'000 == 0) cache->Clear();
        if (i % 1'500 == 0) (void)cache->SetLimits(200 + t, kUnlimited);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  looks.join();
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache
