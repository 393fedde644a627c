// Interleavings of a read with writes, forced at the comparison of a key, which
// a read makes without a lock.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

// Runs what a test wants to happen, on another thread, in the thread's next
// comparison.
struct InterruptedEqual {
  static inline thread_local std::function<void()> interruption;
  bool operator()(int a, int b) const {
    if (interruption) std::thread(std::exchange(interruption, {})).join();
    return a == b;
  }
};

using RaceCache = Cache<int, int, DefaultHash<int>, InterruptedEqual>;

class CacheRaceTest : public CacheEnvironment {
 protected:
  std::unique_ptr<RaceCache> NewCache() { return *RaceCache::Create(options_); }
};

TEST_F(CacheRaceTest, ValueReplacedDuringAReadAndExpiredThenIsNoMiss) {
  auto cache = NewCache();
  cache->Set(1, 10, absl::Seconds(1));
  InterruptedEqual::interruption = [&] {
    cache->Set(1, 20);
    clock_.Advance(absl::Seconds(1));
  };
  EXPECT_EQ(cache->Get(1), 20);
}

TEST_F(CacheRaceTest, ValueThatExpiresDuringAReadIsAMiss) {
  auto cache = NewCache();
  cache->Set(1, 10, absl::Seconds(1));
  InterruptedEqual::interruption = [&] { clock_.Advance(absl::Seconds(1)); };
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheRaceTest, ValueReplacedDuringAReadIsStillWhole) {
  auto cache = NewCache();
  cache->Set(1, 10);
  InterruptedEqual::interruption = [&] {
    for (int i = 0; i < 1'000; ++i) cache->Set(1, 20);
    cache->RunMaintenance();
  };
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_F(CacheRaceTest, IndexThatGrowsDuringAReadIsStillWhole) {
  auto cache = NewCache();
  cache->Set(1, 10);
  InterruptedEqual::interruption = [&] {
    for (int key = 2; key < 10'000; ++key) cache->Set(key, 20);
    cache->RunMaintenance();
  };
  EXPECT_EQ(cache->Get(1), 10);
}

// So that a read compares one key after another.
struct OneHash {
  size_t operator()(int) const { return 0; }
};

TEST_F(CacheRaceTest, ReadGoesOnInTheIndexThatHasGrownMeanwhile) {
  auto cache = *Cache<int, int, OneHash, InterruptedEqual>::Create(options_);
  for (int key = 0; key < 5; ++key) cache->Set(key, 10 * key);
  for (int key = 0; key < 5; ++key) {
    InterruptedEqual::interruption = [&] {
      for (int i = 0; i < 100; ++i) cache->Set(100 * (key + 1) + i, 1);
      cache->RunMaintenance();
    };
    EXPECT_EQ(cache->Get(key), 10 * key);
    EXPECT_EQ(cache->Get(-1), std::nullopt);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheRaceTest, EntryDeletedDuringAReadIsNotPromoted) {
  auto cache = NewCache();
  cache->Set(1, 10);
  cache->Set(2, 20);
  InterruptedEqual::interruption = [&] { cache->Del(1); };
  EXPECT_EQ(cache->Get(1), 10);
  EXPECT_TRUE(cache->CheckInvariants().ok());
  EXPECT_EQ(cache->size(), 1);
}

TEST_F(CacheRaceTest, ClearIsSeenAsAWhole) {
  constexpr int kClears = 100;
  constexpr int kKeys = 16;
  options_.shards = 128;
  auto cache = NewCache();
  std::atomic<int> seen{0};
  std::thread reader([&] {
    for (int i = 1; i <= kClears; ++i) {
      const int gone = i % kKeys;
      while (cache->Get(gone) != i) std::this_thread::yield();
      seen.store(i);
      while (cache->Get(gone) == i) continue;
      for (int key = 0; key < kKeys; ++key) {
        EXPECT_NE(cache->Get(key), i) << "after " << gone << " was gone";
      }
    }
  });
  for (int i = 1; i <= kClears; ++i) {
    for (int key = 0; key < kKeys; ++key) cache->Set(key, i);
    while (seen.load() < i) std::this_thread::yield();
    cache->Clear();
  }
  reader.join();
}

}  // namespace
}  // namespace wheelcache
