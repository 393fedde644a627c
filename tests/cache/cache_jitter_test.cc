// "Unstable" expiry: how TTLs vary.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

constexpr int kKeys = 10'000;
constexpr absl::Duration kTtl = absl::Seconds(100);

class CacheJitterTest : public CacheEnvironment {
 protected:
  std::unique_ptr<Cache<int, int>> NewCache() { return New<int, int>(); }

  // The TTLs that many keys get for the same one.
  std::vector<absl::Duration> Ttls(absl::Duration ttl = kTtl) {
    auto cache = NewCache();
    std::vector<absl::Duration> ttls;
    for (int i = 0; i < kKeys; ++i) {
      cache->Set(i, i, ttl);
      ttls.push_back(cache->TimeToLive(i).value_or(absl::ZeroDuration()));
    }
    EXPECT_TRUE(cache->CheckInvariants().ok());
    return ttls;
  }

  // Expects values spread evenly between the bounds, both included.
  static void ExpectUniform(std::vector<absl::Duration> ttls,
                            absl::Duration low, absl::Duration high) {
    EXPECT_THAT(ttls, Each(AllOf(Ge(low), Le(high))));
    std::sort(ttls.begin(), ttls.end());
    for (int decile = 1; decile < 10; ++decile) {
      const absl::Duration expected = low + (high - low) * decile / 10;
      const absl::Duration off = ttls[size_t{kKeys} / 10 * decile] - expected;
      EXPECT_LE(absl::AbsDuration(off), (high - low) * 0.03) << decile;
    }
  }
};

TEST_F(CacheJitterTest, DefaultVariesByFivePercentEitherWay) {
  options_.jitter = CacheOptions().jitter;
  options_.jitter_seed = 1;
  ExpectUniform(Ttls(), kTtl * 0.95, kTtl * 1.05);
}

TEST_F(CacheJitterTest, ShorteningJitterNeverLengthens) {
  options_.jitter = 0.2;
  options_.jitter_mode = JitterMode::kShorten;
  options_.jitter_seed = 1;
  ExpectUniform(Ttls(), kTtl * 0.8, kTtl);
}

TEST_F(CacheJitterTest, FullJitterStillLeavesATtl) {
  options_.jitter = 1;
  options_.jitter_seed = 1;
  ExpectUniform(Ttls(), absl::Nanoseconds(1), 2 * kTtl);
  EXPECT_THAT(Ttls(absl::Nanoseconds(1)), Each(Ge(absl::Nanoseconds(1))));
}

TEST_F(CacheJitterTest, NoJitterKeepsTtlsExact) {
  options_.jitter = 0;
  EXPECT_THAT(Ttls(), Each(kTtl));
}

TEST_F(CacheJitterTest, InfiniteTtlsAreUntouched) {
  options_.jitter = 1;
  EXPECT_THAT(Ttls(absl::InfiniteDuration()), Each(absl::InfiniteDuration()));
}

TEST_F(CacheJitterTest, TtlsNearTheEndOfTimeSaturate) {
  options_.jitter = 0.5;
  const absl::Duration ttl = absl::Nanoseconds(Clock::kNever) * 0.9;
  EXPECT_THAT(Ttls(ttl), Each(Ge(ttl * 0.499)));
}

TEST_F(CacheJitterTest, TouchIsVariedToo) {
  options_.jitter = 0.1;
  options_.jitter_seed = 1;
  auto cache = NewCache();
  std::vector<absl::Duration> ttls;
  cache->Set(1, 1);
  for (int i = 0; i < kKeys; ++i) {
    cache->Touch(1, kTtl);
    ttls.push_back(*cache->TimeToLive(1));
  }
  ExpectUniform(ttls, kTtl * 0.9, kTtl * 1.1);
}

TEST_F(CacheJitterTest, SeedRepeatsTheVariation) {
  options_.jitter = 0.1;
  options_.jitter_seed = 42;
  const auto first = Ttls();
  EXPECT_EQ(Ttls(), first);
  options_.jitter_seed = 43;
  EXPECT_NE(Ttls(), first);
  options_.jitter_seed = 42 + (uint64_t{1} << 32);
  EXPECT_NE(Ttls(), first);
}

// Nor does it depend on how often a Set lets go of the lock.
TEST_F(CacheJitterTest, ASetVariesItsTtlOnce) {
  options_.jitter = 0.1;
  options_.jitter_seed = 1;
  options_.shards = 1;
  options_.maintenance_budget = 1;
  Cache<int, int>::Hooks hooks;
  hooks.weigher = [](int, int value) { return static_cast<uint64_t>(value); };
  std::vector<absl::Duration> ttls[2];
  for (const bool full : {false, true}) {
    if (full) options_.max_bytes = 10'000;
    auto cache = *Cache<int, int>::Create(options_, hooks);
    for (int i = 0; i < 20; ++i) cache->Set(i, 300, kTtl);
    for (int i = 20; i < 30; ++i) {
      cache->Set(i, 5'000, kTtl);  // Evicts many.
      ttls[full ? 1 : 0].push_back(*cache->TimeToLive(i));
    }
    EXPECT_EQ(cache->stats().evictions > 10, full);
  }
  EXPECT_EQ(ttls[0], ttls[1]);
}

// Not only within one process. One shard: in which of several a key lies
// differs from run to run.
TEST_F(CacheJitterTest, SeedGivesTheSameTtlsInEachRun) {
  options_.jitter = 0.1;
  options_.jitter_seed = 42;
  options_.shards = 1;
  auto cache = NewCache();
  cache->Set(1, 1, kTtl);
  EXPECT_EQ(cache->TimeToLive(1), absl::Nanoseconds(105'441'129'810));
  cache->Set(2, 2, kTtl);
  EXPECT_EQ(cache->TimeToLive(2), absl::Nanoseconds(97'633'024'551));
}

TEST_F(CacheJitterTest, CachesWithoutASeedDiffer) {
  options_.jitter = 0.1;
  EXPECT_NE(Ttls(), Ttls());
}

// Keys in different shards must not get the same sequence of TTLs.
TEST_F(CacheJitterTest, ShardsOfOneSeedDiffer) {
  options_.jitter = 0.1;
  options_.jitter_seed = 1;
  options_.shards = 256;
  auto ttls = Ttls();
  std::sort(ttls.begin(), ttls.end());
  EXPECT_EQ(std::unique(ttls.begin(), ttls.end()), ttls.end());
}

// What jitter is for: what is written together does not expire together.
TEST_F(CacheJitterTest, EntriesWrittenTogetherExpireApart) {
  options_.jitter = 0.05;
  options_.jitter_seed = 1;
  auto cache = NewCache();
  for (int i = 0; i < kKeys; ++i) cache->Set(i, i, kTtl);
  clock_.Advance(kTtl * 0.95);
  int64_t before = cache->size();
  for (int step = 0; step < 10; ++step) {
    clock_.Advance(kTtl * 0.01);
    cache->RunMaintenance();
    EXPECT_NEAR(before - cache->size(), kKeys * 0.1, kKeys * 0.02);
    before = cache->size();
  }
  EXPECT_LE(before, kKeys / 1000);
}

}  // namespace
}  // namespace wheelcache
