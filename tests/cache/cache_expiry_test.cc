// When values expire, on any clock and with "unstable" TTLs, and when their
// memory comes back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

using IntCache = Cache<int, int>;
using Removals = Removal<int, int>;

class CacheExpiryTest : public CacheEnvironment {
 protected:
  std::unique_ptr<IntCache> NewCache() { return New<int, int>(log_.hooks()); }

  RemovalLog<int, int> log_;
};

// Promise: Exact expiry
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

// Promise: Exact expiry
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
    cache->Set(1, 4);
    EXPECT_TRUE(cache->Touch(1, ttl));
    EXPECT_FALSE(cache->Touch(1, ttl));
    EXPECT_THAT(log_.Take(),
                ElementsAre(Removals{1, 4, RemovalCause::kDeleted, {}}));
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

// Promise: Exact expiry
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

// Promise: Expired entries go first
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

// Promise: No long pauses
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

// Promise: Orderly in tests, fork and shutdown
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

// Clocks that begin anywhere in the range of readings, below zero too.

// What a clock reads says nothing by itself: only differences do.
class CacheClockRangeTest
    : public CacheEnvironment,
      public ::testing::WithParamInterface<absl::Duration> {
 protected:
  CacheClockRangeTest() {
    options_.clock = &clock_;
    options_.reaper = &reaper_;
    options_.shards = 1;
  }
  ~CacheClockRangeTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  void MakeCache() { cache_ = New<int, int>(); }

  SimulatedClock clock_{GetParam()};  // In the place of the environment's.
  Reaper reaper_{clock_};
  std::unique_ptr<IntCache> cache_;
};

INSTANTIATE_TEST_SUITE_P(
    Readings, CacheClockRangeTest,
    ::testing::Values(-absl::InfiniteDuration(), absl::Hours(-24 * 365 * 200),
                      absl::Hours(-1), absl::Microseconds(-1500),
                      absl::Milliseconds(-1), absl::Nanoseconds(-1),
                      absl::ZeroDuration(), absl::Hours(24 * 365 * 200)));

// Promise: Orderly in tests, fork and shutdown
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

// A cache whose loop is to be woken where it would sleep too long.
template <typename Environment>
class EarlierDeadline : public Environment {
 protected:
  using Environment::options_;

  EarlierDeadline() {
    options_.on_earlier_deadline = [this] { ++told_; };
    options_.shards = 4;
    cache_ = *IntCache::Create(options_);
  }

  int told_ = 0;
  std::unique_ptr<IntCache> cache_;
};
using EarlierDeadlineTest = EarlierDeadline<CacheEnvironment>;
using EarlierDeadlineRaceTest = EarlierDeadline<InterruptedCacheEnvironment>;

TEST_F(EarlierDeadlineTest, IsToldOnceUntilItIsAskedAgain) {
  cache_->Set(1, 1, absl::Minutes(2));
  EXPECT_EQ(told_, 0) << "nobody has asked";
  const absl::Duration first = cache_->NextDeadline();
  cache_->Set(2, 2, absl::Minutes(3));
  cache_->Set(3, 3);
  EXPECT_EQ(told_, 0) << "it is not earlier";
  cache_->Set(4, 4, absl::Seconds(2));
  EXPECT_EQ(told_, 1);
  cache_->Set(5, 5, absl::Seconds(1));
  EXPECT_EQ(told_, 1) << "nobody has asked since then";
  const absl::Duration second = cache_->NextDeadline();
  EXPECT_LT(second, first);
  EXPECT_TRUE(cache_->Touch(3, absl::Milliseconds(1)));
  EXPECT_EQ(told_, 2);
  EXPECT_LT(cache_->NextDeadline(), second);
}

TEST_F(EarlierDeadlineTest, WhateverMakesItEarlierTells) {
  using Ticket = IntCache::Ticket;
  LoadOptions options;
  options.wait = absl::Seconds(1);
  options.error_ttl = absl::Seconds(1);
  const auto done = [](const auto&) {};
  const std::function<void()> calls[] = {
      [&] { cache_->Set(1, 1, absl::Seconds(1)); },
      [&] { cache_->SetIf(2, {}, 2, absl::Seconds(1)); },
      [&] {
        cache_->Update(1, [](const auto&) {
          return IntCache::Decision::Set(2, absl::Seconds(1));
        });
      },
      [&] { (void)cache_->GetOrLoad(4, absl::Seconds(1), [] { return 4; }); },
      [&] {  // A failure that is remembered.
        (void)cache_->FindOrLoad(5, options,
                                 [] { return absl::UnavailableError("down"); });
      },
      [&] {  // The end of a wait.
        const Ticket ticket = cache_->BeginLoad(6, {}, done);
        (void)cache_->BeginLoad(6, options, done);
      },
      [&] {  // What a reader holds back.
        cache_->Set(7, 7);
        cache_->Visit(7, [&](int) { cache_->Del(7); });
      },
  };
  for (const auto& call : calls) {
    cache_->Clear();
    cache_->RunMaintenance();
    ASSERT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
    told_ = 0;
    call();
    EXPECT_EQ(told_, 1) << "call " << &call - calls;
  }
}

// No wake-up is lost, whenever the other thread comes.
TEST_F(EarlierDeadlineRaceTest, WhatALookMissesIsTold) {
  for (const char* point : {"next deadline: before it looks",
                            "next deadline: after it has looked"}) {
    cache_->Clear();
    told_ = 0;
    At(point, [&] { cache_->Set(1, 1, absl::Seconds(1)); });
    const bool seen = cache_->NextDeadline() != absl::InfiniteDuration();
    EXPECT_TRUE(seen || told_ == 1) << point;
    cache_->Set(2, 2, absl::Milliseconds(1));
    EXPECT_EQ(told_, 1) << "nobody has asked since then, " << point;
    // That look may have been the one that was told of.
    cache_->Clear();
    (void)cache_->NextDeadline();
    cache_->Set(1, 1, absl::Milliseconds(1));
    EXPECT_GE(told_, 1) << point;
  }
}

TEST_F(EarlierDeadlineTest, FunctionMayCallTheCacheAndThrow) {
  options_.on_earlier_deadline = [&] {
    EXPECT_EQ(cache_->Get(1), 1) << "no lock is held";
    EXPECT_LE(cache_->NextDeadline(), clock_.Now() + absl::Seconds(2));
    cache_->Set(2, 2, absl::Minutes(1));
    throw std::runtime_error("thrown");
  };
  cache_ = New<int, int>();
  (void)cache_->NextDeadline();
  EXPECT_TRUE(cache_->Set(1, 1, absl::Seconds(1)));
  EXPECT_EQ(cache_->size(), 2);
}

TEST_F(EarlierDeadlineTest, IsNotForCachesWithAReaper) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  EXPECT_EQ(IntCache::Create(options_).status(),
            absl::InvalidArgumentError(
                "CacheOptions of \"cache\": on_earlier_deadline is a function, "
                "must be empty unless `reaper` is null"));
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

// What expires while a call is under way that began before. Each test has the
// time come at one point of the engine, each time in the same way.
class CacheExpiryRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  ~CacheExpiryRaceTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  void LetASecondPassAndReclaim() {
    clock_.Advance(absl::Seconds(1));
    cache_->RunMaintenance();
  }

  const std::unique_ptr<IntCache> cache_ = New<int, int>();
};

TEST_P(CacheExpiryRaceTest, MaintenanceOvertakenByASetSparesTheFreshValue) {
  cache_->Set(1, 10, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  At("maintenance: between clock and lock", [&] { cache_->Set(1, 11); });
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->Get(1), 11);
  EXPECT_EQ(cache_->stats().expirations, 1);
  EXPECT_EQ(cache_->stats().replaced, 0);
}

// The later maintenance has moved the wheel on before the earlier gets there.
TEST_P(CacheExpiryRaceTest, MaintenanceOvertakenByAnotherSparesTheLive) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("maintenance: between clock and lock", [&] {
    LetASecondPassAndReclaim();
    cache_->Set(1, 11, absl::Seconds(1));
  });
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->TimeToLive(1), absl::Seconds(1));
  LetASecondPassAndReclaim();
  EXPECT_EQ(cache_->size(), 0);
}

TEST_P(CacheExpiryRaceTest, SetOvertakenByTheExpiryOfTheOldValueIsVisible) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("store: between clock and lock", [&] {
    LetASecondPassAndReclaim();
    EXPECT_EQ(cache_->size(), 0);
  });
  EXPECT_TRUE(cache_->Set(1, 11));
  EXPECT_EQ(cache_->Get(1), 11);
  EXPECT_EQ(cache_->stats().expirations, 1);
  EXPECT_EQ(cache_->stats().replaced, 0);
}

// Its deadline lies behind the hand of the wheel when it comes to the wheel.
TEST_P(CacheExpiryRaceTest, SetOvertakenByItsOwnDeadlineLeavesNothing) {
  cache_->Set(2, 20, absl::Hours(1));
  for (const bool replaces : {false, true}) {
    if (replaces) cache_->Set(1, 10);
    At("store: between clock and lock", [&] { LetASecondPassAndReclaim(); });
    cache_->Set(1, 11, absl::Milliseconds(1));
    EXPECT_EQ(cache_->Get(1), std::nullopt);
    EXPECT_EQ(cache_->TimeToLive(1), std::nullopt);
    EXPECT_LE(cache_->NextDeadline(), clock_.Now());
    cache_->RunMaintenance();
    EXPECT_EQ(cache_->size(), 1);
  }
}

TEST_P(CacheExpiryRaceTest, GetOvertakenByTheExpiryStillHasTheValue) {
  cache_->Set(1, 10, absl::Seconds(1));
  int seen = 0;
  EXPECT_TRUE(cache_->Visit(1, [&](const int& value) {
    LetASecondPassAndReclaim();
    EXPECT_EQ(cache_->size(), 0);
    for (int key = 2; key < 100; ++key) cache_->Set(key, key);
    seen = value;
  }));
  EXPECT_EQ(seen, 10);
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheExpiryRaceTest, testing::EachPolicy());

// "Unstable" expiry: how TTLs vary.

constexpr int kKeys = 4'000;
constexpr absl::Duration kTtl = absl::Seconds(100);

class CacheJitterTest : public CacheEnvironment {
 protected:
  // The TTLs that many keys get for the same one.
  std::vector<absl::Duration> Ttls(absl::Duration ttl = kTtl) {
    auto cache = New<int, int>();
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

// Promise: Exact expiry
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
  auto cache = New<int, int>();
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
  IntCache::Hooks hooks;
  hooks.weigher = [](int, int value) { return static_cast<uint64_t>(value); };
  std::vector<absl::Duration> ttls[2];
  for (const bool full : {false, true}) {
    if (full) options_.max_bytes = 10'000;
    auto cache = New<int, int>(hooks);
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
  auto cache = New<int, int>();
  cache->Set(1, 1, kTtl);
  EXPECT_EQ(cache->TimeToLive(1), absl::Nanoseconds(92'747'126'272));
  cache->Set(2, 2, kTtl);
  EXPECT_EQ(cache->TimeToLive(2), absl::Nanoseconds(91'458'187'807));
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
  auto cache = New<int, int>();
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
