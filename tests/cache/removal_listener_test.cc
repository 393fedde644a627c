// The removal listener: of what it is told, and by whom.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using IntCache = Cache<int, int>;

class RemovalListenerTest : public CacheEnvironment {
 protected:
  std::unique_ptr<IntCache> NewCache() { return New<int, int>(log_.hooks()); }

  static Removal<int, int> Left(int key, int value, RemovalCause cause) {
    return {key, value, cause, {}};
  }

  RemovalLog<int, int> log_;
};

TEST_F(RemovalListenerTest, DeletedEntriesAreTold) {
  auto cache = NewCache();
  for (int i = 1; i <= 5; ++i) cache->Set(i, -i);
  cache->Del(1);
  cache->Touch(2, absl::ZeroDuration());
  cache->Set(3, 0, absl::ZeroDuration());
  cache->Clear();
  cache->Del(1);
  EXPECT_THAT(log_.Take(),
              UnorderedElementsAre(Left(1, -1, RemovalCause::kDeleted),
                                   Left(2, -2, RemovalCause::kDeleted),
                                   Left(3, -3, RemovalCause::kDeleted),
                                   Left(4, -4, RemovalCause::kDeleted),
                                   Left(5, -5, RemovalCause::kDeleted)));
}

TEST_F(RemovalListenerTest, ReplacedEntriesAreTold) {
  options_.max_bytes = 1000;
  auto hooks = log_.hooks();
  hooks.weigher = [](int, int weight) { return static_cast<uint64_t>(weight); };
  auto cache = New<int, int>(std::move(hooks));
  cache->Set(1, 10);
  cache->Set(1, 20);
  EXPECT_FALSE(cache->Set(1, 1000));  // Refused, but the old one goes.
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kReplaced),
                                       Left(1, 20, RemovalCause::kReplaced)));
}

TEST_F(RemovalListenerTest, EvictedEntriesAreTold) {
  options_.max_entries = 2;
  auto cache = NewCache();
  for (int i = 1; i <= 4; ++i) cache->Set(i, -i);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, -1, RemovalCause::kEvicted),
                                       Left(2, -2, RemovalCause::kEvicted)));
}

// Whoever finds them first, and whatever that call was for.
TEST_F(RemovalListenerTest, ExpiredEntriesAreTold) {
  options_.shards = 1;
  auto cache = NewCache();
  for (int i = 1; i <= 4; ++i) cache->Set(i, -i, absl::Seconds(i));
  const auto expire = [&] {
    clock_.Advance(absl::Seconds(1));
    return log_.Take();
  };
  EXPECT_THAT(expire(), ElementsAre());
  cache->Del(1);
  EXPECT_THAT(expire(), ElementsAre(Left(1, -1, RemovalCause::kExpired)));
  cache->Set(2, 0);
  EXPECT_THAT(expire(), ElementsAre(Left(2, -2, RemovalCause::kExpired)));
  cache->RunMaintenance();
  EXPECT_THAT(expire(), ElementsAre(Left(3, -3, RemovalCause::kExpired)));
  cache->Touch(4, absl::ZeroDuration());
  EXPECT_THAT(expire(), ElementsAre(Left(4, -4, RemovalCause::kExpired)));
}

TEST_F(RemovalListenerTest, RefusedValuesAndTheEndOfTheCacheAreNotTold) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::ZeroDuration());
  cache->Set(2, 2);
  cache = nullptr;
  EXPECT_THAT(log_.Take(), ElementsAre());
}

TEST_F(RemovalListenerTest, EntryHasLeftWhenItIsTold) {
  IntCache* cache_view = nullptr;
  int told = 0;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause cause) {
    ++told;
    EXPECT_EQ(cache_view->Contains(key), cause == RemovalCause::kReplaced);
    EXPECT_EQ(cache_view->size(), cause == RemovalCause::kReplaced ? 1 : 0);
  };
  auto cache = New<int, int>(hooks);
  cache_view = cache.get();
  cache->Set(1, 1);
  cache->Set(1, 2);
  cache->Del(1);
  cache->Set(1, 3);
  cache->Clear();
  EXPECT_EQ(told, 3);
}

TEST_F(RemovalListenerTest, CallerOfTheCacheRunsTheListener) {
  options_.max_entries = 1;
  auto cache = NewCache();
  cache->Set(1, 1);
  std::thread::id setter;
  std::thread([&] {
    setter = std::this_thread::get_id();
    cache->Set(2, 2);
  }).join();
  cache->Del(2);
  const auto removals = log_.Take();
  ASSERT_EQ(removals.size(), 2u);
  EXPECT_EQ(removals[0].thread, setter);
  EXPECT_EQ(removals[1].thread, std::this_thread::get_id());
}

TEST_F(RemovalListenerTest, ReaperRunsTheListenerWhenNobodyCalls) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  auto cache = NewCache();
  cache->Set(1, 1, absl::Seconds(1));
  clock_.RunFor(absl::Seconds(2));
  const auto removals = log_.Take();
  ASSERT_THAT(removals, ElementsAre(Left(1, 1, RemovalCause::kExpired)));
  EXPECT_NE(removals[0].thread, std::this_thread::get_id());
}

TEST_F(RemovalListenerTest, ExceptionsEndInTheCacheAndAreCounted) {
  options_.max_entries = 10;
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  IntCache::Hooks hooks;
  hooks.on_removal = [](int, int, RemovalCause) {
    throw std::runtime_error("from the listener");
  };
  auto cache = New<int, int>(hooks);
  for (int i = 0; i < 20; ++i) cache->Set(i, i, absl::Seconds(1));
  EXPECT_EQ(cache->stats().listener_exceptions, 10);
  EXPECT_TRUE(cache->Del(19));
  clock_.RunFor(absl::Seconds(2));
  EXPECT_EQ(cache->stats().listener_exceptions, 20);
  EXPECT_EQ(reaper.exceptions(), 0);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Each value is unique; several threads do what removes entries.
TEST_F(RemovalListenerTest, EachEntryIsToldExactlyOnce) {
  constexpr int kThreads = 4;
  constexpr int kSets = 3000;
  options_.max_entries = 50;
  options_.shards = 4;
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  std::vector<std::atomic<int>> told(size_t{kThreads} * kSets);
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int value, RemovalCause) { ++told[value]; };
  auto cache = New<int, int>(hooks);

  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kSets; ++i) {
        const int key = static_cast<int>(random() % 100);
        cache->Set(key, t * kSets + i, absl::Milliseconds(1 + random() % 100));
        if (random() % 4 == 0) cache->Del(key);
        if (random() % 4 == 0) clock_.Advance(absl::Milliseconds(1));
        if (random() % 1000 == 0) cache->Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache->Clear();
  for (size_t value = 0; value < told.size(); ++value) {
    EXPECT_EQ(told[value], 1) << value;
  }
}

}  // namespace
}  // namespace wheelcache
