// When values expire, and when their memory comes back.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using IntCache = Cache<int, int>;
using Removals = Removal<int, int>;

class CacheExpiryTest : public CacheEnvironment {
 protected:
  std::unique_ptr<IntCache> NewCache() { return New<int, int>(log_.hooks()); }

  RemovalLog<int, int> log_;
};

// Nanoseconds before and after a deadline that is no multiple of the tick.
TEST_F(CacheExpiryTest, GetReturnsNothingFromTheDeadlineOn) {
  const absl::Duration ttl = absl::Milliseconds(2345) + absl::Nanoseconds(67);
  for (const absl::Duration tick :
       {absl::Nanoseconds(1), absl::Milliseconds(1), absl::Seconds(1),
        absl::Minutes(1), absl::Hours(24)}) {
    options_.tick = tick;
    auto cache = NewCache();
    cache->Set(1, 1, ttl);
    clock_.Advance(ttl - absl::Nanoseconds(1));
    cache->RunMaintenance();
    EXPECT_EQ(cache->Get(1), 1) << tick;
    clock_.Advance(absl::Nanoseconds(1));
    EXPECT_EQ(cache->Get(1), std::nullopt) << tick;
    EXPECT_EQ(cache->Peek(1), std::nullopt) << tick;
    EXPECT_FALSE(cache->Contains(1)) << tick;
    EXPECT_EQ(cache->TimeToLive(1), std::nullopt) << tick;
    EXPECT_FALSE(cache->Touch(1, ttl)) << tick;
    EXPECT_FALSE(cache->Del(1)) << tick;
  }
}

// The clock jumps over deadlines by anything from nothing to an hour.
TEST_F(CacheExpiryTest, EveryValueLivesForItsWholeTtl) {
  constexpr int kKeys = 200;
  options_.tick = absl::Seconds(1);
  auto cache = NewCache();
  for (int i = 0; i < kKeys; ++i) {
    cache->Set(i, i, absl::Seconds(0.37) * (i * i + 1));
  }
  absl::Duration now;
  for (int step = 0; step < 2000; ++step) {
    cache->RunMaintenance();
    for (int i = 0; i < kKeys; ++i) {
      EXPECT_EQ(cache->Contains(i), now < absl::Seconds(0.37) * (i * i + 1));
    }
    const absl::Duration jump = absl::Seconds(0.11) * (step % 97);
    clock_.Advance(jump);
    now += jump;
  }
}

TEST_F(CacheExpiryTest, TtlOfZeroOrLessRemovesTheKey) {
  for (const absl::Duration ttl :
       {absl::ZeroDuration(), absl::Nanoseconds(-1), absl::Hours(-1),
        -absl::InfiniteDuration()}) {
    auto cache = NewCache();
    EXPECT_FALSE(cache->Set(1, 1, ttl));
    EXPECT_FALSE(cache->Contains(1));
    EXPECT_EQ(cache->size(), 0);
    cache->Set(1, 2);
    EXPECT_FALSE(cache->Set(1, 3, ttl));
    EXPECT_EQ(cache->Get(1), std::nullopt);
    EXPECT_EQ(cache->size(), 0);
    EXPECT_EQ(cache->stats().sets, 1);
    // The refused value was never in the cache, so nobody is told of it.
    EXPECT_THAT(log_.Take(),
                ElementsAre(Removals{1, 2, RemovalCause::kDeleted, {}}));
  }
}

TEST_F(CacheExpiryTest, InfiniteTtlNeverExpires) {
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2, absl::InfiniteDuration());
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  clock_.AdvanceTo(absl::Nanoseconds(Clock::kNever - 1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->Get(1), 1);
  EXPECT_EQ(cache->Get(2), 2);
}

TEST_F(CacheExpiryTest, DeadlinesTooFarToCountAreNever) {
  clock_.Advance(absl::Hours(1));
  auto cache = NewCache();
  cache->Set(1, 1, absl::Nanoseconds(Clock::kNever));
  cache->Set(2, 2, absl::Nanoseconds(Clock::kNever - 1));
  cache->Set(3, 3, absl::Hours(24 * 365 * 300));
  cache->Set(4, 4);
  cache->Touch(4, absl::Hours(24 * 365 * 300));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(cache->TimeToLive(i), absl::InfiniteDuration()) << i;
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheExpiryTest, LastDeadlineThatCanBeCountedIsKept) {
  options_.tick = absl::Hours(24);  // Rounded up to a tick it is past the end.
  auto cache = NewCache();
  cache->Set(1, 1, absl::Nanoseconds(Clock::kNever - 2));
  EXPECT_TRUE(cache->CheckInvariants().ok());
  clock_.AdvanceTo(absl::Nanoseconds(Clock::kNever - 3));
  cache->RunMaintenance();
  EXPECT_EQ(cache->Get(1), 1);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheExpiryTest, TtlIsRoundedUpToNanoseconds) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::Nanoseconds(1) / 4);
  EXPECT_EQ(cache->Get(1), 1);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// go-zero lost half the values that were set twice with a TTL of one tick.
TEST_F(CacheExpiryTest, OverwritingWithATtlNearTheTickKeepsTheValue) {
  options_.tick = absl::Seconds(1);
  for (const absl::Duration ttl :
       {absl::Milliseconds(1), absl::Milliseconds(999), absl::Seconds(1),
        absl::Milliseconds(1001)}) {
    auto cache = NewCache();
    clock_.Advance(absl::Milliseconds(700));
    for (int i = 0; i < 2000; ++i) {
      cache->Set(i, 1, ttl);
      cache->Set(i, 2, ttl);
    }
    clock_.Advance(ttl - absl::Nanoseconds(1));
    cache->RunMaintenance();
    for (int i = 0; i < 2000; ++i) EXPECT_EQ(cache->Get(i), 2) << i;
  }
}

// go-zero's wheel of 300 slots fired these a revolution late or early.
TEST_F(CacheExpiryTest, MovedTtlsEndOnTime) {
  struct Move {
    int hand, before, after;
  };
  options_.tick = absl::Seconds(1);
  for (const auto& [hand, before, after] :
       {Move{250, 60, 20}, Move{200, 60, 400}, Move{299, 2, 1},
        Move{63, 1, 4096}, Move{63, 4096, 1}, Move{0, 300, 300}}) {
    for (const bool touch : {false, true}) {
      auto cache = NewCache();
      clock_.Advance(absl::Seconds(hand));
      cache->Set(1, 1, absl::Seconds(before));
      touch ? cache->Touch(1, absl::Seconds(after))
            : cache->Set(1, 1, absl::Seconds(after));
      for (int second = 0; second < after; ++second) {
        ASSERT_TRUE(cache->Contains(1)) << hand << " " << second;
        clock_.Advance(absl::Seconds(1));
        cache->RunMaintenance();
      }
      EXPECT_EQ(cache->size(), 0) << hand;
    }
  }
}

TEST_F(CacheExpiryTest, TtlMovedManyTimesEndsAtTheLastDeadline) {
  options_.tick = absl::Seconds(1);
  auto cache = NewCache();
  cache->Set(1, 1, absl::Seconds(5));
  for (int i = 0; i < 500; ++i) {
    clock_.Advance(absl::Seconds(1));
    cache->RunMaintenance();
    ASSERT_TRUE(cache->Touch(1, absl::Seconds(2 + i * 7 % 100)));
  }
  cache->Touch(1, absl::Seconds(3));
  clock_.Advance(absl::Seconds(3) - absl::Nanoseconds(1));
  EXPECT_TRUE(cache->Contains(1));
  clock_.Advance(absl::Nanoseconds(1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

// The ABA problem: the key is the same, and even the entry's place in memory.
TEST_F(CacheExpiryTest, ExpiryOfAnOldValueSparesAFreshOne) {
  auto cache = NewCache();
  for (const bool by_del : {false, true}) {
    cache->Set(1, 1, absl::Seconds(1));
    if (by_del) cache->Del(1);
    cache->Set(1, 2, absl::Seconds(10));
    clock_.Advance(absl::Seconds(5));
    cache->RunMaintenance();
    EXPECT_EQ(cache->Get(1), 2);
    EXPECT_EQ(cache->stats().expirations, 0);
  }
}

TEST_F(CacheExpiryTest, ReclaimsTheExpiredBeforeEvictingTheLive) {
  options_.max_entries = 3;
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2, absl::Seconds(1));
  cache->Set(3, 3);
  cache->Get(2);  // The most recently used, but it expires.
  clock_.Advance(absl::Seconds(1));
  cache->Set(4, 4);
  EXPECT_TRUE(cache->Contains(1));
  EXPECT_TRUE(cache->Contains(3));
  EXPECT_EQ(cache->stats().evictions, 0);
  EXPECT_THAT(log_.Take(),
              ElementsAre(Removals{2, 2, RemovalCause::kExpired, {}}));
}

// Small steps under the lock, and none of them stops at the first.
TEST_F(CacheExpiryTest, ReclaimsAllTheExpiredBeforeEvictingInAnyShard) {
  options_.max_entries = 1000;
  options_.maintenance_budget = 1;
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = NewCache();
    for (int i = 0; i < 1000; ++i) {
      cache->Set(i, i, i % 10 == 0 ? absl::InfiniteDuration() : absl::Hours(1));
    }
    clock_.Advance(absl::Hours(1));
    for (int i = 1000; i < 1900; ++i) cache->Set(i, i);
    EXPECT_EQ(cache->stats().evictions, 0) << shards;
    EXPECT_EQ(cache->stats().expirations, 900) << shards;
    cache->Set(1900, 1900);
    EXPECT_EQ(cache->stats().evictions, 1) << shards;
  }
}

TEST_F(CacheExpiryTest, RunMaintenanceKeepsToItsBudget) {
  auto cache = NewCache();
  for (int i = 0; i < 100; ++i) cache->Set(i, i, absl::Milliseconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->RunMaintenance(0), 0);
  EXPECT_EQ(cache->size(), 100);
  int64_t calls = 0;
  while (cache->RunMaintenance(7) == 7) {
    ++calls;
    EXPECT_GE(cache->size(), 100 - 7 * calls);
  }
  EXPECT_EQ(cache->size(), 0);
  EXPECT_GE(calls, 100 / 7);
}

TEST_F(CacheExpiryTest, NextDeadlineIsWhenMaintenanceIsDue) {
  auto cache = NewCache();
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  cache->Set(1, 1, absl::Seconds(70));
  cache->Set(2, 2, absl::Seconds(5));
  EXPECT_EQ(cache->NextDeadline(), absl::Seconds(5));
  clock_.AdvanceTo(cache->NextDeadline());
  EXPECT_GE(cache->RunMaintenance(), 1);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(cache->NextDeadline(), absl::Seconds(70));
  cache->Touch(1, absl::Seconds(1));
  EXPECT_EQ(cache->NextDeadline(), absl::Seconds(6));
}

constexpr char kAheadOfTheClock[] = "the wheel is ahead of the clock";

// A clock that does what a clock must not.
class WildClock final : public Clock {
 public:
  int64_t NowNanos() const override { return nanos_; }
  std::unique_ptr<Sleeper> NewSleeper() override { return nullptr; }
  void Set(absl::Duration now) { nanos_ = absl::ToInt64Nanoseconds(now); }

 private:
  int64_t nanos_ = 0;
};

TEST_F(CacheExpiryTest, CacheStaysWholeWhereTheClockStandsJumpsAndGoesBack) {
  constexpr absl::Duration kYear = absl::Hours(24 * 365);
  WildClock clock;
  options_.clock = &clock;
  options_.max_entries = 50;
  auto cache = New<int, int>();
  int key = 0;
  absl::Duration latest;
  for (const absl::Duration now :
       {kYear, kYear, 50 * kYear, kYear / 2, absl::Seconds(1), 200 * kYear,
        absl::ZeroDuration(), 3 * kYear}) {
    clock.Set(now);
    for (int i = 0; i < 100; ++i, ++key) {
      cache->Set(key, key, absl::Milliseconds(1 + 37 * i));
      EXPECT_EQ(cache->Get(key), key);
      cache->Touch(key - 10, kYear);
    }
    cache->RunMaintenance();
    // That alone is wrong where the clock went back.
    const absl::Status status = cache->CheckInvariants();
    if (now < latest && !status.ok()) {
      ASSERT_EQ(status.message(), kAheadOfTheClock);
    } else {
      ASSERT_TRUE(status.ok()) << status;
    }
    latest = std::max(latest, now);
  }
  clock.Set(250 * kYear);
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheExpiryTest, CheckInvariantsFindsAWheelThatIsAheadOfTheClock) {
  WildClock clock;
  options_.clock = &clock;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  clock.Set(absl::Seconds(2));
  cache->RunMaintenance();
  EXPECT_TRUE(cache->CheckInvariants().ok());
  for (const absl::Duration back :
       {absl::Milliseconds(1999), absl::Milliseconds(-1), absl::Hours(-1)}) {
    clock.Set(back);
    EXPECT_EQ(cache->CheckInvariants().message(), kAheadOfTheClock);
  }
  clock.Set(absl::Seconds(2));
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache
