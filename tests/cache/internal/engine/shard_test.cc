// A shard alone: how much it does under its lock, and what it says it left.

#include "wheelcache/cache/internal/engine/shard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr EntryOperations kIntEntries =
    kEntryOperations<int, int, DefaultHash<int>, DefaultEqual<int>>;

KeyHash HashOf(int key) { return HashKey<DefaultHash<int>>(key); }

auto QueryOf(const int& key) {
  return TypedKeyQuery<int, int, DefaultEqual<int>, int>(key, HashOf(key));
}

// At the end of a call the room that is left goes back.
struct GiveBack {
  ~GiveBack() { claim.GiveBack(); }
  Claim& claim;
};

class ShardTest : public ::testing::Test {
 protected:
  static constexpr int kBudget = 5;
  static constexpr SharedState::Entries kEntries = {
      &kIntEntries, Charges::kStored, /*has_listener=*/false};

  ShardTest() : ShardTest(/*max_entries=*/100, /*max_bytes=*/10'000) {}
  ShardTest(int64_t max_entries, int64_t max_bytes, int64_t budget = kBudget,
            Reaper* reaper = nullptr)
      : options_(Options({max_entries, max_bytes}, &clock_, budget, reaper)) {}

  static CacheOptions Options(Room limit, Clock* clock, int64_t budget,
                              Reaper* reaper) {
    CacheOptions options;
    options.max_entries = limit.entries;
    options.max_bytes = limit.bytes;
    options.shards = 1;
    options.jitter = 0;
    options.maintenance_budget = budget;
    options.clock = clock;
    options.reaper = reaper;
    return options;
  }

  // Fills the cache with entries of a hundredth of both limits.
  void Fill(absl::Duration ttl) {
    for (int key = 0; key < 100; ++key) {
      const GiveBack at_end{departures_.claim};
      ASSERT_EQ(shard_.TryStore(NewWrite(key, 100, ttl), &departures_),
                StoreOutcome::kStored);
    }
  }

  Shard::Write NewWrite(int key, uint32_t charge,
                        absl::Duration ttl = absl::InfiniteDuration()) {
    Shard::Write write;
    write.ref = MakeEntry<int, int>(shared_.pool.get(), key, key);
    shared_.pool->SetCharge(write.ref, charge);
    write.room = {1, charge};
    write.hash = HashOf(key);
    write.ttl_nanos = Clock::NanosAfter(0, ttl);
    write.now_nanos = clock_.NowNanos();
    return write;
  }

  // Returns why entries have been removed since the last call.
  std::vector<RemovalCause> TakeCauses() {
    std::vector<RemovalCause> causes;
    departures_.removed.Dispose(
        [&](EntryRef, RemovalCause cause) { causes.push_back(cause); });
    return causes;
  }
  // Returns how many they were.
  int TakeRemoved() { return static_cast<int>(TakeCauses().size()); }

  // Repeats the call until it is done. Returns how often that was.
  int StoreInSteps(const Shard::Write& write) {
    const GiveBack at_end{departures_.claim};
    for (int calls = 1;; ++calls) {
      const StoreOutcome outcome = shard_.TryStore(write, &departures_);
      // And what it replaces.
      EXPECT_LE(TakeRemoved(), options_.maintenance_budget + 1);
      if (outcome == StoreOutcome::kStored) return calls;
      EXPECT_EQ(outcome, StoreOutcome::kMoreToDo);
    }
  }

  void CheckInvariants() {
    Room used;
    const absl::Status status = shard_.CheckInvariants(&used);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(shared_.budget.used(), used);
  }

  // Whether the shard has a live entry of the key.
  bool Holds(int key) {
    const EntryRef ref = shard_.FindAndPin(QueryOf(key), Use::kIgnore);
    if (ref != 0) shared_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  void Clear() {
    shard_.Lock();
    shard_.TakeAllLocked(&departures_);
    shard_.Unlock();
  }

  void TearDown() override {
    CheckInvariants();
    Clear();
    TakeRemoved();
    shared_.limbo.DestroyAll();
  }

  SimulatedClock clock_;
  const CacheOptions options_;
  SharedState shared_{options_, 1, kEntries, /*shard_bytes=*/0};
  Shard shard_{&shared_, 0, options_};
  Departures departures_{&shared_};
};

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
  for (int key = 0; key < 200; ++key) {
    StoreInSteps(NewWrite(key, 100, absl::Seconds(1)));
  }
  ASSERT_FALSE(place_is_free());
  clock_.Advance(absl::Seconds(2));
  const GiveBack at_end{departures_.claim};
  shard_.Reclaim(clock_.NowNanos(), 1000, &departures_);
  ASSERT_EQ(TakeRemoved(), 200);
  EXPECT_TRUE(place_is_free());
}

TEST_F(ShardTest, IndexGrowsToWhatHasComeToBeExpected) {
  constexpr size_t kExpected = 100'000;
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

// The first of two shards, whose entries a hit stamps and does not move.
class FirstOfTwoShardsTest : public ShardTest {
 protected:
  explicit FirstOfTwoShardsTest(EvictionPolicy policy = EvictionPolicy::kLru,
                                int shards = 2)
      : two_options_(WithShards(options_, policy, shards)) {}
  ~FirstOfTwoShardsTest() override {
    first_.Lock();
    first_.TakeAllLocked(&removed_);
    first_.Unlock();
    removed_.removed.Dispose([](EntryRef, RemovalCause) {});
    two_.limbo.DestroyAll();
  }

  static CacheOptions WithShards(CacheOptions options, EvictionPolicy policy,
                                 int shards) {
    options.shards = shards;
    options.policy = policy;
    return options;
  }

  StoreOutcome Store(int key, uint32_t charge,
                     absl::Duration ttl = absl::InfiniteDuration()) {
    Shard::Write write = NewWrite(key, charge, ttl);
    shared_.pool->Unpin(std::exchange(
        write.ref, MakeEntry<int, int>(two_.pool.get(), key, key)));
    two_.pool->SetCharge(write.ref, charge);
    const StoreOutcome outcome = first_.TryStore(write, &removed_);
    removed_.claim.GiveBack();
    if (outcome != StoreOutcome::kStored) two_.pool->Unpin(write.ref);
    return outcome;
  }

  // A hit, long after all uses before.
  void Hit(int key) {
    two_.uses.Advance(1000);
    ReadSection section;
    const auto query = QueryOf(key);
    const Hash32 hash = HashOf(key).for_index;
    const Shard::Found found = first_.FindAtHome(
        hash, section,
        [&](const EntryHeader& entry) { return query.Matches(entry); });
    ASSERT_TRUE(found.decided());
    ASSERT_NE(found.ref, 0u);
    EXPECT_TRUE(first_.NoteUse(found, hash));
  }

  bool FirstHolds(int key) {
    const EntryRef ref = first_.FindAndPin(QueryOf(key), Use::kIgnore);
    if (ref != 0) two_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  const CacheOptions two_options_;
  SharedState two_{two_options_, two_options_.shards, kEntries,
                   /*shard_bytes=*/0};
  Shard first_{&two_, 0, two_options_};
  Departures removed_{&two_};
};

class FirstOfTwoScanResistantShardsTest : public FirstOfTwoShardsTest {
 protected:
  FirstOfTwoScanResistantShardsTest()
      : FirstOfTwoShardsTest(EvictionPolicy::kScanResistant) {}
};

class FirstOfFourShardsTest : public FirstOfTwoShardsTest {
 protected:
  FirstOfFourShardsTest()
      : FirstOfTwoShardsTest(EvictionPolicy::kLru, /*shards=*/4) {}
};

// As long as the other's last entry is clearly older, it is the other's turn.
TEST_F(FirstOfTwoShardsTest, EachOfTwoShardsLooksAtTheOther) {
  two_.uses.set_tail(1, Stamp{0} - 1'000'000);
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({all.entries - 1, 0}));
  ASSERT_EQ(Store(1, 100), StoreOutcome::kStored);
  for (int key = 2; key < 6; ++key) {
    EXPECT_EQ(Store(key, 100), StoreOutcome::kEvictOlder);
  }
}

// It looks at one of them each time. What it never looks at would stay.
TEST_F(FirstOfFourShardsTest, LooksAtTheOthersInTurn) {
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({all.entries - 1, 0}));
  int key = 1;
  ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
  for (const int older : {1, 2, 3}) {
    for (const int other : {1, 2, 3}) {
      two_.uses.set_tail(
          other, other == older ? Stamp{0} - 1'000'000 : two_.uses.Now());
    }
    int sent_on = 0;
    for (int i = 0; i < 6; ++i) {
      if (Store(++key, 100) == StoreOutcome::kEvictOlder) ++sent_on;
    }
    EXPECT_EQ(sent_on, 2) << older;
  }
}

// Otherwise shards of equal size would take victims from each other all the
// time. Where a list spans no time, the margin is what a shard has not counted.
TEST_F(FirstOfTwoShardsTest, OtherShardIsToBeOlderByMoreThanTheMargin) {
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({all.entries - 1, 0}));
  ASSERT_EQ(Store(1, 100), StoreOutcome::kStored);
  const Stamp stamp = two_.uses.Now();
  two_.uses.set_tail(1, stamp - UseClock::kStride - 1);
  EXPECT_EQ(Store(2, 100), StoreOutcome::kEvictOlder);
  two_.uses.set_tail(1, stamp - UseClock::kStride);
  EXPECT_EQ(Store(2, 100), StoreOutcome::kStored);
}

// Else a Set would be sent to it for an older entry for ever.
TEST_F(FirstOfTwoShardsTest, EmptyShardNoLongerShowsItsLastEntry) {
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({all.entries - 2, 0}));
  ASSERT_EQ(Store(1, 100), StoreOutcome::kStored);
  two_.uses.Advance(1'000'000);  // So much has to differ to be seen, else.
  ASSERT_EQ(Store(2, 100), StoreOutcome::kStored);
  two_.uses.Advance(1000);
  ASSERT_FALSE(removed_.claim.Cover({3, 0}));
  EXPECT_TRUE(first_.Evict(&removed_));
  EXPECT_FALSE(first_.Evict(&removed_));
  EXPECT_EQ(two_.uses.tail(0), two_.uses.Now());
  removed_.claim.GiveBack();
}

// To a fraction of the time by which another one has to be older.
TEST_F(FirstOfTwoShardsTest, ShowsWhenItsLastEntryWasUsed) {
  constexpr int kKeys = 16;
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({all.entries - kKeys, 0}));
  two_.uses.set_tail(1, kKeys * 1000 + 100);
  for (int key = 1; key <= kKeys + 3; ++key) {
    if (key <= kKeys) two_.uses.Advance(1000);
    ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
    EXPECT_EQ(two_.uses.tail(0), std::max(key - kKeys, 0) * 1000);
  }
}

// An entry that is about to be replaced is no victim. It counts as used now:
// else those that were used before come to lie in front of it.
TEST_F(FirstOfTwoShardsTest, EntryThatIsReplacedIsYoungerThanAllThatWereUsed) {
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({0, all.bytes - 300}));
  for (int key = 1; key <= 3; ++key) {
    two_.uses.Advance(1000);
    ASSERT_EQ(Store(key, 100), StoreOutcome::kStored);
  }
  Hit(2);
  Hit(3);
  two_.uses.set_tail(1, two_.uses.Now());
  EXPECT_EQ(Store(1, 150), StoreOutcome::kStored);
  EXPECT_TRUE(FirstHolds(1));
  EXPECT_FALSE(FirstHolds(2));
  EXPECT_TRUE(FirstHolds(3));
}

// Else it would be at the end of the main list once more, and a new entry would
// have to go, which is worth more than all in that list.
TEST_F(FirstOfTwoScanResistantShardsTest,
       EntryThatIsReplacedIsYoungerThanAllThatWereUsed) {
  const Room all = two_.budget.limit();
  ASSERT_TRUE(two_.budget.TryTake({0, all.bytes - 4000}));
  for (int key = 1; key <= 3; ++key) {
    two_.uses.Advance(1000);
    ASSERT_EQ(Store(key, 1000, absl::Seconds(1)), StoreOutcome::kStored);
  }
  // The others are in the main list then.
  ASSERT_EQ(Store(4, 1000), StoreOutcome::kStored);
  Hit(2);
  Hit(3);
  two_.uses.set_tail(1, two_.uses.Now());
  EXPECT_EQ(Store(1, 1500), StoreOutcome::kStored);
  EXPECT_TRUE(FirstHolds(1));
  EXPECT_FALSE(FirstHolds(2));
  EXPECT_TRUE(FirstHolds(3));
  EXPECT_TRUE(FirstHolds(4));
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
