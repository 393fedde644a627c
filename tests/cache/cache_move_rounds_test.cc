// Rounds that move the entries of a cache in memory: who does the work, how
// much of it at a time, and what it waits for.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_move_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using CacheMoveRoundTest = CacheMoveEnvironment;

TEST_F(CacheMoveRoundTest, ChildOfForkGoesOnMoving) {
  options_.shards = 4;
  for (int steps = 0; steps < 8; ++steps) {
    Fill();
    const auto places = Places();
    testing::RequireRound(cache_.get());
    cache_->RunMaintenance(steps);
    const auto goes_on = [&] {
      Maintain(cache_.get());
      if (CountMoved(places) != kKeys) return false;
      for (int key = 0; key < kKeys; ++key) {
        if (cache_->Peek(key) != expected_[key]) return false;
      }
      MoveAll(cache_.get());
      return cache_->CheckInvariants().ok() &&
             testing::CheckMemory(cache_.get()).ok();
    };
    EXPECT_TRUE(testing::HoldsInChild(goes_on)) << steps;
    EXPECT_TRUE(goes_on()) << steps;
    ExpectWhole();
  }
}

// Another thread is in a step, with what the child needs locked.
TEST_F(CacheMoveRoundTest, ForkWaitsForTheStepOfAnotherThread) {
  Fill();
  std::atomic<bool> has_come{false};
  std::atomic<bool> leaves{false};
  testing::Notification has_forked;
  testing::RequireRound(cache_.get());
  std::thread other([&] {
    At(kBeforeMoving, [&] {
      has_come.store(true);
      // Long enough, most times, for the other to come to the lock.
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      leaves.store(true);
    });
    Maintain(cache_.get());
    has_forked.Wait();
  });
  while (!has_come.load()) std::this_thread::yield();
  EXPECT_TRUE(testing::HoldsInChild([&] {
    if (!leaves.load()) return false;
    Maintain(cache_.get());
    MoveAll(cache_.get());
    for (int key = 0; key < kKeys; ++key) {
      if (cache_->Peek(key) != expected_[key]) return false;
    }
    return cache_->CheckInvariants().ok();
  }));
  has_forked.Notify();
  other.join();
  ExpectWhole();
}

TEST_F(CacheMoveRoundTest, RunMaintenanceKeepsToItsBudget) {
  constexpr int kBucket = 12;  // Entries that are moved in one go.
  options_.shards = 1;
  cache_ = New<int, std::string>();
  for (int key = 0; key < 10 * kKeys; ++key) cache_->Set(key, "value");
  testing::RequireRound(cache_.get());
  int steps = 0;
  for (int64_t done = 1; done == 1; ++steps) {
    const auto places = Places();
    done = cache_->RunMaintenance(1);
    EXPECT_LE(CountMoved(places), kBucket);
    ExpectNoBrokenInvariant(cache_.get());
  }
  EXPECT_GT(steps, 10 * kKeys / kBucket);
}

TEST_F(CacheMoveRoundTest, EachShardIsMovedOnceInARound) {
  options_.shards = 8;
  Fill();
  for (int round = 0; round < 3; ++round) {
    const auto places = Places();
    testing::RequireRound(cache_.get());
    int64_t done = 0;
    while (const int64_t step = cache_->RunMaintenance(1)) done += step;
    EXPECT_EQ(CountMoved(places), kKeys);
    EXPECT_LE(done, kKeys + 2 * 8 + 8);  // And a few for each shard.
    ExpectWhole();
  }
}

// An entry counts as one, and as one more for each 512 bytes; each look at a
// shard and at limbo counts, too.
TEST_F(CacheMoveRoundTest, RunMaintenanceTellsHowMuchItHasMoved) {
  for (const int shards : {1, 8}) {
    options_.shards = shards;
    Fill();
    int64_t expected = shards + 1;
    for (int key = 0; key < kKeys; ++key) {
      expected += 1 + cache_->Find(key).charge() / 512;
    }
    testing::RequireRound(cache_.get());
    EXPECT_EQ(cache_->RunMaintenance(1000), expected);
    EXPECT_EQ(cache_->RunMaintenance(1000), 0);
  }
}

// Also where entries are moved while the index is copied to a larger table.
TEST_F(CacheMoveRoundTest, IndexThatGrowsFindsWhatWasMovedMeanwhile) {
  for (int keys = 1; keys < 60; ++keys) {
    auto cache = New<int, int>();
    for (int key = 0; key < keys; ++key) cache->Set(key, key);
    MoveAll(cache.get());
    for (int key = keys; key < 2 * keys; ++key) cache->Set(key, key);
    MoveAll(cache.get());
    ExpectNoBrokenInvariant(cache.get());
    for (int key = 0; key < 2 * keys; ++key) EXPECT_EQ(cache->Get(key), key);
    for (int key = 0; key < 2 * keys; ++key) EXPECT_TRUE(cache->Del(key));
  }
}

// For what it holds back; in each round as long.
TEST_F(CacheMoveRoundTest, RoundWaitsForAReaderAFewStepsAndEnds) {
  Fill();
  cache_->Visit(7, [&](std::string_view) {
    std::vector<int> steps;
    for (int round = 0; round < 3; ++round) {
      testing::RequireRound(cache_.get());
      steps.push_back(0);
      while (cache_->RunMaintenance(1) == 1) ++steps.back();
      ExpectNoBrokenInvariant(cache_.get());
    }
    EXPECT_GT(steps[0], 3);
    EXPECT_EQ(steps[1], steps[0]);
    EXPECT_EQ(steps[2], steps[0]);
  });
  Maintain(cache_.get());
  ExpectWhole();
}

TEST_F(CacheMoveRoundTest, ReaperMovesWithoutACall) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  Fill();
  clock_.RunFor(absl::Milliseconds(500));
  const auto places = Places();
  testing::RequireRound(cache_.get());
  cache_->Set(1000, "wakes the reaper");
  clock_.RunFor(options_.reclaim_delay);
  EXPECT_EQ(CountMoved(places), kKeys);
  ExpectWhole();
  cache_.reset();  // Before the reaper.
}

TEST_F(CacheMoveRoundTest, NextDeadlineTellsOfARound) {
  options_.default_ttl = absl::InfiniteDuration();
  cache_ = New<int, std::string>();
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
  cache_->Set(1, "value");
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
  testing::RequireRound(cache_.get());
  EXPECT_LE(cache_->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  cache_->RunMaintenance(1);  // In the middle.
  EXPECT_LE(cache_->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  Maintain(cache_.get());
  EXPECT_EQ(cache_->NextDeadline(), absl::InfiniteDuration());
}

// Moving takes memory as long as a reader keeps the old blocks.
TEST_F(CacheMoveRoundTest, StalledReaderStopsTheMoving) {
  constexpr int64_t kMiB = 1 << 20;
  constexpr int kLarge = 600;
  const std::string large(60'000, 'x');  // 34 MiB.
  cache_ = New<int, std::string>();
  for (int key = 0; key < kLarge; ++key) cache_->Set(key, large);
  const int64_t before = cache_->stats().resident_bytes;
  cache_->Visit(0, [&](std::string_view) {
    MoveAll(cache_.get());
    EXPECT_GT(cache_->stats().resident_bytes, before + 3 * kMiB);
    EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
    MoveAll(cache_.get());
    EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
  });
  Maintain(cache_.get());
  EXPECT_LT(cache_->stats().resident_bytes, before + 6 * kMiB);
  for (int key = 0; key < kLarge; ++key) ASSERT_EQ(cache_->Peek(key), large);
  ExpectNoBrokenInvariant(cache_.get());
}

// What is moved after a reader has stalled was made after that, whenever it was
// Set: the reader cannot see it.
TEST_F(CacheMoveRoundTest, StalledReaderHoldsNoCopiesBack) {
  Fill();
  const auto in_use = [&] {
    auto& arena = internal::CachePeer::ArenaOf(cache_.get());
    return arena.carved_bytes() - arena.free_bytes();
  };
  cache_->Visit(7, [&](std::string_view value) {
    for (int i = 0; i < 40; ++i) {  // More collections than make a stall.
      cache_->Set(-1, "value");
      cache_->RunMaintenance();
    }
    const size_t old_blocks = in_use();
    MoveAll(cache_.get());
    const size_t both = in_use();
    EXPECT_GT(both, old_blocks / 10 * 19);
    cache_->Clear();
    cache_->RunMaintenance();
    EXPECT_LT(in_use(), old_blocks / 10 * 12);
    EXPECT_EQ(value, ValueOf(7));
  });
  Maintain(cache_.get());
  expected_.clear();
  ExpectWhole();
}

}  // namespace
}  // namespace wheelcache
