// Conditional writes that others overtake: in the middle of SetIf and of
// Update, between the decision and the lock, and between two holds of it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using IntCache = Cache<int, int>;
using Handle = IntCache::Handle;
using Decision = IntCache::Decision;

Removal<int, int> Left(int key, int value, RemovalCause cause) {
  return {key, value, cause, {}};
}

// Of key 1, whose value is 10; and of what is stored without a TTL.
constexpr absl::Duration kTtl = absl::Seconds(1);
constexpr absl::Duration kDefaultTtl = absl::Hours(100);

// What may happen to key 1 in the middle of a call.
struct Event {
  std::string name;
  std::function<void(IntCache&, SimulatedClock&)> happen;
  bool same_entry;           // Whether it is still the one that was read.
  std::optional<int> value;  // What the key has then.
  absl::Duration time_left;  // Of what is then stored without a TTL.
};

std::vector<Event> Events() {
  return {
      {"equal value", [](IntCache& cache, auto&) { cache.Set(1, 10); }, false,
       10, kDefaultTtl},
      {"Del and Set",
       [](IntCache& cache, auto&) {
         cache.Del(1);
         cache.Set(1, 10);
       },
       false, 10, kDefaultTtl},
      {"expiry", [](IntCache&, auto& clock) { clock.Advance(kTtl); }, false,
       std::nullopt, kDefaultTtl},
      {"expiry that was reclaimed",
       [](IntCache& cache, auto& clock) {
         clock.Advance(kTtl);
         cache.RunMaintenance();
       },
       false, std::nullopt, kDefaultTtl},
      {"Touch", [](IntCache& cache, auto&) { cache.Touch(1, absl::Hours(7)); },
       true, 10, absl::Hours(7)},
      {"Touch in time",
       [](IntCache& cache, auto& clock) {
         cache.Touch(1, absl::Hours(7));
         clock.Advance(absl::Hours(1));
       },
       true, 10, absl::Hours(6)},
      {"eviction",
       [](IntCache& cache, auto&) {
         // Keys that come back leave no room for it, with either policy.
         for (int i = 0; i < 100; ++i) cache.Set(2 + i % 8, 0);
       },
       false, std::nullopt, kDefaultTtl},
      {"Clear", [](IntCache& cache, auto&) { cache.Clear(); }, false,
       std::nullopt, kDefaultTtl},
      {"Take", [](IntCache& cache, auto&) { (void)cache.Take(1); }, false,
       std::nullopt, kDefaultTtl},
      {"nothing", [](IntCache&, auto&) {}, true, 10, kTtl},
  };
}

class CacheConditionalRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  CacheConditionalRaceTest() {
    options_.max_entries = 4;
    options_.default_ttl = kDefaultTtl;
  }
  ~CacheConditionalRaceTest() override {
    if (cache_ != nullptr) {
      EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    }
  }

  // A cache that holds 10 under key 1.
  void Reset() {
    cache_ = New<int, int>(log_.hooks());
    cache_->Set(1, 10, kTtl);
  }

  void Plan(const std::string& point, const Event& event) {
    At(point, [this, &event] {
      event.happen(*cache_, clock_);
      (void)log_.Take();
    });
  }

  RemovalLog<int, int> log_;
  std::unique_ptr<IntCache> cache_;
};

// Promise: Conditional writes
TEST_P(CacheConditionalRaceTest, SetIfWinsIfTheEntryIsStillTheSame) {
  for (const Event& event : Events()) {
    SCOPED_TRACE(event.name);
    Reset();
    const Handle old = cache_->Find(1);
    Plan("store: between clock and lock", event);
    const Put put = cache_->SetIf(1, old, 11);
    EXPECT_EQ(put, event.same_entry ? Put::kStored : Put::kLost);
    EXPECT_EQ(cache_->Peek(1),
              event.same_entry ? std::optional<int>(11) : event.value);
    if (event.same_entry) {
      EXPECT_EQ(cache_->TimeToLive(1), event.time_left);
      EXPECT_THAT(log_.Take(),
                  ElementsAre(Left(1, 10, RemovalCause::kReplaced)));
    }
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }
}

TEST_P(CacheConditionalRaceTest, DelIfWinsIfTheEntryIsStillTheSame) {
  for (const Event& event : Events()) {
    SCOPED_TRACE(event.name);
    Reset();
    const Handle old = cache_->Find(1);
    Plan("remove if: before the lock", event);
    EXPECT_EQ(cache_->DelIf(1, old), event.same_entry);
    EXPECT_EQ(cache_->Peek(1), event.same_entry ? std::nullopt : event.value);
  }
}

TEST_P(CacheConditionalRaceTest, RefusedValueTakesTheOldOneIfItIsTheSame) {
  for (const Event& event : Events()) {
    SCOPED_TRACE(event.name);
    Reset();
    const Handle old = cache_->Find(1);
    Plan("remove if: before the lock", event);
    EXPECT_EQ(cache_->SetIf(1, old, 11, absl::ZeroDuration()),
              event.same_entry ? Put::kRefused : Put::kLost);
    EXPECT_EQ(cache_->Peek(1), event.same_entry ? std::nullopt : event.value);
  }
}

TEST_P(CacheConditionalRaceTest, TakeGetsWhatIsThereUnderTheLock) {
  for (const Event& event : Events()) {
    SCOPED_TRACE(event.name);
    Reset();
    Plan("take: before the lock", event);
    const Handle taken = cache_->Take(1);
    EXPECT_EQ(taken ? std::optional<int>(*taken) : std::nullopt, event.value);
    EXPECT_FALSE(cache_->Contains(1));
  }
}

// Promise: Conditional writes
// Whether it happens while the function runs, or when it has decided.
TEST_P(CacheConditionalRaceTest, UpdateCallsItsFunctionAgainWithWhatIsThere) {
  for (const char* point : {"", "update: between decision and write",
                            "store: between clock and lock"}) {
    for (const Event& event : Events()) {
      SCOPED_TRACE(event.name);
      SCOPED_TRACE(point);
      Reset();
      std::vector<std::optional<int>> seen;
      if (*point != '\0') Plan(point, event);
      EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
        seen.push_back(old ? std::optional<int>(*old) : std::nullopt);
        if (*point == '\0' && seen.size() == 1) event.happen(*cache_, clock_);
        return Decision::Set(old ? *old + 1 : 1);
      }));
      EXPECT_EQ(seen.front(), 10);
      if (event.same_entry) {
        EXPECT_EQ(seen.size(), 1);
      } else {
        ASSERT_EQ(seen.size(), 2);
        EXPECT_EQ(seen.back(), event.value);
      }
      EXPECT_EQ(cache_->Peek(1), event.value.value_or(0) + 1);
      EXPECT_EQ(cache_->TimeToLive(1), event.time_left);
    }
  }
}

TEST_P(CacheConditionalRaceTest, UpdateDeletesWhatItsFunctionHasSeen) {
  for (const Event& event : Events()) {
    SCOPED_TRACE(event.name);
    Reset();
    int calls = 0;
    Plan("remove if: before the lock", event);
    EXPECT_EQ(cache_->Update(1,
                             [&](const Handle&) {
                               ++calls;
                               return Decision::Delete();
                             }),
              event.value.has_value());
    EXPECT_EQ(calls, event.same_entry ? 1 : 2);
    EXPECT_FALSE(cache_->Contains(1));
  }
}

TEST_P(CacheConditionalRaceTest, UpdateThatIsOvertakenMayStillKeep) {
  Reset();
  At("update: between decision and write", [&] { cache_->Set(1, 99); });
  EXPECT_FALSE(cache_->Update(1, [](const Handle& old) {
    return *old == 99 ? Decision::Keep() : Decision::Set(11);
  }));
  EXPECT_EQ(cache_->Get(1), 99);
}

// The other direction: absent when it was read.
TEST_P(CacheConditionalRaceTest, EmptyHandleLosesToAValueThatCameMeanwhile) {
  Reset();
  cache_->Del(1);
  At("store: between clock and lock", [&] { cache_->Set(1, 20); });
  EXPECT_EQ(cache_->SetIf(1, {}, 11), Put::kLost);
  EXPECT_EQ(cache_->Get(1), 20);
}

TEST_P(CacheConditionalRaceTest, EmptyHandleWinsOnceTheValueHasExpired) {
  Reset();
  At("store: between clock and lock",
     [&] { clock_.Advance(absl::Seconds(1)); });
  EXPECT_EQ(cache_->SetIf(1, {}, 11), Put::kStored);
  EXPECT_EQ(cache_->Get(1), 11);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kExpired)));
}

// Between reading the clock and the lock, the value becomes one that others
// have found expired.
TEST_P(CacheConditionalRaceTest, NobodySeesAValueAgainThatHasExpired) {
  Reset();
  const Handle old = cache_->Find(1);
  At("store: between clock and lock", [&] {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(cache_->Get(1), std::nullopt);
  });
  EXPECT_EQ(cache_->SetIf(1, old, 11, absl::Hours(1)), Put::kLost);
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_P(CacheConditionalRaceTest, TtlThatIsGivenCountsFromTheCall) {
  Reset();
  const Handle old = cache_->Find(1);
  At("store: between clock and lock",
     [&] { clock_.Advance(absl::Milliseconds(600)); });
  EXPECT_EQ(cache_->SetIf(1, old, 11, absl::Seconds(2)), Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Milliseconds(1400));
}

// A new value that needs the room of many, of which each hold of the lock may
// evict one.
class LargeConditionalRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  LargeConditionalRaceTest() {
    options_.shards = 1;
    options_.maintenance_budget = 1;
    options_.max_bytes = 3'000;
    cache_ = New<int, std::string>();
    cache_->Set(1, "old", absl::Hours(1));
    for (int key = 2; cache_->stats().evictions == 0; ++key) {
      cache_->Set(key, "other");
      (void)cache_->Get(1);
    }
  }
  ~LargeConditionalRaceTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  // Has something happen when the call takes the lock for the third time.
  static void AtTheThirdLock(std::function<void()> action) {
    const std::string point = "store: between clock and lock";
    At(point, [=] { At(point, [=] { At(point, action); }); });
  }

  const std::string large_ = std::string(1'000, 'x');
  std::unique_ptr<Cache<int, std::string>> cache_;
};

TEST_P(LargeConditionalRaceTest, SetIfLooksAgainWhenItHasMadeRoom) {
  const auto old = cache_->Find(1);
  AtTheThirdLock([&] { cache_->Set(1, "new"); });
  EXPECT_EQ(cache_->SetIf(1, old, large_), Put::kLost);
  EXPECT_EQ(cache_->Get(1), "new");
}

TEST_P(LargeConditionalRaceTest, EmptyHandleLooksAgainWhenItHasMadeRoom) {
  cache_->Del(1);
  AtTheThirdLock([&] { cache_->Set(1, "new"); });
  EXPECT_EQ(cache_->SetIf(1, {}, large_), Put::kLost);
  EXPECT_EQ(cache_->Get(1), "new");
}

TEST_P(LargeConditionalRaceTest, DeadlineIsTheOneAtTheEnd) {
  const auto old = cache_->Find(1);
  AtTheThirdLock([&] { cache_->Touch(1, absl::Hours(2)); });
  EXPECT_EQ(cache_->SetIf(1, old, large_), Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Hours(2));
  const auto next = cache_->Find(1);
  for (int key = 30; key < 60; ++key) {
    cache_->Set(key, "other");
    (void)cache_->Get(1);
  }
  AtTheThirdLock([&] { cache_->Touch(1, absl::InfiniteDuration()); });
  EXPECT_EQ(cache_->SetIf(1, next, large_ + large_), Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::InfiniteDuration());
}

TEST_P(LargeConditionalRaceTest, RoomOfALoserComesBack) {
  const auto old = cache_->Find(1);
  AtTheThirdLock([&] { cache_->Del(1); });
  EXPECT_EQ(cache_->SetIf(1, old, large_), Put::kLost);
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  EXPECT_EQ(cache_->SetIf(1, {}, large_), Put::kStored);
}

// One of two threads that found nothing loads in vain.
TEST_P(CacheConditionalRaceTest, LoadIsOvertakenByAWinnerAndNotByALoser) {
  Reset();
  const Handle old = cache_->Find(1);
  cache_->Del(1);
  const auto value_after_load = [&](int value) {
    (void)cache_->GetOrLoad(1, [&] { return absl::StatusOr<int>(value); });
    return cache_->Get(1);
  };
  At("store: between clock and lock", [&] {
    std::thread([&] {
      EXPECT_EQ(cache_->SetIf(1, old, 11), Put::kLost);
      EXPECT_FALSE(cache_->DelIf(1, old));
    }).join();
  });
  EXPECT_EQ(value_after_load(30), 30);
  cache_->Del(1);
  At("store: between clock and lock", [&] {
    std::thread([&] {
      EXPECT_EQ(cache_->SetIf(1, {}, 11), Put::kStored);
    }).join();
  });
  EXPECT_EQ(value_after_load(31), 11);
  cache_->Del(1);
  At("store: between clock and lock",
     [&] { std::thread([&] { EXPECT_FALSE(cache_->Take(1)); }).join(); });
  EXPECT_EQ(value_after_load(32), std::nullopt);
}

using TakeRaceTest = CacheEnvironment;

// Promise: Conditional writes
TEST_F(TakeRaceTest, OneOfSeveralCallersGetsIt) {
  constexpr int kThreads = 4;
  constexpr int kKeys = 2'000;
  auto cache = New<int, int>();
  std::atomic<int> taken[kKeys] = {};
  std::atomic<bool> go{false};
  for (int key = 0; key < kKeys; ++key) cache->Set(key, key);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      while (!go.load()) std::this_thread::yield();
      for (int key = 0; key < kKeys; ++key) {
        const auto handle = cache->Take(key);
        if (!handle) continue;
        EXPECT_EQ(*handle, key);
        ++taken[key];
      }
    });
  }
  go.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const std::atomic<int>& times : taken) EXPECT_EQ(times.load(), 1);
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.deletes, kKeys);
  EXPECT_EQ(stats.hits, kKeys);
  EXPECT_EQ(stats.misses, (kThreads - 1) * kKeys);
}

using UpdateRaceTest = CacheEnvironment;

// Promise: Conditional writes
// Many threads, one key: no increment is lost, and none counts twice.
TEST_F(UpdateRaceTest, EachOfManyIncrementsCounts) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 2'000;
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    auto cache = New<int, std::string>();  // Not all of one size.
    using Strings = Cache<int, std::string>;
    std::atomic<int64_t> calls{0};
    std::thread threads[kThreads];
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        for (int i = 0; i < kIncrements; ++i) {
          EXPECT_TRUE(cache->Update(i % 2, [&](const Strings::Handle& old) {
            ++calls;
            return Strings::Decision::Set(
                std::to_string(old ? std::stoi(std::string(*old)) + 1 : 1));
          }));
          if (i % 16 == 0) cache->Touch(0, absl::Hours(1));
          if (i % 64 == 0) cache->RunMaintenance();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::string each = std::to_string(kThreads * kIncrements / 2);
    EXPECT_EQ(cache->Get(0), each);
    EXPECT_EQ(cache->Get(1), each);
    EXPECT_EQ(cache->stats().sets, kThreads * kIncrements);
    EXPECT_GE(calls.load(), kThreads * kIncrements);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// What is taken is gone from the sum, and goes nowhere twice.
TEST_F(UpdateRaceTest, WhatIsTakenAndWhatIsLeftAddsUp) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 2'000;
  auto cache = New<int, int>();
  std::atomic<int64_t> taken{0};
  std::thread threads[kThreads];
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < kCalls; ++i) {
        EXPECT_TRUE(cache->Update(1, [](const Handle& old) {
          return Decision::Set(old ? *old + 1 : 1);
        }));
        if (i % 4 != 0) continue;
        if (const auto handle = cache->Take(1)) taken += *handle;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t left = cache->Get(1).value_or(0);
  EXPECT_EQ(taken.load() + left, kThreads * kCalls);
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheConditionalRaceTest,
                         testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, LargeConditionalRaceTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
