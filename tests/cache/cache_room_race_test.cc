// What becomes of the room that a Set has got by evicting, and not used yet,
// when others come between.

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/spin_barrier.h"

namespace wheelcache {
namespace {

class CacheRoomRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  // Of two shards.
  static uint32_t ShardOf(int key) {
    return internal::HashKey<DefaultHash<int>>(key).for_shard % 2;
  }
};

// Of which its thread is not there to make use.
TEST_P(CacheRoomRaceTest, ChildOfForkGetsTheRoomThatASetHasInHand) {
  constexpr int64_t kWeight = 100;
  const int64_t charge = OverheadOfAnEntry<int, int64_t>() + kWeight;
  options_.shards = 1;
  options_.max_bytes = 4 * charge;
  options_.maintenance_budget = 1;  // Evicts one at a time under the lock.
  Cache<int, int64_t>::Hooks hooks;
  hooks.weigher = [](int, int64_t weight) {
    return static_cast<uint64_t>(weight);
  };
  auto cache = New<int, int64_t>(hooks);
  for (int key = 0; key < 4; ++key) cache->Set(key, kWeight);
  std::atomic<bool> has_evicted{false};
  std::atomic<bool> go_on{false};
  std::thread writer([&] {
    At("store: between clock and lock", [&] {
      At("store: between clock and lock", [&] {
        has_evicted.store(true);
        while (!go_on.load()) std::this_thread::yield();
      });
    });
    cache->Set(4, 2 * charge - (charge - kWeight));
  });
  while (!has_evicted.load()) std::this_thread::yield();
  EXPECT_EQ(cache->size(), 4) << "counts what is in hand";
  EXPECT_TRUE(testing::HoldsInChild(
      [&] { return cache->size() == 3 && cache->CheckInvariants().ok(); },
      testing::Others::kRun));
  go_on.store(true);
  writer.join();
  EXPECT_EQ(cache->size(), 3);
}

// It had room in its index when it began to evict, and has none when it is
// done: others were there first.
TEST_P(CacheRoomRaceTest, SetThatFailsAfterItEvictedTellsOfThat) {
  options_.shards = 2;
  options_.max_entries = 30;
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  std::vector<int> keys[2];
  for (int key = 0; key < 1000; ++key) keys[ShardOf(key)].push_back(key);
  for (int i = 0; i < options_.max_entries; ++i) cache->Set(keys[0][i], i);
  At("store: between clock and lock", [&] {
    At("store: between clock and lock", [&] {
      for (int i = 1; i <= 7; ++i) {
        cache->Del(keys[0][i]);
        cache->Set(keys[1][i], i);
      }
      testing::failing_allocations.left = 0;
      testing::failing_allocations.once = true;
    });
  });
  EXPECT_THROW(cache->Set(keys[1][0], 0), std::bad_alloc);
  EXPECT_FALSE(cache->Contains(keys[1][0]));
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.evictions, 1);
  EXPECT_EQ(stats.sets, stats.entries + stats.evictions + stats.deletes);
  EXPECT_EQ(log.Take().size(), 8u);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Each has evicted what its shard had, and needs what the other has in hand.
TEST_P(CacheRoomRaceTest, OneOfTwoSetsThatWaitForEachOthersRoomLetsGo) {
  constexpr int64_t kWeight = 1000;
  const int64_t overhead = OverheadOfAnEntry<int, int64_t>();
  options_.shards = 2;
  options_.max_bytes = 2 * (overhead + kWeight);
  options_.maintenance_budget = 1;  // Evicts one at a time under the lock.
  Cache<int, int64_t>::Hooks hooks;
  hooks.weigher = [](int, int64_t weight) {
    return static_cast<uint64_t>(weight);
  };
  auto cache = New<int, int64_t>(hooks);
  std::vector<int> keys[2];
  for (int key = 0; key < 100; ++key) keys[ShardOf(key)].push_back(key);
  for (const auto& of_shard : keys) cache->Set(of_shard[0], kWeight);
  SpinBarrier both_have_evicted(2);
  const auto set_all = [&](int key) {
    At("store: between clock and lock", [&] {
      At("store: between clock and lock",
         [&] { both_have_evicted.Pass([] {}); });
    });
    EXPECT_TRUE(cache->Set(key, 2 * kWeight + overhead));
  };
  std::thread other([&] { set_all(keys[1][1]); });
  set_all(keys[0][1]);
  other.join();
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheRoomRaceTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
