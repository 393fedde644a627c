// A shard among others: which of them is to evict, and what each shows.

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/departures.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/shard_test_base.h"

namespace wheelcache::internal {
namespace {

// The first of two shards, whose entries a hit stamps and does not move.
class FirstOfTwoShardsTest : public ShardTestBase {
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
    const Shard::Write write =
        NewIntWrite(two_.pool.get(), clock_, key, charge, ttl);
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

}  // namespace
}  // namespace wheelcache::internal
