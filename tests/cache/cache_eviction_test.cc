// Which entries leave when there is no room, and that the limits hold.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// The values are weights: an entry is charged its value and the overhead.
using WeightCache = Cache<int, int64_t>;
using Removals = Removal<int, int64_t>;

class CacheEvictionTest : public CacheEnvironment {
 protected:
  std::unique_ptr<WeightCache> NewCache() {
    auto hooks = log_.hooks();
    hooks.weigher = [](int, int64_t weight) {
      return static_cast<uint64_t>(weight);
    };
    return New<int, int64_t>(std::move(hooks));
  }

  static Removals Evicted(int key, int64_t value = 0) {
    return {key, value, RemovalCause::kEvicted, {}};
  }

  const int64_t overhead_ = OverheadOfAnEntry<int, int64_t>();
  RemovalLog<int, int64_t> log_;
};

// Keys of two shards in turn.
std::vector<int> KeysOfTwoShardsInTurn(size_t count) {
  std::vector<int> keys;
  for (int key = 0; keys.size() < count; ++key) {
    const auto shard = internal::HashKey<DefaultHash<int>>(key).for_shard % 2;
    if (shard == keys.size() % 2) keys.push_back(key);
  }
  return keys;
}

// As in go-zero's own tests.
TEST_F(CacheEvictionTest, LeastRecentlyUsedOfThreeLeaves) {
  options_.max_entries = 3;
  auto cache = NewCache();
  for (int i = 1; i <= 4; ++i) cache->Set(i, 0);
  EXPECT_THAT(log_.Take(), ElementsAre(Evicted(1)));
  cache->Get(2);
  cache->Set(5, 0);
  cache->Set(6, 0);
  EXPECT_THAT(log_.Take(), ElementsAre(Evicted(3), Evicted(4)));
  EXPECT_TRUE(cache->Contains(2));
}

TEST_F(CacheEvictionTest, SmallCacheEvictsInTheExactOrderOfUse) {
  constexpr int kEntries = 1000;
  options_.max_entries = kEntries;
  auto cache = NewCache();
  for (int i = 0; i < kEntries; ++i) cache->Set(i, 0);
  std::vector<int> order(kEntries);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (const int key : order) {
    switch (key % 4) {
      case 0:
        cache->Get(key);
        break;
      case 1:
        cache->Find(key);
        break;
      case 2:
        cache->Touch(key, absl::Hours(1));
        break;
      default:
        cache->Set(key, 0);
    }
  }
  log_.Take();
  for (int i = 0; i < kEntries; ++i) cache->Set(kEntries + i, 0);
  const auto removals = log_.Take();
  ASSERT_EQ(removals.size(), order.size());
  for (int i = 0; i < kEntries; ++i) {
    ASSERT_EQ(removals[i], Evicted(order[i])) << i;
  }
}

TEST_F(CacheEvictionTest, WhicheverLimitComesFirstHolds) {
  options_.max_entries = 3;
  options_.max_bytes = 3 * overhead_ + 100;
  auto cache = NewCache();
  for (int i = 0; i < 4; ++i) cache->Set(i, 10);
  EXPECT_THAT(log_.Take(), ElementsAre(Evicted(0, 10)));  // The entries.
  cache->Set(4, 85);
  EXPECT_THAT(log_.Take(),
              ElementsAre(Evicted(1, 10), Evicted(2, 10)));  // The bytes.
  EXPECT_EQ(cache->size(), 2);
}

TEST_F(CacheEvictionTest, EntryOfExactlyTheLimitIsStored) {
  options_.max_bytes = 10 * overhead_;
  auto cache = NewCache();
  for (int i = 0; i < 10; ++i) cache->Set(i, 0);
  EXPECT_TRUE(cache->Set(10, 9 * overhead_));
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(cache->bytes(), options_.max_bytes);
  EXPECT_EQ(cache->Find(10).charge(), options_.max_bytes);
}

// Refused, and told; its old value is gone; nobody else had to make room.
TEST_F(CacheEvictionTest, EntryLargerThanTheLimitIsRefused) {
  options_.max_bytes = 10 * overhead_;
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2);
  EXPECT_FALSE(cache->Set(1, 9 * overhead_ + 1));
  EXPECT_FALSE(cache->Contains(1));
  EXPECT_TRUE(cache->Contains(2));
  EXPECT_THAT(log_.Take(),
              ElementsAre(Removals{1, 1, RemovalCause::kReplaced, {}}));
  EXPECT_FALSE(cache->Set(3, 9 * overhead_ + 1));
  EXPECT_THAT(log_.Take(), ElementsAre());
  EXPECT_EQ(cache->size(), 1);
}

TEST_F(CacheEvictionTest, LimitBelowTheOverheadRefusesEverything) {
  options_.max_bytes = 1;
  auto cache = NewCache();
  EXPECT_FALSE(cache->Set(1, 0));
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheEvictionTest, WeightTooLargeForACountIsRefused) {
  auto cache = NewCache();  // Without limits.
  EXPECT_FALSE(cache->Set(1, std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(cache->Set(1, -1));  // As a weight: 2^64 - 1.
  EXPECT_FALSE(cache->Set(1, int64_t{1} << 32));
  const int64_t most = (int64_t{1} << 32) - 1;
  EXPECT_TRUE(cache->Set(1, most - overhead_));
  EXPECT_EQ(cache->bytes(), most);
}

TEST_F(CacheEvictionTest, ReplacedEntryGrowsAtTheCostOfOthers) {
  options_.max_bytes = 3 * overhead_ + 60;
  auto cache = NewCache();
  for (int i = 1; i <= 3; ++i) cache->Set(i, 20);
  cache->Set(1, 30);  // The least recently used is the one that grows.
  EXPECT_THAT(log_.Take(), UnorderedElementsAre(
                               Evicted(2, 20),
                               Removals{1, 20, RemovalCause::kReplaced, {}}));
  EXPECT_EQ(cache->bytes(), 2 * overhead_ + 50);
}

TEST_F(CacheEvictionTest, ReplacedEntryThatShrinksMakesRoom) {
  options_.max_bytes = 3 * overhead_ + 60;
  auto cache = NewCache();
  cache->Set(1, 40);
  cache->Set(2, 20);
  cache->Set(1, 10);
  cache->Set(3, 30);
  EXPECT_EQ(cache->bytes(), options_.max_bytes);
  EXPECT_EQ(cache->stats().evictions, 0);
}

TEST_F(CacheEvictionTest, ReplacingInAFullCacheEvictsNobody) {
  options_.max_entries = 10;
  for (const int shards : {1, 64}) {
    options_.shards = shards;
    auto cache = NewCache();
    for (int i = 0; i < 10; ++i) cache->Set(i, 0);
    for (int i = 0; i < 100; ++i) cache->Set(i % 10, i);
    EXPECT_EQ(cache->stats().evictions, 0);
    EXPECT_EQ(cache->size(), 10);
  }
}

// Whether the room comes from the own shard, from another, or from many.
TEST_F(CacheEvictionTest, NoMoreIsEvictedThanNeeded) {
  options_.max_bytes = 4 * (overhead_ + 100);
  for (const int shards : {1, 2, 64}) {
    options_.shards = shards;
    auto cache = NewCache();
    for (int first = 0; first < 400; first += 4) {
      cache->Clear();
      for (int i = 0; i < 4; ++i) cache->Set(first + i, 100);
      const int64_t before = cache->stats().evictions;
      cache->Set(first, 150);
      EXPECT_EQ(cache->stats().evictions, before + 1) << shards;
      EXPECT_EQ(cache->size(), 3) << shards;
    }
  }
}

TEST_F(CacheEvictionTest, OneEntryFitsInAnyNumberOfShards) {
  options_.max_entries = 1;
  options_.shards = 64;
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(cache->Set(i, 0));
    EXPECT_TRUE(cache->Contains(i));
    EXPECT_EQ(cache->size(), 1);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// quick_cache refused it, as the limit was split over the shards.
TEST_F(CacheEvictionTest, EntryOfHalfTheLimitIsStored) {
  options_.max_bytes = 1 << 20;
  options_.shards = 64;
  auto cache = NewCache();
  for (int i = 0; i < 10'000; ++i) cache->Set(i, 400);
  EXPECT_TRUE(cache->Set(-1, options_.max_bytes / 2));
  EXPECT_TRUE(cache->Contains(-1));
  EXPECT_LE(cache->bytes(), options_.max_bytes);
  EXPECT_GE(cache->bytes(), options_.max_bytes * 9 / 10);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheEvictionTest, DefaultWeigherCountsTheBytesOfStrings) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", std::string(100, 'x'));
  const int64_t small = cache->bytes();
  cache->Set(std::string(1000, 'k'), std::string(5000, 'x'));
  const int64_t large = cache->bytes() - small;
  EXPECT_GE(small, 100);
  EXPECT_LE(small, 100 + 2 * 32 + 100);
  EXPECT_GE(large, 6000);
  EXPECT_LE(large, 6000 + 2 * 32 + 100);
}

// What a Clear takes was in the cache at one instant.
TEST_F(CacheEvictionTest, LimitsHoldAtEveryInstant) {
  constexpr int64_t kMaxEntries = 50;
  constexpr int kThreads = 3;
  constexpr int kSets = 4000;
  options_.max_entries = kMaxEntries;
  options_.max_bytes = 40 * (overhead_ + 50);
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    int64_t cleared_entries = 0;
    int64_t cleared_bytes = 0;
    const std::thread::id clearer = std::this_thread::get_id();
    WeightCache::Hooks hooks;
    hooks.weigher = [](int, int64_t weight) { return weight; };
    hooks.on_removal = [&](int, int64_t weight, RemovalCause cause) {
      if (cause != RemovalCause::kDeleted) return;
      EXPECT_EQ(std::this_thread::get_id(), clearer);
      ++cleared_entries;
      cleared_bytes += overhead_ + weight;
    };
    auto cache = New<int, int64_t>(std::move(hooks));

    std::atomic<int> running{kThreads};
    std::vector<std::thread> setters;
    for (int t = 0; t < kThreads; ++t) {
      setters.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < kSets; ++i) {
          cache->Set(static_cast<int>(random() % 100), random() % 100);
        }
        --running;
      });
    }
    for (int i = 0; running > 0; ++i) {
      EXPECT_LE(cache->size(), kMaxEntries);
      EXPECT_LE(cache->bytes(), options_.max_bytes);
      if (i % 100 != 0) continue;
      cache->Clear();
      EXPECT_LE(std::exchange(cleared_entries, 0), kMaxEntries);
      EXPECT_LE(std::exchange(cleared_bytes, 0), options_.max_bytes);
    }
    for (std::thread& setter : setters) setter.join();
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

// The shares of the limit move to where the keys are, bit by bit.
TEST_F(CacheEvictionTest, LongUnusedEntriesOfAnotherShardGoInTheEnd) {
  constexpr int kKeys = 1'000;
  options_.shards = 2;
  options_.max_entries = int64_t{2} * kKeys;
  auto cache = New<int, int>();
  std::vector<int> keys[2];
  for (int key = 0; key < 10 * kKeys; ++key) {
    keys[internal::HashKey<DefaultHash<int>>(key).for_shard % 2].push_back(key);
  }
  for (int i = 0; i < kKeys; ++i) cache->Set(keys[0][i], i);
  for (int i = 0; i < 4 * kKeys; ++i) cache->Set(keys[1][i], i);
  EXPECT_LE(std::count_if(keys[0].begin(), keys[0].begin() + kKeys,
                          [&](int key) { return cache->Contains(key); }),
            kKeys / 100);
}

// Hits are uses by which the others grow older, also in several shards. With
// two Sets alone between the first and the last hit, no other time passes.
TEST_F(CacheEvictionTest, HitsAreOrderedAmongEachOtherInSeveralShards) {
  constexpr int kKeys = 8'000;
  constexpr int kHit = kKeys / 2;
  options_.shards = 2;
  options_.max_entries = kKeys;
  auto cache = New<int, int>();
  const std::vector<int> keys = KeysOfTwoShardsInTurn(2 * kKeys);
  for (int i = 0; i < kKeys; ++i) cache->Set(keys[i], i);
  // Against their order in the lists.
  for (int i = kHit - 1; i >= 0; --i) {
    EXPECT_EQ(cache->Get(keys[i]), i);
    if (i != kHit / 2) continue;
    // The list of each shard learns that time has passed.
    cache->Set(keys[kKeys - 1], 0);
    cache->Set(keys[kKeys - 2], 0);
  }
  // Those that were not hit leave, and then half of those that were.
  for (int i = 0; i < kKeys - kHit / 2; ++i) cache->Set(keys[kKeys + i], i);
  const auto held = [&](int begin, int end) {
    return std::count_if(keys.begin() + begin, keys.begin() + end,
                         [&](int key) { return cache->Contains(key); });
  };
  EXPECT_LE(held(kHit / 2, kHit), kHit / 100);
  EXPECT_GE(held(0, kHit / 2), kHit / 2 - kHit / 100);
}

}  // namespace
}  // namespace wheelcache
