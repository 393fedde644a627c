// A shard: how much it does under its lock, and what it says it left; which of
// several is to evict, and what each shows; and the array that they lie in.

#include "wheelcache/cache/internal/engine/shard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
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
  EXPECT_EQ(shard_.used(), (Room{51, 10'000}));
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

// Promise: No long pauses
// Else two Sets that find all shards empty give their room up to each other for
// ever.
TEST_F(ShardTest, EvictTellsThatTheNeedIsCoveredThoughNothingIsEvicted) {
  const GiveBack at_end{departures_.claim};
  ASSERT_FALSE(departures_.claim.Cover({101, 0}));
  EXPECT_FALSE(shard_.Evict(&departures_));
  shared_.budget.Raise({1, 0});
  EXPECT_TRUE(shard_.Evict(&departures_));
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
// out. That takes it for no entry of the cache.
TEST_F(ShardTest, ReplacedEntryIsNotEvicted) {
  StoreInSteps(NewWrite(1, 100, absl::Seconds(1)));
  StoreInSteps(NewWrite(2, 100));
  const GiveBack at_end{departures_.claim};
  ASSERT_EQ(shard_.TryStore(NewWrite(1, 100), &departures_),
            StoreOutcome::kStored);
  // Counted at once, as all causes are, but not there yet.
  EXPECT_EQ(shared_.counters.Sum(Count::kReplaced), 1);
  EXPECT_THAT(TakeCauses(), IsEmpty());
  CheckInvariants();
  EXPECT_FALSE(departures_.claim.Cover({99, 0}));
  EXPECT_TRUE(shard_.Evict(&departures_));
  EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kEvicted));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  departures_.claim.GiveBack();
  CheckInvariants();
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
  shard_.Reserve(kExpected, shared_.budget.limit());
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
    shard_.RecordUse(found, hash);
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

// Shards of one cache: two that do something, and others that only show when
// their last entry was used. A hit stamps an entry and does not move it.
class ShardsTest : public ::testing::Test {
 protected:
  explicit ShardsTest(EvictionPolicy policy = EvictionPolicy::kLru,
                      Room limit = {100, 10'000}, int shards = 2)
      : options_(Options(policy, limit, shards, &clock_)) {}

  ~ShardsTest() override {
    for (Shard* shard : {&first_, &second_}) {
      shard->Lock();
      shard->TakeAllLocked(&departures_);
      shard->Unlock();
    }
    departures_.Dispose([](EntryRef, RemovalCause) {});
    shared_.limbo.DestroyAll();
  }

  static CacheOptions Options(EvictionPolicy policy, Room limit, int shards,
                              Clock* clock) {
    CacheOptions options;
    options.max_entries = limit.entries;
    options.max_bytes = limit.bytes;
    options.shards = shards;
    options.jitter = 0;
    options.clock = clock;
    options.reaper = nullptr;
    options.policy = policy;
    return options;
  }

  StoreOutcome Store(int key, uint32_t charge,
                     absl::Duration ttl = absl::InfiniteDuration()) {
    return StoreIn(&first_, key, charge, ttl);
  }
  StoreOutcome StoreIn(Shard* shard, int key, uint32_t charge,
                       absl::Duration ttl = absl::InfiniteDuration()) {
    const Shard::Write write =
        NewIntWrite(shared_.pool.get(), clock_, key, charge, ttl);
    StoreOutcome outcome;
    while ((outcome = shard->TryStore(write, &departures_)) ==
           StoreOutcome::kCallIn) {
      CallIn();
    }
    departures_.claim.GiveBack();
    if (outcome != StoreOutcome::kStored) shared_.pool->Unpin(write.ref);
    return outcome;
  }

  void CallIn() {
    for (Shard* shard : {&first_, &second_}) shard->CallIn(&departures_.claim);
    shared_.budget.EndCallIn();
  }

  // Leaves so much of the limits for what the test stores.
  void LeaveRoom(Room room) {
    const Room all = shared_.budget.limit();
    Claim claim(&shared_.budget);
    ASSERT_TRUE(claim.Cover({room.entries == 0 ? 0 : all.entries - room.entries,
                             room.bytes == 0 ? 0 : all.bytes - room.bytes}));
  }

  // A hit, long after all uses before.
  void Hit(int key) {
    shared_.tails.Pass(1000);
    ReadSection section;
    const auto query = QueryOf(key);
    const Hash32 hash = HashOf(key).for_index;
    const Shard::Found found = first_.FindAtHome(
        hash, section,
        [&](const EntryHeader& entry) { return query.Matches(entry); });
    ASSERT_TRUE(found.decided());
    ASSERT_NE(found.ref, 0u);
    first_.RecordUse(found, hash);
  }

  bool FirstHolds(int key) {
    const EntryRef ref = first_.FindAndPin(QueryOf(key), Use::kIgnore);
    if (ref != 0) shared_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  SimulatedClock clock_;
  const CacheOptions options_;
  SharedState shared_{options_,
                      options_.shards,
                      {&kIntEntries, Charges::kStored, /*has_listener=*/false},
                      /*shard_bytes=*/0};
  Shard first_{&shared_, 0, options_};
  Shard second_{&shared_, 1, options_};
  Departures departures_{&shared_};
};

using FirstOfTwoShardsTest = ShardsTest;

class FirstOfFourShardsTest : public ShardsTest {
 protected:
  FirstOfFourShardsTest()
      : ShardsTest(EvictionPolicy::kLru, {100, 10'000}, /*shards=*/4) {}
};

class FirstOfTwoScanResistantShardsTest : public ShardsTest {
 protected:
  FirstOfTwoScanResistantShardsTest()
      : ShardsTest(EvictionPolicy::kScanResistant) {}
};

// It looks at one of them each time. What it never looks at would stay.
TEST_F(FirstOfFourShardsTest, LooksAtTheOthersInTurn) {
  LeaveRoom({1, 0});
  int key = 1;
  ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
  for (const int older : {1, 2, 3}) {
    for (const int other : {1, 2, 3}) {
      const TailBoard::Time now = shared_.tails.Now();
      shared_.tails.Set(other, other == older ? now - 1'000'000 : now);
    }
    int sent_on = 0;
    for (int i = 0; i < 6; ++i) {
      if (Store(++key, 100) == StoreOutcome::kEvictOlder) ++sent_on;
    }
    EXPECT_EQ(sent_on, 2) << older;
  }
}

// Otherwise shards of equal size would take victims from each other all the
// time. Where a list spans no time, the margin is what a shard has not told.
TEST_F(FirstOfTwoShardsTest, OtherShardIsToBeOlderByMoreThanTheMargin) {
  LeaveRoom({1, 0});
  ASSERT_EQ(Store(1, 100), StoreOutcome::kStored);
  const TailBoard::Time now = shared_.tails.Now();
  shared_.tails.Set(1, now - 65);
  EXPECT_EQ(Store(2, 100), StoreOutcome::kEvictOlder);
  shared_.tails.Set(1, now - 64);
  EXPECT_EQ(Store(2, 100), StoreOutcome::kStored);
}

// Else a Set would be sent to it for an older entry for ever.
TEST_F(FirstOfTwoShardsTest, EmptyShardNoLongerShowsItsLastEntry) {
  LeaveRoom({2, 0});
  ASSERT_EQ(Store(1, 100), StoreOutcome::kStored);
  shared_.tails.Pass(1'000'000);  // So much has to differ to be seen, else.
  ASSERT_EQ(Store(2, 100), StoreOutcome::kStored);
  shared_.tails.Pass(1000);
  ASSERT_FALSE(departures_.claim.Cover({3, 0}));
  EXPECT_TRUE(first_.Evict(&departures_));
  EXPECT_FALSE(first_.Evict(&departures_));
  EXPECT_EQ(shared_.tails.Get(0), shared_.tails.Now());
  departures_.claim.GiveBack();
}

// To a fraction of the time by which another one has to be older.
TEST_F(FirstOfTwoShardsTest, ShowsWhenItsLastEntryWasUsed) {
  constexpr int kKeys = 16;
  LeaveRoom({kKeys, 0});
  shared_.tails.Set(1, kKeys * 1000 + 100);
  for (int key = 1; key <= kKeys + 3; ++key) {
    if (key <= kKeys) shared_.tails.Pass(1000);
    ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
    // Since the generation before ended or, at first, began.
    const int since = key <= kKeys ? 0 : std::max(key - kKeys - 1, 1) * 1000;
    EXPECT_NEAR(shared_.tails.Get(0), since, 2);
  }
}

// An entry that is about to be replaced is no victim. It counts as used now:
// else those that were used before come to lie in front of it.
TEST_F(FirstOfTwoShardsTest, EntryThatIsReplacedIsYoungerThanAllThatWereUsed) {
  LeaveRoom({0, 300});
  for (int key = 1; key <= 3; ++key) {
    shared_.tails.Pass(1000);
    ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
  }
  Hit(2);
  Hit(3);
  shared_.tails.Set(1, shared_.tails.Now());
  EXPECT_EQ(Store(1, 150), StoreOutcome::kStored);
  EXPECT_TRUE(FirstHolds(1));
  EXPECT_FALSE(FirstHolds(2));
  EXPECT_TRUE(FirstHolds(3));
}

// Else it would be at the end of the main list once more, and a new entry would
// have to go, which is worth more than all in that list.
TEST_F(FirstOfTwoScanResistantShardsTest,
       EntryThatIsReplacedIsYoungerThanAllThatWereUsed) {
  LeaveRoom({1, 4000});
  for (int key = 1; key <= 3; ++key) {
    shared_.tails.Pass(1000);
    ASSERT_EQ(Store(key, 1000, absl::Seconds(1)), StoreOutcome::kStored);
    // Only now: where there is room, what came before enters the main list.
    shared_.budget.Give({1, 0});
  }
  // The others are in the main list then.
  ASSERT_EQ(Store(4, 1000), StoreOutcome::kStored);
  Hit(2);
  Hit(3);
  shared_.tails.Set(1, shared_.tails.Now());
  EXPECT_EQ(Store(1, 1500), StoreOutcome::kStored);
  EXPECT_TRUE(FirstHolds(1));
  EXPECT_FALSE(FirstHolds(2));
  EXPECT_TRUE(FirstHolds(3));
  EXPECT_TRUE(FirstHolds(4));
}

// Both with entries of the same charge, of which a thousand fit.
class ScanResistantShardsTest : public ShardsTest {
 protected:
  static constexpr int kMost = 1'000;
  static constexpr uint32_t kCharge = 100;

  explicit ScanResistantShardsTest(Room limit = {kUnlimited, kMost* kCharge})
      : ShardsTest(EvictionPolicy::kScanResistant, limit) {}

  // Each key is a new one.
  StoreOutcome Store(Shard* shard) {
    return StoreIn(shard, ++last_key_, kCharge);
  }

  void Fill(Shard* shard, int entries) {
    for (int i = 0; i < entries; ++i) {
      ASSERT_EQ(Store(shard), StoreOutcome::kStored);
    }
    shard->PublishOldest(&departures_);
  }

  int last_key_ = 0;
};

TEST_F(ScanResistantShardsTest, OfAFullCacheTheLargerShardEvicts) {
  Fill(&first_, 490);
  Fill(&second_, 510);
  EXPECT_EQ(Store(&first_), StoreOutcome::kEvictOlder);
  EXPECT_EQ(Store(&second_), StoreOutcome::kStored);
}

TEST_F(ScanResistantShardsTest, ShardsOfAboutTheSameSizeEvictTheirOwn) {
  Fill(&first_, 496);
  Fill(&second_, 504);
  EXPECT_EQ(Store(&first_), StoreOutcome::kStored);
  EXPECT_EQ(Store(&second_), StoreOutcome::kStored);
}

// Else a Set would be sent to it for an older entry for ever.
TEST_F(ScanResistantShardsTest, ShardThatWasEmptiedShowsThatItHoldsNothing) {
  constexpr int kFew = 10;
  Fill(&first_, kMost - kFew);
  Fill(&second_, kFew);
  EXPECT_NE(shared_.tails.Get(1), 0u);
  ASSERT_FALSE(departures_.claim.Cover({kMost, kMost * kCharge}));
  for (int i = 0; i < kFew; ++i) EXPECT_TRUE(second_.Evict(&departures_));
  EXPECT_FALSE(second_.Evict(&departures_));
  EXPECT_EQ(shared_.tails.Get(1), 0u);
  departures_.claim.GiveBack();
}

// All keys of the cache are in one of its shards. Of those that came first the
// main list takes nine tenths of the cache, not of the half that the shard was
// expected to have; what comes later passes through the window.
TEST_F(ScanResistantShardsTest, AllThatACacheHoldsIsTheShareOfTheOneFullShard) {
  Fill(&first_, kMost);
  Fill(&first_, kMost);
  int stayed = 0;
  for (int key = 1; key <= kMost; ++key) stayed += FirstHolds(key) ? 1 : 0;
  EXPECT_GT(stayed, kMost * 8 / 10);
}

class ScanResistantShardsInEntriesTest : public ScanResistantShardsTest {
 protected:
  ScanResistantShardsInEntriesTest()
      : ScanResistantShardsTest({kMost, kUnlimited}) {}
};

TEST_F(ScanResistantShardsInEntriesTest, OfAFullCacheTheLargerShardEvicts) {
  Fill(&first_, 400);
  Fill(&second_, 600);
  EXPECT_EQ(Store(&first_), StoreOutcome::kEvictOlder);
  EXPECT_EQ(Store(&second_), StoreOutcome::kStored);
}

using Destroyed = std::vector<size_t>;

// What cannot be moved, and begins where a cache line does.
struct alignas(64) Part {
  Part(size_t number, Destroyed* destroyed)
      : number(number), destroyed(*destroyed) {}
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() { destroyed.push_back(number); }

  const size_t number;
  Destroyed& destroyed;
};

using Parts = ShardArray<Part>;

TEST(ShardArrayTest, HasPartsOnLinesOfTheirOwnAndManyOnPages) {
  for (const size_t count : {3, 1000}) {
    Destroyed destroyed;
    {
      const Parts parts(nullptr, count,
                        [&](size_t i) { return Part(i, &destroyed); });
      ASSERT_EQ(parts.size(), count);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parts.begin()) %
                    (count == 3 ? alignof(Part) : 4096),
                0);
      size_t number = 0;
      for (const Part& part : parts) {
        EXPECT_EQ(&part, &parts[number]);
        EXPECT_EQ(part.number, number++);
      }
      EXPECT_TRUE(destroyed.empty());
    }
    EXPECT_TRUE(std::is_sorted(destroyed.rbegin(), destroyed.rend()));
    EXPECT_EQ(destroyed.size(), count);
  }
}

TEST(ShardArrayTest, LiesInTheMemoryThatItIsGiven) {
  Destroyed destroyed;
  alignas(Part) std::byte memory[Parts::Bytes(2)];
  const Parts parts(memory, 2, [&](size_t i) { return Part(i, &destroyed); });
  EXPECT_EQ(static_cast<void*>(parts.begin()), memory);
  EXPECT_EQ(static_cast<void*>(parts.end()), memory + sizeof(memory));
}

#ifdef __cpp_exceptions
TEST(ShardArrayTest, DestroysWhatItHasMadeIfThatIsNotAll) {
  Destroyed destroyed;
  const auto make = [&](size_t i) {
    if (i == 2) throw std::runtime_error("no memory for the third");
    return Part(i, &destroyed);
  };
  EXPECT_THROW(Parts(nullptr, 3, make), std::runtime_error);
  EXPECT_EQ(destroyed, (Destroyed{1, 0}));
}
#endif

}  // namespace
}  // namespace wheelcache::internal
