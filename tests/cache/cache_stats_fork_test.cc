// Statistics in the child of a fork() that meets another thread in the middle
// of a call: sets and removals add up there, too.

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {
namespace {

using WeightCache = Cache<int, int64_t>;

class CacheStatsForkTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr char kBeforeTheLock[] = "store: between clock and lock";
  static constexpr char kAfterTheLock[] = "store: after the lock";
  static constexpr char kBeforeLimbo[] = "limbo: before an entry is added";

  static constexpr int64_t kWeight = 100;

  // A cache that is full with ten entries of kWeight, which expire.
  CacheStatsForkTest() {
    options_.shards = 1;
    options_.max_bytes = 10 * (OverheadOfAnEntry<int, int64_t>() + kWeight);
  }
  void MakeCache() {
    WeightCache::Hooks hooks;
    hooks.weigher = [](int, int64_t weight) {
      return static_cast<uint64_t>(weight);
    };
    cache_ = New<int, int64_t>(hooks);
    for (int key = 0; key < 10; ++key) {
      cache_->Set(key, kWeight, absl::Seconds(1));
    }
  }

  bool AddsUp() const {
    const CacheStats stats = cache_->stats();
    return stats.sets == stats.entries + stats.deletes + stats.evictions +
                             stats.expirations + stats.replaced;
  }

  // Forks while another thread is in the call, where it comes to the point for
  // the `times`th time. Returns whether all adds up in the child.
  bool AddsUpInChild(const std::string& point, int times,
                     const std::function<void()>& call) {
    std::atomic<bool> has_come{false};
    std::atomic<bool> go_on{false};
    const std::function<void()> come = [&] {
      if (--times > 0) {
        At(point, come);
        return;
      }
      has_come.store(true);
      while (!go_on.load()) std::this_thread::yield();
    };
    std::thread other([&] {
      At(point, come);
      call();
    });
    while (!has_come.load()) std::this_thread::yield();
    const bool holds = testing::HoldsInChild(
        [&] { return AddsUp() && cache_->CheckInvariants().ok(); },
        testing::Others::kRun);
    go_on.store(true);
    other.join();
    return holds && AddsUp();
  }

  std::unique_ptr<WeightCache> cache_;
};

TEST_F(CacheStatsForkTest, NewValueCountsWithItsSet) {
  MakeCache();
  cache_->Clear();
  EXPECT_TRUE(
      AddsUpInChild(kAfterTheLock, 1, [&] { cache_->Set(1, kWeight); }));
}

TEST_F(CacheStatsForkTest, ReplacedValueCountsWithItsSet) {
  MakeCache();
  EXPECT_TRUE(
      AddsUpInChild(kAfterTheLock, 1, [&] { cache_->Set(1, kWeight); }));
}

TEST_F(CacheStatsForkTest, EvictedEntriesCountThoughTheSetGoesOn) {
  options_.maintenance_budget = 1;  // Evicts one at a time under the lock.
  MakeCache();
  EXPECT_TRUE(
      AddsUpInChild(kBeforeTheLock, 2, [&] { cache_->Set(10, 3 * kWeight); }));
}

TEST_F(CacheStatsForkTest, EvictedEntriesCountBeforeTheyAreRetired) {
  MakeCache();
  EXPECT_TRUE(
      AddsUpInChild(kBeforeLimbo, 1, [&] { cache_->Set(10, 4 * kWeight); }));
}

TEST_F(CacheStatsForkTest, ExpiredEntriesCountBeforeTheyAreRetired) {
  MakeCache();
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(
      AddsUpInChild(kBeforeLimbo, 2, [&] { cache_->RunMaintenance(); }));
}

TEST_F(CacheStatsForkTest, DeletedEntriesCountBeforeTheyAreRetired) {
  MakeCache();
  EXPECT_TRUE(AddsUpInChild(kBeforeLimbo, 1, [&] { cache_->Del(1); }));
  EXPECT_TRUE(AddsUpInChild(kBeforeLimbo, 5, [&] { cache_->Clear(); }));
  EXPECT_EQ(cache_->stats().deletes, 10);
}

TEST_F(CacheStatsForkTest, ConditionalWritesCountBeforeTheyRetireAnything) {
  MakeCache();
  EXPECT_TRUE(AddsUpInChild(kAfterTheLock, 1, [&] {
    cache_->Update(
        1, [](const auto& old) { return WeightCache::Decision::Set(*old); });
  }));
  EXPECT_TRUE(AddsUpInChild(kBeforeLimbo, 1, [&] { (void)cache_->Take(1); }));
  EXPECT_TRUE(AddsUpInChild(kBeforeLimbo, 1,
                            [&] { cache_->DelIf(2, cache_->Find(2)); }));
  EXPECT_TRUE(
      AddsUpInChild(kBeforeTheLock, 1, [&] { cache_->SetIf(1, {}, kWeight); }));
  EXPECT_EQ(cache_->stats().deletes, 2);
}

// In the call that the thread is in, and in what it does afterwards.
TEST_F(CacheStatsForkTest, ForkOfAListenerComesBetweenWholeEvents) {
  pid_t child = -1;
  bool added_up = true;
  Cache<int, int>::Hooks hooks;
  options_.max_bytes = kUnlimited;
  Cache<int, int>* view = nullptr;
  const auto adds_up = [&] {
    const CacheStats stats = view->stats();
    return stats.sets == stats.entries + stats.deletes && stats.deletes == 5;
  };
  hooks.on_removal = [&](int key, int, RemovalCause) {
    if (key == 2) child = fork();
    added_up = added_up && adds_up();
  };
  auto cache = New<int, int>(hooks);
  view = cache.get();
  for (int key = 0; key < 5; ++key) cache->Set(key, key);
  cache->Clear();
  added_up = added_up && adds_up();
  if (child == 0) _exit(added_up ? 0 : 1);
  EXPECT_TRUE(added_up);
  EXPECT_TRUE(testing::EndedWell(child));
}

}  // namespace
}  // namespace wheelcache
