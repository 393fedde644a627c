// SetLimits while others use the cache: between its steps, and on other
// threads.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

using IntCache = Cache<int, int>;

constexpr char kStep[] = "limits: before a step makes room";

class SetLimitsRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  static void Fill(IntCache* cache, int entries) {
    for (int key = 0; key < entries; ++key) cache->Set(key, 100);
  }
  std::unique_ptr<IntCache> NewWeighing() {
    IntCache::Hooks hooks;
    hooks.weigher = [](int, int value) { return static_cast<uint64_t>(value); };
    return New<int, int>(std::move(hooks));
  }
  void ExpectWhole(IntCache* cache) {
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    const CacheStats stats = cache->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.evictions + stats.deletes +
                              stats.expirations + stats.replaced);
  }
};

// Else it would evict all there is, and then wait for ever.
TEST_P(SetLimitsRaceTest, SetThatNoLongerFitsIsRefused) {
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    options_.max_bytes = 100'000;
    auto cache = NewWeighing();
    Fill(cache.get(), 20);
    cache->Set(1000, 7);
    At("store: between clock and lock",
       [&] { EXPECT_TRUE(cache->SetLimits(kUnlimited, 2000).ok()); });
    EXPECT_FALSE(cache->Set(1000, 5000));
    EXPECT_FALSE(cache->Contains(1000)) << "the old value goes, too";
    EXPECT_TRUE(cache->Set(1, 100));
    ExpectWhole(cache.get());
  }
}

TEST_P(SetLimitsRaceTest, LoadThatNoLongerFitsIsReturnedAndNotStored) {
  options_.max_bytes = 100'000;
  auto cache = NewWeighing();
  At("store: between clock and lock",
     [&] { EXPECT_TRUE(cache->SetLimits(kUnlimited, 2000).ok()); });
  const absl::StatusOr<int> got =
      cache->GetOrLoad(1, []() -> absl::StatusOr<int> { return 5000; });
  EXPECT_EQ(*got, 5000);
  EXPECT_EQ(cache->size(), 0);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, CallThatGrowsEndsAnothersShrinking) {
  options_.maintenance_budget = 2;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  At(kStep, [&] {
    At(kStep, [&] { EXPECT_TRUE(cache->SetLimits(500, kUnlimited).ok()); });
  });
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 500);
  EXPECT_GE(cache->size(), 90);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, CallThatShrinksFurtherIsTheOneThatHolds) {
  options_.maintenance_budget = 2;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  At(kStep, [&] {
    EXPECT_TRUE(cache->SetLimits(5, kUnlimited).ok());
    EXPECT_EQ(cache->limits().entries, 5);
    EXPECT_EQ(cache->size(), 5);
  });
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 5);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, LimitFollowsTheUseDown) {
  options_.maintenance_budget = 4;
  options_.shards = 1;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  std::vector<int64_t> limits;
  const std::function<void()> look = [&] {
    limits.push_back(cache->limits().entries);
    EXPECT_EQ(cache->size(), limits.back());
    EXPECT_EQ(cache->limits().bytes, kUnlimited);
    if (limits.size() < 20) At(kStep, look);
  };
  At(kStep, look);
  EXPECT_TRUE(cache->SetLimits(20, kUnlimited).ok());
  EXPECT_EQ(limits.size(), 20u);
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_EQ(limits[i], 100 - 4 * static_cast<int64_t>(i));
  }
}

// It finds the room that its own eviction makes, not that of the shrinking.
TEST_P(SetLimitsRaceTest, NoSetPaysForTheShrinking) {
  options_.maintenance_budget = 1;
  options_.shards = 1;
  options_.max_entries = 100;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  int set = 0;
  const std::function<void()> set_one = [&] {
    const int64_t before = cache->stats().evictions;
    EXPECT_TRUE(cache->Set(1000 + set, 1));
    EXPECT_LE(cache->stats().evictions, before + 1);
    EXPECT_LE(cache->size(), cache->limits().entries);
    if (++set < 50) At(kStep, set_one);
  };
  At(kStep, set_one);
  EXPECT_TRUE(cache->SetLimits(20, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 20);
  EXPECT_EQ(set, 50);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, ClearDelAndSetMayComeBetweenAnySteps) {
  for (int at = 0; at < 12; ++at) {
    options_.maintenance_budget = 3;
    options_.shards = 4;
    auto cache = New<int, int>();
    Fill(cache.get(), 60);
    int step = 0;
    const std::function<void()> act = [&] {
      if (step++ < at) {
        At(kStep, act);
        return;
      }
      switch (at % 3) {
        case 0:
          cache->Clear();
          break;
        case 1:
          for (int key = 0; key < 60; ++key) cache->Del(key);
          break;
        default:
          Fill(cache.get(), 200);
      }
    };
    At(kStep, act);
    EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
    EXPECT_EQ(cache->limits().entries, 10);
    EXPECT_LE(cache->size(), 10);
    ExpectWhole(cache.get());
  }
}

// All there is to take is in the hand of a Set, which then finds that the limit
// is too low for it.
TEST_P(SetLimitsRaceTest, ShrinkAndSetThatHoldEachOthersRoomBothEnd) {
  options_.shards = 1;
  options_.maintenance_budget = 1;
  options_.max_bytes = 10 * (100 + OverheadOfAnEntry<int, int>());
  auto cache = NewWeighing();
  Fill(cache.get(), 10);
  std::atomic<bool> has_evicted{false};
  std::atomic<bool> shrinks{false};
  std::thread writer([&] {
    int evicted = 0;
    const std::function<void()> hold = [&] {
      if (++evicted < 8) {
        At("store: between clock and lock", hold);
        return;
      }
      has_evicted.store(true);
      while (!shrinks.load()) std::this_thread::yield();
    };
    At("store: between clock and lock", hold);
    EXPECT_FALSE(cache->Set(100, 1200));
  });
  while (!has_evicted.load()) std::this_thread::yield();
  // After two steps the limit is below what the entry takes.
  int steps = 0;
  const std::function<void()> count_steps = [&] {
    if (++steps < 3) {
      At(kStep, count_steps);
    } else {
      shrinks.store(true);
    }
  };
  At(kStep, count_steps);
  EXPECT_TRUE(cache->SetLimits(kUnlimited, 500).ok());
  EXPECT_LE(cache->bytes(), 500);
  writer.join();
  EXPECT_EQ(cache->limits().bytes, 500);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, UseIsShownBetweenTheStepsOfGrowth) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  Fill(cache.get(), 10);
  At("budget: between the limit and its room",
     [&] { EXPECT_GE(cache->size(), 10); });
  EXPECT_TRUE(cache->SetLimits(30, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 10);
}

TEST_P(SetLimitsRaceTest, ChildOfForkHasTheLimitsOfThatInstant) {
  options_.maintenance_budget = 2;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  std::atomic<bool> is_shrinking{false};
  std::atomic<bool> go_on{false};
  std::thread shrinker([&] {
    At(kStep, [&] {
      At(kStep, [&] {
        is_shrinking.store(true);
        while (!go_on.load()) std::this_thread::yield();
      });
    });
    EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  });
  while (!is_shrinking.load()) std::this_thread::yield();
  EXPECT_TRUE(testing::HoldsInChild(
      [&] {
        const int64_t limit = cache->limits().entries;
        if (limit <= 10 || cache->size() > limit) return false;
        for (int key = 200; key < 500; ++key) cache->Set(key, 1);
        if (cache->size() != limit) return false;
        return cache->CheckInvariants().ok() &&
               cache->SetLimits(5, kUnlimited).ok() && cache->size() == 5 &&
               cache->SetLimits(50, kUnlimited).ok() &&
               cache->limits().entries == 50;
      },
      testing::Others::kRun));
  go_on.store(true);
  shrinker.join();
  EXPECT_EQ(cache->limits().entries, 10);
  EXPECT_EQ(cache->size(), 10);
}

TEST_P(SetLimitsRaceTest, NeedsNoMemory) {
  options_.shards = 4;
  auto cache = New<int, int>();
  Fill(cache.get(), 3000);
  testing::failing_allocations.left = 0;
  testing::failing_allocations.once = false;
  const bool ok = cache->SetLimits(10, kUnlimited).ok();
  testing::failing_allocations.left = kUnlimited;
  EXPECT_TRUE(ok);
  EXPECT_EQ(cache->size(), 10);
  ExpectWhole(cache.get());
}

// Writers, two threads that change the limits, and one that looks.
class SetLimitsThreadsTest : public testing::WithEachPolicy<CacheEnvironment> {
};

TEST_P(SetLimitsThreadsTest, PresentLimitHoldsAtEveryInstant) {
  for (const int shards : {1, 8}) {
    options_.shards = shards;
    options_.max_entries = 1000;
    auto cache = New<int, int>();
    std::atomic<bool> done{false};
    // While it is even the limit falls, while it is odd it grows.
    std::atomic<uint64_t> phase{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(i));
        while (!done.load()) {
          cache->Set(static_cast<int>(random() % 5000), 1);
        }
      });
    }
    threads.emplace_back([&] {
      while (!done.load()) {
        const uint64_t before = phase.load();
        const int64_t first = cache->limits().entries;
        const int64_t size = cache->size();
        const int64_t last = cache->limits().entries;
        if (phase.load() != before) continue;
        EXPECT_LE(size, before % 2 == 0 ? first : last);
        EXPECT_GE(size, 0);
      }
    });
    std::mt19937_64 random(TestSeed());
    for (uint64_t i = 0; i < TestOperations() / 500; ++i) {
      const auto low = static_cast<int64_t>(1 + random() % 300);
      ASSERT_TRUE(cache->SetLimits(low, kUnlimited).ok());
      ASSERT_EQ(cache->limits().entries, low);
      ASSERT_LE(cache->size(), low);
      phase.fetch_add(1);
      ASSERT_TRUE(cache->SetLimits(1000, kUnlimited).ok());
      phase.fetch_add(1);
    }
    done.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_P(SetLimitsThreadsTest, OneOfSeveralCallsWinsAndHolds) {
  options_.shards = 4;
  options_.maintenance_budget = 4;
  auto cache = New<int, int>();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int key = 0; !done.load(); key = (key + 1) % 5000) cache->Set(key, 1);
  });
  for (uint64_t i = 0; i < TestOperations() / 1000; ++i) {
    std::vector<std::thread> threads;
    for (const int64_t limit : {30, 200, 2000}) {
      threads.emplace_back([&cache, limit] {
        EXPECT_TRUE(cache->SetLimits(limit, 100'000 + limit).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    const CacheLimits limits = cache->limits();
    ASSERT_TRUE(limits.entries == 30 || limits.entries == 200 ||
                limits.entries == 2000);
    ASSERT_EQ(limits.bytes, 100'000 + limits.entries);
    ASSERT_LE(cache->size(), limits.entries);
    ASSERT_LE(cache->bytes(), limits.bytes);
  }
  done.store(true);
  writer.join();
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

INSTANTIATE_TEST_SUITE_P(Policies, SetLimitsRaceTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, SetLimitsThreadsTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
