// Sliding expiry under the hard TTL: which uses extend a life, until when, and
// that nobody revives what somebody has found expired.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using IntCache = Cache<int, int>;
using Removals = Removal<int, int>;

// Uses of key 1 of a cache, or what is none.
struct Use {
  const char* name;
  std::function<void(IntCache&)> make;
};

std::vector<Use> Uses() {
  using Decision = IntCache::Decision;
  return {
      {"Get", [](IntCache& cache) { (void)cache.Get(1); }},
      {"Find", [](IntCache& cache) { (void)cache.Find(1); }},
      {"FindMany",
       [](IntCache& cache) {
         const int keys[] = {1};
         IntCache::Handle handle;
         cache.FindMany(absl::MakeConstSpan(keys), {&handle, 1});
       }},
      {"Visit", [](IntCache& cache) { cache.Visit(1, [](int) {}); }},
      {"within another read",
       [](IntCache& cache) {
         cache.Set(2, 2);
         cache.Visit(2, [&](int) { (void)cache.Get(1); });
       }},
      {"Touch",
       [](IntCache& cache) { cache.Touch(1, absl::InfiniteDuration()); }},
      {"Update that keeps",
       [](IntCache& cache) {
         cache.Update(1, [](const auto&) { return Decision::Keep(); });
       }},
      {"Update that sets",
       [](IntCache& cache) {
         cache.Update(1, [](const auto&) { return Decision::Set(1); });
       }},
      {"SetIf",
       [](IntCache& cache) {
         const IntCache::Handle old = cache.Find(1);
         EXPECT_EQ(cache.SetIf(1, old, 1), Put::kStored);
       }},
      {"SetIf with a deadline",
       [](IntCache& cache) {
         const Deadline never(absl::InfiniteDuration());
         EXPECT_EQ(cache.SetIf(1, cache.Find(1), 1, never), Put::kStored);
       }},
      {"Set", [](IntCache& cache) { cache.Set(1, 1); }},
      {"FindOrLoad",
       [](IntCache& cache) {
         (void)cache.FindOrLoad(1, {}, [] { return Loaded<int>{2}; });
       }},
      {"BeginLoad",
       [](IntCache& cache) { (void)cache.BeginLoad(1, {}, [](auto) {}); }},
  };
}

std::vector<Use> NoUses() {
  return {
      {"nothing", [](IntCache&) {}},
      {"Peek", [](IntCache& cache) { (void)cache.Peek(1); }},
      {"Contains", [](IntCache& cache) { (void)cache.Contains(1); }},
      {"TimeToLive", [](IntCache& cache) { (void)cache.TimeToLive(1); }},
      {"ForEach",
       [](IntCache& cache) {
         cache.ForEach([](const auto&) { return true; });
       }},
      {"EraseIf",
       [](IntCache& cache) {
         cache.EraseIf([](const auto&) { return false; });
       }},
      {"DelIf of another", [](IntCache& cache) { cache.DelIf(1, {}); }},
      {"SetIf that loses",
       [](IntCache& cache) { EXPECT_EQ(cache.SetIf(1, {}, 2), Put::kLost); }},
      {"a use of another key", [](IntCache& cache) { (void)cache.Get(3); }},
  };
}

class CacheIdleTtlTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  static constexpr absl::Duration kIdle = absl::Seconds(16);
  static constexpr absl::Duration kNano = absl::Nanoseconds(1);

  CacheIdleTtlTest() { options_.idle_ttl = kIdle; }

  std::unique_ptr<IntCache> NewCache() { return New<int, int>(log_.hooks()); }

  RemovalLog<int, int> log_;
};

INSTANTIATE_TEST_SUITE_P(Policies, CacheIdleTtlTest, testing::EachPolicy());

// Promise: Exact expiry
TEST_P(CacheIdleTtlTest, NothingIsReturnedOnceItWasNotUsedForThatLong) {
  for (const absl::Duration tick : {kNano, absl::Milliseconds(1)}) {
    options_.tick = tick;
    auto cache = NewCache();
    cache->Set(1, 1);
    EXPECT_EQ(cache->TimeToLive(1), kIdle);
    const IntCache::Handle handle = cache->Find(1);
    EXPECT_EQ(handle.TimeToLive(), kIdle);
    clock_.Advance(kIdle - kNano);
    EXPECT_EQ(cache->Peek(1), 1);
    EXPECT_EQ(cache->TimeToLive(1), kNano);
    clock_.Advance(kNano);
    EXPECT_EQ(cache->Get(1), std::nullopt);
    EXPECT_EQ(cache->Peek(1), std::nullopt);
    EXPECT_FALSE(cache->Contains(1));
    EXPECT_EQ(cache->TimeToLive(1), std::nullopt);
    EXPECT_LE(handle.TimeToLive(), absl::ZeroDuration());
    EXPECT_GE(handle.TimeToLive(), -kNano);
    EXPECT_TRUE(cache->ForEach([](const auto&) { return false; }));
    EXPECT_FALSE(cache->Touch(1, kIdle));
    EXPECT_FALSE(cache->DelIf(1, handle));
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    EXPECT_FALSE(cache->Del(1));
    EXPECT_THAT(log_.Take(),
                ElementsAre(Removals{1, 1, RemovalCause::kExpired, {}}));
  }
}

// Promise: Exact expiry
TEST_P(CacheIdleTtlTest, WhatCountsForLruExtendsALifeAndNothingElse) {
  for (const Use& use : Uses()) {
    auto cache = NewCache();
    cache->Set(1, 1);
    for (int i = 0; i < 20; ++i) {
      clock_.Advance(kIdle * 0.9);
      use.make(*cache);
      ASSERT_EQ(cache->Peek(1), 1) << use.name << ", use " << i;
      ASSERT_EQ(cache->TimeToLive(1), kIdle) << use.name;
      cache->RunMaintenance();
    }
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    clock_.Advance(kIdle);
    EXPECT_FALSE(cache->Contains(1)) << use.name;
  }
  for (const Use& use : NoUses()) {
    auto cache = NewCache();
    cache->Set(1, 1);
    clock_.Advance(kIdle * 0.9);
    use.make(*cache);
    EXPECT_EQ(cache->TimeToLive(1), kIdle * 0.1) << use.name;
  }
}

// Promise: Exact expiry
TEST_P(CacheIdleTtlTest, HardTtlEndsWhatIsUsedForEver) {
  const absl::Duration ttl = absl::Minutes(10);
  options_.default_ttl = ttl;
  auto cache = NewCache();
  cache->Set(1, 1);
  clock_.Advance(kIdle / 2);
  // What has no deadline of its own keeps that of the old value.
  ASSERT_EQ(cache->SetIf(1, cache->Find(1), 2), Put::kStored);
  for (absl::Duration past = kIdle / 2; past < ttl; past += absl::Seconds(1)) {
    ASSERT_EQ(cache->Get(1), 2) << past;
    // The earlier of the two.
    const absl::Duration left = std::min(kIdle, ttl - past);
    EXPECT_LE(*cache->TimeToLive(1), left);
    EXPECT_GE(*cache->TimeToLive(1), left - kIdle / 16);
    clock_.Advance(absl::Seconds(1));
    cache->RunMaintenance();
  }
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheIdleTtlTest, DeadlineMayBeTheFirstThereIs) {
  auto cache = NewCache();
  EXPECT_EQ(cache->SetIf(1, {}, 1, Deadline(-absl::InfiniteDuration())),
            Put::kRefused);
}

TEST_P(CacheIdleTtlTest, TouchGivesAnotherHardTtl) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::Hours(1));
  cache->Touch(1, kIdle / 4);
  EXPECT_EQ(cache->TimeToLive(1), kIdle / 4 - kNano);
  clock_.Advance(kIdle / 8);
  EXPECT_EQ(cache->Get(1), 1);
  EXPECT_EQ(cache->TimeToLive(1), kIdle / 8 - kNano);
  cache->Touch(1, kIdle * 1.5);
  EXPECT_EQ(cache->TimeToLive(1), kIdle);
  clock_.Advance(kIdle);
  EXPECT_FALSE(cache->Contains(1));
}

TEST_P(CacheIdleTtlTest, UseWithinA16thOfTheLastExtensionWritesNothing) {
  auto cache = NewCache();
  cache->Set(1, 1);
  clock_.Advance(kIdle / 16);
  EXPECT_EQ(cache->Get(1), 1);
  EXPECT_EQ(cache->TimeToLive(1), kIdle - kIdle / 16);
  clock_.Advance(kNano);
  EXPECT_EQ(cache->Get(1), 1);
  EXPECT_GE(*cache->TimeToLive(1), kIdle - kNano);
  EXPECT_LE(*cache->TimeToLive(1), kIdle);
}

// Promise: Memory comes back by itself
TEST_P(CacheIdleTtlTest, IdleEntriesAreReclaimedWithoutTraffic) {
  auto cache = NewCache();
  for (int i = 0; i < 100; ++i) cache->Set(i, i);
  const absl::Duration start = clock_.Now();
  EXPECT_EQ(cache->NextDeadline(), start + kIdle);
  clock_.Advance(kIdle / 2);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cache->Get(i), i);
  clock_.Advance(kIdle / 2);
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 50);
  // Of those that were used.
  EXPECT_EQ(cache->NextDeadline(), start + kIdle * 1.5);
  clock_.Advance(kIdle / 2);
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(cache->stats().expirations, 100);
}

// Promise: Memory comes back by itself
TEST_P(CacheIdleTtlTest, ReaperReclaimsThem) {
  Reaper reaper{clock_};
  options_.reaper = &reaper;
  options_.reclaim_delay = absl::ZeroDuration();
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2);
  clock_.RunFor(kIdle * 0.9);
  EXPECT_EQ(cache->Get(1), 1);
  clock_.RunFor(kIdle * 0.5);
  EXPECT_EQ(cache->size(), 1);
  clock_.RunFor(kIdle * 0.5);
  EXPECT_EQ(cache->size(), 0);
}

TEST_P(CacheIdleTtlTest, TakesEightBytesAnEntryAndNoneWithoutIt) {
  for (const bool weighed : {false, true}) {
    int64_t bytes[2];
    for (const bool idle : {false, true}) {
      options_.idle_ttl = idle ? kIdle : absl::InfiniteDuration();
      Cache<std::string, std::string>::Hooks hooks;
      if (weighed) hooks.weigher = [](auto, auto) { return uint64_t{5}; };
      auto cache = New<std::string, std::string>(hooks);
      // Of all lengths, as the deadline lies behind key, value and charge.
      for (size_t i = 0; i < 64; ++i) {
        const std::string text(i, 'x');
        ASSERT_TRUE(cache->Set(text, text + text, absl::Hours(1)));
      }
      bytes[idle ? 1 : 0] = cache->bytes();
      // So that each comes to its hard deadline.
      for (int step = 0; step < 359; ++step) {
        clock_.Advance(absl::Seconds(10));
        for (size_t i = 0; i < 64; ++i) {
          const std::string text(i, 'x');
          ASSERT_EQ(cache->Get(text), text + text) << step;
        }
      }
      EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
      EXPECT_EQ(cache->Find("")->size(), 0);
      clock_.Advance(absl::Seconds(10));
      EXPECT_FALSE(cache->Contains(""));
    }
    EXPECT_EQ(bytes[1] - bytes[0], weighed ? 0 : 64 * 8);
  }
}

// Uses a value for longer than the idle TTL, until it ends with its hard one.
template <typename CacheType>
void UseUntilTheEnd(CacheType* cache, SimulatedClock* clock) {
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(cache->Find(1)) << i;
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    clock->Advance(absl::Seconds(10));
  }
  EXPECT_FALSE(cache->Find(1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

TEST_P(CacheIdleTtlTest, EveryKindOfEntryHasRoomForTheDeadline) {
  struct alignas(64) Aligned {
    char all[64] = {};
  };
  options_.default_ttl = absl::Minutes(2);
  auto aligned = New<int, Aligned>();
  aligned->Set(1, Aligned());
  UseUntilTheEnd(aligned.get(), &clock_);

  auto outside = New<int, std::string>();
  outside->Set(1, std::string(100'000, 'x'));
  UseUntilTheEnd(outside.get(), &clock_);
  // A failure, and a value that a load makes.
  LoadOptions options;
  options.error_ttl = absl::Seconds(1);
  using Loaded = Cache<int, std::string>::LoadResult;
  const auto fail = []() -> Loaded { return absl::NotFoundError("no"); };
  const auto load = []() -> Loaded { return {{std::string(9, 'x')}}; };
  EXPECT_FALSE(outside->FindOrLoad(1, options, fail).ok());
  EXPECT_FALSE(outside->FindOrLoad(1, options, load).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(outside->FindOrLoad(1, options, load).ok());
  UseUntilTheEnd(outside.get(), &clock_);

  auto owned = New<int, std::unique_ptr<int>>();
  owned->Set(1, std::make_unique<int>(1));
  UseUntilTheEnd(owned.get(), &clock_);
}

TEST_P(CacheIdleTtlTest, RefreshesByTheFractionOfTheHardTtl) {
  options_.default_ttl = absl::Minutes(10);
  options_.refresh_at = 0.5;
  IntCache::Hooks hooks;
  int loads = 0;
  hooks.load = [&](int) { return Loaded<int>{++loads}; };
  auto cache = New<int, int>(hooks);
  for (int past = 0; past < 300; past += 10) {
    EXPECT_EQ(*cache->GetOrLoad(1), 1);
    clock_.Advance(absl::Seconds(10));
  }
  EXPECT_EQ(*cache->GetOrLoad(1), 2);
}

TEST_P(CacheIdleTtlTest, LivesAtTheEndsOfTime) {
  for (const absl::Duration idle :
       {absl::Microseconds(1), absl::Nanoseconds(Clock::kNever - 1),
        absl::Nanoseconds(Clock::kNever / 2)}) {
    options_.idle_ttl = idle;
    auto cache = NewCache();
    cache->Set(1, 1);
    cache->Set(2, 2, absl::Nanoseconds(2));
    clock_.Advance(absl::Nanoseconds(500));
    EXPECT_EQ(cache->Get(1), 1) << idle;
    EXPECT_FALSE(cache->Contains(2));
    clock_.Advance(absl::Nanoseconds(600));
    EXPECT_EQ(cache->Get(1), 1) << idle;
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_P(CacheIdleTtlTest, AdviceKnowsThatUsesExtendALife) {
  options_.policy = EvictionPolicy::kLru;
  options_.advise = true;
  options_.max_entries = 100;
  auto cache = NewCache();
  cache->Set(1, 1);
  for (int key = 2; key < 50; ++key) cache->Set(key, 0);
  clock_.Advance(kIdle / 2);
  EXPECT_EQ(cache->Get(1), 1);
  clock_.Advance(kIdle / 4 * 3);
  for (int key = 2; key < 200; ++key) cache->Set(key, 0);
  EXPECT_EQ(cache->Get(1), std::nullopt);
  EXPECT_EQ(cache->Advise()->evicted, 1);
  EXPECT_EQ(cache->Advise()->expired, 0);
}

// A hit that is about to extend a life.
class CacheIdleTtlRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  static constexpr absl::Duration kIdle = absl::Seconds(16);
  static constexpr char kPoint[] = "extend: before the deadline changes";

  CacheIdleTtlRaceTest() { options_.idle_ttl = kIdle; }

  void SetUp() override {
    InterruptedCacheEnvironment::SetUp();
    cache_ = New<int, int>(log_.hooks());
    cache_->Set(1, 1, absl::Hours(1));
    clock_.Advance(kIdle / 2);
  }
  void TearDown() override {
    if (cache_ == nullptr) return;
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  RemovalLog<int, int> log_;
  std::unique_ptr<IntCache> cache_;
};

INSTANTIATE_TEST_SUITE_P(Policies, CacheIdleTtlRaceTest, testing::EachPolicy());

// Promise: Each call takes effect at one instant
TEST_P(CacheIdleTtlRaceTest, NobodyRevivesWhatAnotherReaderFoundExpired) {
  const std::vector<std::function<void()>> findings = {
      [&] { EXPECT_EQ(cache_->Get(1), std::nullopt); },
      [&] { EXPECT_FALSE(cache_->Contains(1)); },
      [&] { EXPECT_FALSE(cache_->Touch(1, kIdle)); },
      [&] { EXPECT_EQ(cache_->SetIf(1, cache_->Find(1), 1), Put::kStored); },
      [&] { EXPECT_TRUE(cache_->ForEach([](auto&) { return false; })); },
      [&] { EXPECT_FALSE(cache_->Del(1)); },
      [&] { EXPECT_FALSE(cache_->Take(1)); },
      [&] { cache_->Set(1, 1); },
      [&] { cache_->RunMaintenance(); },
  };
  for (const auto& find : findings) {
    for (const bool pins : {false, true}) {
      cache_->Clear();
      cache_->Set(1, 0, absl::Hours(1));
      clock_.Advance(kIdle / 2);
      const absl::Duration end = *cache_->TimeToLive(1);
      At(kPoint, [&] {
        clock_.Advance(end);
        find();
      });
      // The old value, or nothing.
      if (pins) {
        const IntCache::Handle handle = cache_->Find(1);
        EXPECT_NE(handle ? *handle : 1, 0);
      } else {
        EXPECT_NE(cache_->Get(1), 0);
      }
      EXPECT_NE(cache_->Peek(1), 0);
      EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    }
  }
}

// The other way around: nobody has noticed that time has passed.
TEST_P(CacheIdleTtlRaceTest, UseCountsFromWhenItsClockWasRead) {
  At(kPoint, [&] { clock_.Advance(absl::Seconds(11)); });
  EXPECT_EQ(cache_->Get(1), 1);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Seconds(5));
  EXPECT_EQ(cache_->Get(1), 1);
  EXPECT_EQ(cache_->TimeToLive(1), kIdle);
}

TEST_P(CacheIdleTtlRaceTest, MaintenanceSparesWhatIsExtendedInTime) {
  std::atomic<bool> extended{false};
  PausedCall hit(kPoint, 1, [&] {
    EXPECT_EQ(cache_->Get(1), 1);
    extended = true;
  });
  clock_.Advance(kIdle / 2);
  At("expire: before the deadline is final", [&] { hit.GoOn(); });
  cache_->RunMaintenance();
  EXPECT_TRUE(extended);
  EXPECT_EQ(cache_->size(), 1);
  EXPECT_EQ(cache_->TimeToLive(1), kIdle / 2);
  clock_.Advance(kIdle / 2);
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->size(), 0);
}

// A Touch whose new deadline equals the one that the hit has read, by which a
// hit that knows only the old TTL would keep the value for too long.
TEST_P(CacheIdleTtlRaceTest, HitCannotExtendBeyondWhatTouchGives) {
  for (const absl::Duration off :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Nanoseconds(2)}) {
    cache_->Set(1, 1, absl::Hours(1));
    clock_.Advance(kIdle / 2);
    const absl::Duration left = *cache_->TimeToLive(1);
    At(kPoint, [&] { EXPECT_TRUE(cache_->Touch(1, left + off)); });
    EXPECT_EQ(cache_->Get(1), 1);
    EXPECT_LE(*cache_->TimeToLive(1), left + off);
    clock_.Advance(left + off);
    EXPECT_EQ(cache_->Get(1), std::nullopt);
  }
}

// Here Touch gives an idle deadline at the time of the last use, which it read
// before the hit came.
TEST_P(CacheIdleTtlRaceTest, HitWithTheOldTtlIsOlderThanTheTouch) {
  cache_->Set(1, 1, absl::Hours(1));
  std::unique_ptr<PausedCall> hit;
  At("touch: between clock and deadline", [&] {
    clock_.Advance(kIdle / 2);
    hit = std::make_unique<PausedCall>(kPoint, 1,
                                       [&] { EXPECT_EQ(cache_->Get(1), 1); });
  });
  EXPECT_TRUE(cache_->Touch(1, kIdle + absl::Seconds(1)));
  hit->GoOn();
  clock_.Advance(kIdle / 2 + absl::Seconds(1));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheIdleTtlRaceTest, HitExtendsWhatIsMovedMeanwhile) {
  const auto address = [&] {
    const int* at = nullptr;
    cache_->Visit(1, [&](const int& value) { at = &value; });
    return at;
  };
  cache_->Touch(1, absl::Hours(1));
  const int* const before = address();
  clock_.Advance(kIdle / 2);
  At(kPoint, [&] {
    testing::RequireRound(cache_.get());
    cache_->RunMaintenance();
  });
  EXPECT_EQ(cache_->Get(1), 1);
  EXPECT_EQ(cache_->TimeToLive(1), kIdle);
  EXPECT_NE(address(), before);
}

// The other order: a Touch is in its middle, and the hit has the new deadline.
TEST_P(CacheIdleTtlRaceTest, TouchCountsAHitInItsMiddle) {
  for (const absl::Duration ttl : {kIdle / 4, absl::Hours(2)}) {
    cache_->Set(1, 1, absl::Hours(1));
    clock_.Advance(kIdle / 2);
    At("touch: between hard deadline and clock", [&] {
      std::thread([&] { EXPECT_EQ(cache_->Get(1), 1); }).join();
      clock_.Advance(kIdle / 8);
    });
    EXPECT_TRUE(cache_->Touch(1, ttl));
    EXPECT_LE(*cache_->TimeToLive(1), std::min(kIdle, ttl - kIdle / 8));
    EXPECT_GE(*cache_->TimeToLive(1),
              std::min(kIdle, ttl - kIdle / 8) - absl::Nanoseconds(1));
  }
}

}  // namespace
}  // namespace wheelcache
