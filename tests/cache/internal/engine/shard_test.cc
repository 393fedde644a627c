// A shard alone: how much it does under its lock, and what it says it left.

#include "wheelcache/cache/internal/engine/shard.h"

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
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/removed_list.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using IntShard = Shard<int, int, DefaultHash<int>, DefaultEqual<int>>;

class ShardTest : public ::testing::Test {
 protected:
  static constexpr int kBudget = 5;

  ShardTest() : ShardTest(/*max_entries=*/100, /*max_bytes=*/10'000) {}
  ShardTest(int64_t max_entries, int64_t max_bytes)
      : options_(Options(max_entries, max_bytes, &clock_)) {}

  static CacheOptions Options(int64_t max_entries, int64_t max_bytes,
                              Clock* clock) {
    CacheOptions options;
    options.max_entries = max_entries;
    options.max_bytes = max_bytes;
    options.shards = 1;
    options.jitter = 0;
    options.maintenance_budget = kBudget;
    options.clock = clock;
    options.reaper = nullptr;
    return options;
  }

  // Fills the cache with entries of a hundredth of both limits.
  void Fill(absl::Duration ttl) {
    for (int key = 0; key < 100; ++key) {
      Claim claim(&shared_.budget);
      ASSERT_EQ(shard_.Publish(NewWrite(key, 100, ttl), &claim, &removed_),
                Publication::kDone);
    }
  }

  IntShard::Write NewWrite(int key, uint32_t charge,
                           absl::Duration ttl = absl::InfiniteDuration()) {
    IntShard::Write write;
    write.ref = shared_.pool->New(key, key);
    shared_.pool->SetCharge(write.ref, charge);
    write.room = {1, charge};
    write.hash = HashKey<DefaultHash<int>>(key).for_index;
    write.ttl_nanos = Clock::NanosAfter(0, ttl);
    write.now_nanos = clock_.NowNanos();
    return write;
  }

  // Returns why entries have been removed since the last call.
  std::vector<RemovalCause> TakeCauses() {
    std::vector<RemovalCause> causes;
    removed_.Dispose(
        [&](EntryRef, RemovalCause cause) { causes.push_back(cause); });
    return causes;
  }
  // Returns how many they were.
  int TakeRemoved() { return static_cast<int>(TakeCauses().size()); }

  // Repeats the call until it is done. Returns how often that was.
  int PublishInSteps(const IntShard::Write& write) {
    Claim claim(&shared_.budget);
    for (int calls = 1;; ++calls) {
      const Publication outcome = shard_.Publish(write, &claim, &removed_);
      EXPECT_LE(TakeRemoved(), kBudget + 1);  // And what it replaces.
      if (outcome == Publication::kDone) return calls;
      EXPECT_EQ(outcome, Publication::kMoreToDo);
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
    const EntryRef ref =
        shard_.FindAndPin(key, HashKey<DefaultHash<int>>(key).for_index, clock_,
                          /*use=*/false);
    if (ref != 0) shared_.pool->UnpinOutside(ref);
    return ref != 0;
  }

  void Clear() {
    shard_.Lock();
    shard_.TakeAllLocked(&removed_);
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
  SharedState<int, int> shared_{options_, 1, Charges::kStored,
                                /*has_listener=*/false, /*shard_bytes=*/0};
  IntShard shard_{&shared_, 0, options_};
  RemovedList<int, int> removed_{shared_.pool.get(), &shared_.limbo};
};

// So large that its index has a place in huge pages, once it grows.
class LargeShardTest : public ShardTest {
 protected:
  static constexpr int64_t kLargeLimit = 500'000;

  LargeShardTest() : ShardTest(kLargeLimit, kUnlimited) {}
};

TEST_F(ShardTest, SetThatEvictsManyDoesSoInSteps) {
  Fill(absl::InfiniteDuration());
  EXPECT_GE(PublishInSteps(NewWrite(-1, 5'000)), 50 / kBudget);
  EXPECT_EQ(shared_.budget.used(), (Room{51, 10'000}));
}

TEST_F(ShardTest, SetThatReclaimsManyDoesSoInSteps) {
  Fill(absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_GE(PublishInSteps(NewWrite(-1, 5'000)), 50 / kBudget);
}

TEST_F(ShardTest, SetThatHasRoomReclaimsNoMoreThanTheBudget) {
  Fill(absl::Seconds(1));
  Claim claim(&shared_.budget);
  shard_.Remove(0, HashKey<DefaultHash<int>>(0).for_index, clock_.NowNanos(),
                RemovalCause::kDeleted, &claim, &removed_);
  claim.GiveBack();
  EXPECT_EQ(TakeRemoved(), 1);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(PublishInSteps(NewWrite(-1, 100)), 1);
}

TEST_F(ShardTest, ReclaimDoesWhatTheBudgetAllowsAndSaysSo) {
  Fill(absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  int reclaimed = 0;
  for (uint64_t done = 7; done == 7;) {
    Claim claim(&shared_.budget);
    done = shard_.Reclaim(clock_.NowNanos(), 7, &claim, &removed_);
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

TEST_F(ShardTest, EvictStopsAtTheBudget) {
  Fill(absl::InfiniteDuration());
  Claim claim(&shared_.budget);
  EXPECT_FALSE(claim.Cover({1, 10'000}));
  EXPECT_TRUE(shard_.Evict(&claim, &removed_));
  EXPECT_EQ(TakeRemoved(), kBudget);
}

TEST_F(ShardTest, CheckInvariantsFindsTimersThatTheWheelHasLost) {
  Fill(absl::Seconds(1));  // All in one slot.
  Claim claim(&shared_.budget);
  const auto write = NewWrite(0, 100, absl::Seconds(1));
  ASSERT_EQ(shard_.Publish(write, &claim, &removed_), Publication::kDone);
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
    PublishInSteps(NewWrite(1, 100, absl::Seconds(1)));
    PublishInSteps(NewWrite(2, 100));
    Claim claim(&shared_.budget);
    ASSERT_EQ(shard_.Publish(NewWrite(1, 100), &claim, &removed_),
              Publication::kDone);
    // Counted at once, as all causes are.
    EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kReplaced));
    CheckInvariants();
  }
};

TEST_F(ReplacedEntryTest, IsNotEvicted) {
  Claim claim(&shared_.budget);
  EXPECT_FALSE(claim.Cover({99, 0}));
  EXPECT_TRUE(shard_.Evict(&claim, &removed_));
  EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kEvicted));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  claim.GiveBack();
  CheckInvariants();
}

TEST_F(ReplacedEntryTest, IsNotEvictedForASetOfItsShard) {
  Claim others(&shared_.budget);
  ASSERT_TRUE(others.Cover({98, 0}));
  Claim claim(&shared_.budget);
  EXPECT_EQ(shard_.Publish(NewWrite(3, 100), &claim, &removed_),
            Publication::kDone);
  EXPECT_THAT(TakeCauses(), ElementsAre(RemovalCause::kEvicted));
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
}

TEST_F(ReplacedEntryTest, DoesNotExpire) {
  clock_.Advance(absl::Seconds(2));
  Claim claim(&shared_.budget);
  EXPECT_EQ(shard_.Reclaim(clock_.NowNanos(), 10, &claim, &removed_), 0u);
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
    PublishInSteps(NewWrite(1, 100));
    CheckInvariants();
  }
  EXPECT_EQ(shared_.budget.used(), (Room{2, 200}));
}

TEST_F(LargeShardTest, ClearGivesBackTheIndexThoughAllHasExpired) {
  const size_t bytes = Index::TableBytesFor(kLargeLimit);
  const auto place_is_free = [&] {
    void* const table = shared_.tables.Allocate(bytes);
    const bool in_place = shared_.tables.Holds(table);
    shared_.tables.Free(table);
    return in_place;
  };
  for (int key = 0; key < 200; ++key) {
    PublishInSteps(NewWrite(key, 100, absl::Seconds(1)));
  }
  ASSERT_FALSE(place_is_free());
  clock_.Advance(absl::Seconds(2));
  Claim claim(&shared_.budget);
  shard_.Reclaim(clock_.NowNanos(), 1000, &claim, &removed_);
  ASSERT_EQ(TakeRemoved(), 200);
  Clear();
  EXPECT_TRUE(place_is_free());
}

// In a cache of one shard a hit moves the entry at once, if it can.
TEST_F(ShardTest, UseThatFindsTheLockTakenCountsToo) {
  Fill(absl::InfiniteDuration());
  const auto use = [this](int key) {
    ReadSection section;
    const Hash32 hash = HashKey<DefaultHash<int>>(key).for_index;
    const auto found = shard_.Find(key, hash, &section);
    ASSERT_NE(found.ref, 0u);
    shard_.Use(found, hash);
  };
  use(0);
  shard_.Lock();
  std::thread(use, 1).join();
  shard_.Unlock();
  for (int key = 100; key < 103; ++key) {
    EXPECT_EQ(PublishInSteps(NewWrite(key, 100)), 1);
  }
  for (const auto& [key, stays] :
       {std::pair(0, true), std::pair(1, true), std::pair(2, false),
        std::pair(3, false), std::pair(4, false), std::pair(5, true)}) {
    EXPECT_EQ(Holds(key), stays) << key;
  }
}

// As long as the other's last entry is clearly older, it is the other's turn.
TEST_F(ShardTest, EachOfTwoShardsLooksAtTheOther) {
  CacheOptions options = options_;
  options.shards = 2;
  SharedState<int, int> shared(options, 2, Charges::kStored,
                               /*has_listener=*/false, /*shard_bytes=*/0);
  shared.uses.set_tail(1, Stamp{0} - 1'000'000);
  const Room all = shared.budget.limit();
  ASSERT_TRUE(shared.budget.TryTake({all.entries - 1, 0}));
  IntShard shard(&shared, 0, options);
  RemovedList<int, int> removed(shared.pool.get(), &shared.limbo);
  const auto publish = [&](int key) {
    IntShard::Write write = NewWrite(key, 100);
    shared_.pool->Unpin(std::exchange(write.ref, shared.pool->New(key, key)));
    shared.pool->SetCharge(write.ref, 100);
    Claim claim(&shared.budget);
    const Publication outcome = shard.Publish(write, &claim, &removed);
    if (outcome != Publication::kDone) shared.pool->Unpin(write.ref);
    return outcome;
  };
  ASSERT_EQ(publish(1), Publication::kDone);
  for (int key = 2; key < 6; ++key) {
    EXPECT_EQ(publish(key), Publication::kEvictOlder);
  }
  shard.Lock();
  shard.TakeAllLocked(&removed);
  shard.Unlock();
  removed.Dispose([](EntryRef, RemovalCause) {});
  shared.limbo.DestroyAll();
}

TEST_F(ShardTest, EmptyShardSaysThatOthersMustEvict) {
  Claim others(&shared_.budget);
  ASSERT_TRUE(others.Cover({100, 0}));
  Claim claim(&shared_.budget);
  const auto write = NewWrite(1, 100);
  EXPECT_EQ(shard_.Publish(write, &claim, &removed_),
            Publication::kEvictOthers);
  EXPECT_FALSE(shard_.Evict(&claim, &removed_));
  others.GiveBack();
  EXPECT_EQ(shard_.Publish(write, &claim, &removed_), Publication::kDone);
}

}  // namespace
}  // namespace internal
}  // namespace wheelcache
