// A shard alone: how much it does under its lock, and what it says it left.

#include "wheelcache/cache/internal/engine/shard.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/shard_test_base.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using ShardTest = ShardTestBase;

// So large that its index has a place in huge pages, once it grows.
class LargeShardTest : public ShardTest {
 protected:
  static constexpr int64_t kLargeLimit = 500'000;

  LargeShardTest() : ShardTest(kLargeLimit, kUnlimited) {}
};

// With a reaper, a Set spends little of its budget before it looks for room.
struct HasReaper {
  SimulatedClock reapers_clock;
  Reaper reaper{reapers_clock};
};
class ReapedShardTest : private HasReaper, public ShardTest {
 protected:
  static constexpr int64_t kLargeBudget = 20;

  ReapedShardTest() : ShardTest(100, 10'000, kLargeBudget, &reaper) {}
};

class ShardOfFourTest : public ShardTest {
 protected:
  ShardOfFourTest() : ShardTest(/*max_entries=*/4, kUnlimited) {}
};

TEST_F(ShardTest, SetThatEvictsManyDoesSoInSteps) {
  Fill(absl::InfiniteDuration());
  EXPECT_GE(StoreInSteps(NewWrite(-1, 5'000)), 50 / kBudget);
  EXPECT_EQ(shared_.budget.used(), (Room{51, 10'000}));
}

TEST_F(ShardTest, SetThatReclaimsManyDoesSoInSteps) {
  Fill(absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_GE(StoreInSteps(NewWrite(-1, 5'000)), 50 / kBudget);
}

TEST_F(ReapedShardTest, WhatMakesRoomIsTakenOffTheBudgetOfTheSet) {
  Fill(absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_GE(StoreInSteps(NewWrite(-1, 5'000)), 50 / kLargeBudget);
}

TEST_F(ReapedShardTest, SetThatHasRoomLeavesMostToTheReaper) {
  Fill(absl::Milliseconds(20));  // No timer cascades.
  shard_.Remove(QueryOf(0), RemovalCause::kDeleted, &departures_);
  departures_.claim.GiveBack();
  EXPECT_EQ(TakeRemoved(), 1);
  clock_.Advance(absl::Milliseconds(30));
  const GiveBack at_end{departures_.claim};
  EXPECT_EQ(shard_.TryStore(NewWrite(-1, 100), &departures_),
            StoreOutcome::kStored);
  const int reclaimed = TakeRemoved();
  EXPECT_GT(reclaimed, 1) << "less than it adds";
  EXPECT_LE(reclaimed, 8);
}

TEST_F(ShardTest, SetThatHasRoomReclaimsNoMoreThanTheBudget) {
  Fill(absl::Seconds(1));
  const GiveBack at_end{departures_.claim};
  shard_.Remove(QueryOf(0), RemovalCause::kDeleted, &departures_);
  departures_.claim.GiveBack();
  EXPECT_EQ(TakeRemoved(), 1);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(StoreInSteps(NewWrite(-1, 100)), 1);
}

TEST_F(ShardTest, ReclaimDoesWhatTheBudgetAllowsAndSaysSo) {
  Fill(absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  int reclaimed = 0;
  for (uint64_t done = 7; done == 7;) {
    const GiveBack at_end{departures_.claim};
    done = shard_.Reclaim(clock_.NowNanos(), 7, &departures_);
    EXPECT_LE(done, 7u);
    const int removed = TakeRemoved();
    EXPECT_LE(removed, static_cast<int>(done));
    reclaimed += removed;
    // What is left is known to be due.
    EXPECT_EQ(shard_.due_nanos() <= clock_.NowNanos(), reclaimed < 100);
  }
  EXPECT_EQ(reclaimed, 100);
  EXPECT_EQ(shard_.due_nanos(), Clock::kNever);
}

TEST_F(ShardTest, EachWayToEvictRecordsTheAge) {
  Fill(absl::Seconds(200));
  clock_.Advance(absl::Seconds(50));
  const auto ages = [this] {
    CacheStats stats;
    shard_.eviction_record().AddTo(&stats);
    EXPECT_DOUBLE_EQ(stats.eviction_age.sum,
                     50.0 * static_cast<double>(stats.evictions));
    EXPECT_EQ(stats.eviction_life_left.counts[7], stats.evictions);
    return stats.evictions;
  };
  Shard::Write write = NewWrite(100, 200);
  shared_.pool->At(write.ref).SetCreated(CreationTimeAt(write.now_nanos));
  EXPECT_EQ(StoreInSteps(write), 1);
  EXPECT_EQ(ages(), 2);
  EXPECT_EQ(shard_.EvictBytes(300, &departures_), 300);
  EXPECT_EQ(ages(), 5);
  departures_.claim.GiveBack();
  EXPECT_FALSE(departures_.claim.Cover({1, 600}));
  EXPECT_TRUE(shard_.Evict(&departures_));
  EXPECT_EQ(ages(), 8);
  departures_.claim.GiveBack();
}

TEST_F(ShardTest, EvictStopsAtTheBudget) {
  Fill(absl::InfiniteDuration());
  const GiveBack at_end{departures_.claim};
  EXPECT_FALSE(departures_.claim.Cover({1, 10'000}));
  EXPECT_TRUE(shard_.Evict(&departures_));
  EXPECT_EQ(TakeRemoved(), kBudget);
}

TEST_F(ShardTest, CheckInvariantsFindsTimersThatTheWheelHasLost) {
  Fill(absl::Seconds(1));  // All in one slot.
  const GiveBack at_end{departures_.claim};
  const auto write = NewWrite(0, 100, absl::Seconds(1));
  ASSERT_EQ(shard_.TryStore(write, &departures_), StoreOutcome::kStored);
  Room used;
  EntryRef& next = shared_.pool->At(write.ref).timer.next;
  ASSERT_NE(next, 0u);
  const EntryRef others = std::exchange(next, 0);
  EXPECT_FALSE(shard_.CheckInvariants(&used).ok());
  next = others;
}

// A Set may leave what it replaces in list and wheel, for the next call to take
// out. Whatever that is, it takes nothing for an entry of the cache that is
// none.
class ReplacedEntryTest : public ShardTest {
 protected:
  // Sets a key twice, first for a second, then for ever, and another between.
  void SetUp() override {
    StoreInSteps(NewWrite(1, 100, absl::Seconds(1)));
    StoreInSteps(NewWrite(2, 100));
    const GiveBack at_end{departures_.claim};
    ASSERT_EQ(shard_.TryStore(NewWrite(1, 100), &departures_),
              StoreOutcome::kStored);
    // Counted at once, as all causes are, but not there yet.
    EXPECT_EQ(shared_.counters.Sum(Count::kReplaced), 1);
    EXPECT_THAT(TakeCauses(), IsEmpty());
    CheckInvariants();
  }
};

TEST_F(ReplacedEntryTest, IsNotEvicted) {
  const GiveBack at_end{departures_.claim};
  EXPECT_FALSE(departures_.claim.Cover({99, 0}));
  EXPECT_TRUE(shard_.Evict(&departures_));
  EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kEvicted));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  departures_.claim.GiveBack();
  CheckInvariants();
}

TEST_F(ReplacedEntryTest, IsNotEvictedForASetOfItsShard) {
  Claim others(&shared_.budget);
  ASSERT_TRUE(others.Cover({98, 0}));
  const GiveBack at_end{departures_.claim};
  EXPECT_EQ(shard_.TryStore(NewWrite(3, 100), &departures_),
            StoreOutcome::kStored);
  EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kEvicted));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
}

TEST_F(ReplacedEntryTest, DoesNotExpire) {
  clock_.Advance(absl::Seconds(2));
  const GiveBack at_end{departures_.claim};
  EXPECT_EQ(shard_.Reclaim(clock_.NowNanos(), 10, &departures_), 0u);
  EXPECT_THAT(TakeCauses(), IsEmpty());
  EXPECT_TRUE(Holds(1));
  CheckInvariants();
}

TEST_F(ReplacedEntryTest, IsNotClearedOnceMore) {
  Clear();
  EXPECT_THAT(TakeCauses(),
              ElementsAre(RemovalCause::kDeleted, RemovalCause::kDeleted));
}

TEST_F(ReplacedEntryTest, MayBeReplacedByWhatIsReplaced) {
  for (int i = 0; i < 3; ++i) {
    StoreInSteps(NewWrite(1, 100));
    CheckInvariants();
  }
  EXPECT_EQ(shared_.budget.used(), (Room{2, 200}));
}

// What the next eviction is expected to remove was prefetched, its hash
// included. A replaced entry must not be taken for it: its block comes back
// with another key.
TEST_F(ShardOfFourTest, ReplacedEntryAtTheEndOfTheListIsNoVictim) {
  const auto del = [this](int key) {
    EXPECT_TRUE(
        shard_.Remove(QueryOf(key), RemovalCause::kDeleted, &departures_));
    departures_.claim.GiveBack();
    TakeRemoved();
    CheckInvariants();
  };
  for (int key = 1; key <= 4; ++key) StoreInSteps(NewWrite(key, 100));
  StoreInSteps(NewWrite(2, 100));
  CheckInvariants();
  del(1);
  del(3);
  StoreInSteps(NewWrite(5, 100));
  StoreInSteps(NewWrite(6, 100));
  CheckInvariants();
  del(6);
  EXPECT_TRUE(Holds(2));
  EXPECT_TRUE(Holds(5));
}

TEST_F(LargeShardTest, GivesBackTheIndexWhenAllHasExpired) {
  const size_t bytes = Index::TableBytesFor(kLargeLimit);
  const auto place_is_free = [&] {
    void* const table = shared_.tables.Allocate(bytes);
    const bool in_place = shared_.tables.Holds(table);
    shared_.tables.Free(table, bytes);
    return in_place;
  };
  constexpr int kMany = kLargeLimit / 5 * 2;  // Enough for the full table.
  for (int key = 0; key < kMany; ++key) {
    StoreInSteps(NewWrite(key, 100, absl::Seconds(1)));
  }
  ASSERT_FALSE(place_is_free());
  clock_.Advance(absl::Seconds(2));
  const GiveBack at_end{departures_.claim};
  shard_.Reclaim(clock_.NowNanos(), 10 * kMany, &departures_);
  ASSERT_EQ(TakeRemoved(), kMany);
  EXPECT_TRUE(place_is_free());
}

TEST_F(ShardTest, IndexGrowsToWhatHasComeToBeExpected) {
  // The full table follows the eight buckets that hold most of Fill().
  constexpr size_t kExpected = 324;
  shard_.Expect(kExpected, shared_.budget.limit());
  Fill(absl::InfiniteDuration());
  shard_.Look([&](const Index& index) {
    EXPECT_GT(index.buckets() * IndexTable::kCellsPerBucket, kExpected);
  });
}

// In a cache of one shard a hit moves the entry at once, if it can.
TEST_F(ShardTest, UseThatFindsTheLockTakenCountsToo) {
  Fill(absl::InfiniteDuration());
  const auto use = [this](int key) {
    ReadSection section;
    const Hash32 hash = HashOf(key).for_index;
    const auto query = QueryOf(key);
    const Shard::Found found = shard_.FindAtHome(
        hash, section,
        [&](const EntryHeader& entry) { return query.Matches(entry); });
    ASSERT_TRUE(found.decided());
    ASSERT_NE(found.ref, 0u);
    shard_.NoteUse(found, hash);
  };
  use(0);
  shard_.Lock();
  std::thread(use, 1).join();
  shard_.Unlock();
  for (int key = 100; key < 103; ++key) {
    EXPECT_EQ(StoreInSteps(NewWrite(key, 100)), 1);
  }
  for (const auto& [key, stays] :
       {std::pair(0, true), std::pair(1, true), std::pair(2, false),
        std::pair(3, false), std::pair(4, false), std::pair(5, true)}) {
    EXPECT_EQ(Holds(key), stays) << key;
  }
}

TEST_F(ShardTest, EmptyShardSaysThatOthersMustEvict) {
  Claim others(&shared_.budget);
  ASSERT_TRUE(others.Cover({100, 0}));
  const GiveBack at_end{departures_.claim};
  const auto write = NewWrite(1, 100);
  EXPECT_EQ(shard_.TryStore(write, &departures_), StoreOutcome::kEvictOthers);
  EXPECT_FALSE(shard_.Evict(&departures_));
  others.GiveBack();
  EXPECT_EQ(shard_.TryStore(write, &departures_), StoreOutcome::kStored);
}

}  // namespace
}  // namespace wheelcache::internal
