// The scan-resistant policy in one shard, rule by rule: where a new entry goes,
// who stays, and what the keys that come back teach the window; which hits of
// either policy are recorded; and how shards show the ages of their tails. Hit
// ratios are compared in tests/cache/policy_model_test.cc.

#include "wheelcache/cache/internal/engine/two_lists.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_links.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/internal/engine/window_target.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/tests/testing/shard_test_base.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;

// The lists of one shard for so many entries, or bytes of entries that take ten
// each. A key's hash spreads well.
class TwoListsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kBytes = 10;

  explicit TwoListsTest(Room limit = {10, kUnlimited})
      : budget_(limit, /*shards=*/1) {
    lists_ = std::make_unique<TwoLists>(TwoLists::Owner{
        pool_.get(),
        &recency_,
        &budget_,
        &target_,
        {reinterpret_cast<std::byte*>(memory_.data()), kEntries},
        limit});
  }
  ~TwoListsTest() override {
    while (EntryRef ref = Victim()) Remove(ref);
  }

  static Hash32 HashOf(int key) { return Hash32{0x9e3779b1} * Hash32(key); }

  void Add(int key, EntryRef old = 0) {
    const EntryRef ref =
        NewIntWrite(pool_.get(), clock_, key, kBytes, absl::InfiniteDuration())
            .ref;
    Claim claim(&budget_);
    ASSERT_TRUE(claim.Cover({1, kBytes}));
    lists_->Add({ref, HashOf(key), old}, {1, kBytes});
    entries_[key] = ref;
    ASSERT_TRUE(CheckInvariants().ok()) << CheckInvariants();
  }

  // As a shard: evicts first, where there is no room.
  void Set(int key) {
    while (!budget_.Has({1, kBytes})) Evict();
    Add(key);
  }
  void SetAll(int first, int last) {
    for (int key = first; key <= last; ++key) Set(key);
  }
  void Use(int key) {
    EntryHeader& entry = pool_->At(entries_.at(key));
    entry.stamp.store(recency_.Now(ListOf(entry)), std::memory_order_relaxed);
  }

  EntryRef Victim(EntryRef keep = 0) {
    uint64_t budget = 1'000;
    return lists_->FindVictim(keep, {1, kBytes}, &budget);
  }
  void Evict() { Evict(Victim()); }
  void EvictFromMain() { Evict(lists_->backs()[1]); }
  void Evict(EntryRef victim) {
    ASSERT_NE(victim, 0u);
    const int key = KeyOf(victim);
    lists_->RemoveVictim(victim, HashOf(key), kBytes);
    Forget(key);
  }
  void Remove(EntryRef ref) {
    lists_->Remove(ref, kBytes);
    Forget(KeyOf(ref));
  }
  void Forget(int key) {
    budget_.Give({1, kBytes});
    pool_->Unpin(entries_.at(key));
    entries_.erase(key);
  }

  int KeyOf(EntryRef ref) const {
    for (const auto& [key, entry] : entries_) {
      if (entry == ref) return key;
    }
    return 0;
  }
  std::vector<int> Keys(bool in_main) const {
    std::vector<int> keys;
    for (const auto& [key, ref] : entries_) {
      if (pool_->At(ref).in_main() == in_main) keys.push_back(key);
    }
    return keys;
  }
  std::vector<int> Window() const { return Keys(/*in_main=*/false); }
  std::vector<int> Main() const { return Keys(/*in_main=*/true); }

  absl::Status CheckInvariants() {
    return lists_->CheckInvariants([](EntryRef) { return absl::OkStatus(); });
  }

  static constexpr uint64_t kEntries = 1'000;

  SimulatedClock clock_;
  std::unique_ptr<EntryPool, AbandonPool> pool_{
      new EntryPool(&kIntEntries, Charges::kStored, /*expected=*/100)};
  Budget budget_;
  WindowTarget target_{/*shards=*/1};
  Recency recency_{Recency::Order::kTwoLists};
  std::vector<GhostList::Bucket> memory_ = std::vector<GhostList::Bucket>(
      GhostMemory::BytesFor(kEntries) / sizeof(GhostList::Bucket));
  std::unique_ptr<TwoLists> lists_;
  std::map<int, EntryRef> entries_;
};

TEST(GhostMemoryTest, IsLessThanTwoBytesAnEntryInWholeLines) {
  for (uint64_t entries = 1'000; entries < 100'000'000;
       entries += entries / 7) {
    const size_t bytes = GhostMemory::BytesFor(entries);
    EXPECT_LE(bytes, 2 * entries) << entries;
    EXPECT_EQ(bytes % 64, 0u) << entries;
  }
}

// The last one that fits comes when there is no room for more.
TEST_F(TwoListsTest, MainListFillsFirstAndAScanPassesThroughTheWindow) {
  SetAll(1, 10);
  EXPECT_THAT(Main(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(Window(), ElementsAre(9, 10));
  SetAll(11, 20);
  EXPECT_THAT(Main(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(Window(), ElementsAre(19, 20));
}

TEST_F(TwoListsTest, WhatWasUsedInTheWindowMovesOn) {
  SetAll(1, 10);
  Use(9);  // One has come since: another generation has begun.
  Set(11);
  EXPECT_THAT(Main(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Window(), ElementsAre(11));
}

TEST_F(TwoListsTest, FullMainListPaysForWhatMovesThere) {
  target_.Move(/*steps=*/1, /*entries=*/10);
  SetAll(1, 10);
  for (int key = 11; key <= 30; ++key) {
    Set(key);
    Use(key - 1);
  }
  EXPECT_EQ(Main().size(), 8u);
  EXPECT_GT(Main().front(), 8);
  EXPECT_LE(Window().size(), 3u);
}

TEST_F(TwoListsTest, KeyThatComesBackFromTheWindowEntersMainAndWidensIt) {
  SetAll(1, 11);
  ASSERT_EQ(entries_.count(9), 0u);
  Set(9);
  EXPECT_THAT(Main(), ::testing::Contains(9));
  // One ghost: a step of one entry.
  EXPECT_DOUBLE_EQ(target_.Get(), 0.2);
  // It is taken once.
  Remove(entries_.at(9));
  Add(9);
  EXPECT_DOUBLE_EQ(target_.Get(), 0.2);
}

TEST_F(TwoListsTest, KeyThatComesBackFromTheMainListNarrowsTheWindow) {
  target_.Move(/*steps=*/9, /*entries=*/10);
  SetAll(1, 8);
  EvictFromMain();
  const double before = target_.Get();
  Set(1);
  EXPECT_THAT(Main(), ::testing::Contains(1));
  EXPECT_NEAR(target_.Get(), before - 0.1, 1e-9);
}

TEST_F(TwoListsTest, OneThatIsRareAmongTheGhostsCountsForMore) {
  SetAll(1, 16);  // 9 to 14 have left the window.
  target_.Move(/*steps=*/3, /*entries=*/100);
  target_.Move(/*steps=*/3, /*entries=*/100);
  EvictFromMain();
  const double before = target_.Get();
  Add(1);
  // Six ghosts of the window and one of the main list, each and one more: 7 / 2
  // entries, but no more than 1.2.
  EXPECT_NEAR(target_.Get(), std::max(before - 0.12, 0.05), 1e-9);
}

TEST_F(TwoListsTest, ReplacedEntryStaysInItsList) {
  SetAll(1, 9);
  for (const int key : {1, 9}) {
    const EntryRef old = entries_.at(key);
    const bool in_main = pool_->At(old).in_main();
    Add(key, old);
    EXPECT_EQ(pool_->At(entries_.at(key)).in_main(), in_main);
    lists_->Remove(old, kBytes);
    budget_.Give({1, kBytes});
    pool_->Unpin(old);
  }
}

TEST_F(TwoListsTest, EntryThatIsReplacedIsNoVictim) {
  Add(1);
  EXPECT_EQ(Victim(/*keep=*/entries_.at(1)), 0u);
  Add(2);
  EXPECT_EQ(Victim(/*keep=*/entries_.at(1)), entries_.at(2));
  EXPECT_EQ(Victim(/*keep=*/entries_.at(2)), entries_.at(1));
}

TEST_F(TwoListsTest, SearchStopsAtItsBudget) {
  SetAll(1, 10);
  target_.Move(/*steps=*/9, /*entries=*/10);
  target_.Move(/*steps=*/9, /*entries=*/10);  // The window is within it.
  for (int key = 1; key <= 8; ++key) Use(key);
  uint64_t budget = 2;
  EXPECT_EQ(lists_->FindVictim(0, Room(), &budget), 0u);
  EXPECT_EQ(budget, 0u);
  EXPECT_NE(Victim(), 0u);
}

class TwoListsOfBytesTest : public TwoListsTest {
 protected:
  TwoListsOfBytesTest() : TwoListsTest({kUnlimited, 10 * kBytes}) {}
};

TEST_F(TwoListsOfBytesTest, ListsTakeTheirPartsOfTheBytes) {
  for (int key = 1; key <= 10; ++key) Add(key);
  EXPECT_THAT(Main(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(Victim(), entries_.at(9));
}

TEST(WindowTargetTest, AStepIsAnEntryOfTheWholeCache) {
  WindowTarget target(/*shards=*/4);
  EXPECT_EQ(target.Get(), 0.1);
  target.Move(/*steps=*/2, /*entries=*/500);
  EXPECT_NEAR(target.Get(), 0.101, 1e-9);
  target.Move(/*steps=*/-1, /*entries=*/100);
  EXPECT_NEAR(target.Get(), 0.0985, 1e-9);
}

TEST(WindowTargetTest, NoMoveIsFurtherThanAFiftiethOfAShardAndAnEntry) {
  WindowTarget target(/*shards=*/2);
  target.Move(/*steps=*/100, /*entries=*/50);
  EXPECT_NEAR(target.Get(), 0.12, 1e-9);
  target.Move(/*steps=*/-100, /*entries=*/50);
  EXPECT_NEAR(target.Get(), 0.1, 1e-9);
}

TEST(WindowTargetTest, StaysWithinItsBounds) {
  WindowTarget target(/*shards=*/1);
  for (int i = 0; i < 1'000; ++i) target.Move(100, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kMost);
  for (int i = 0; i < 1'000; ++i) target.Move(-100, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kLeast);
}

TEST(RecencyTest, NoStampOfOneListIsThatOfTheOtherOrMarked) {
  Recency recency(Recency::Order::kTwoLists, /*marks=*/true);
  for (uint32_t number = 0; number < 64; number += 4) {
    recency.SetNow(kWindow, number);
    recency.SetNow(kMain, number);
    EXPECT_NE(recency.Now(kWindow), recency.Now(kMain));
    EXPECT_FALSE(IsMarked(recency.Now(kWindow)));
    EXPECT_FALSE(IsMarked(recency.Now(kMain)));
  }
}

TEST(UseCountTest, TakesAboutAsManyAsWereCounted) {
  UseCount uses;
  for (Hash32 hash = 0; hash < 6'400; ++hash) uses.Count(hash);
  EXPECT_EQ(uses.Take(), 6'400u);
  EXPECT_EQ(uses.Take(), 0u);
}

TEST(TailBoardTest, TailIsShownAnewWhereItDiffersByMoreThanTheSlack) {
  TailBoard board(/*shards=*/2);
  ShardTail tail(&board, 1);
  tail.Publish(1000, /*slack=*/0);
  for (const TailBoard::Time near : {992, 1000, 1008}) {
    tail.Publish(near, /*slack=*/8);
    EXPECT_EQ(board.Get(1), 1000u);
  }
  for (const TailBoard::Time far : {1009, 1000, 991}) {
    tail.Publish(far, /*slack=*/8);
    EXPECT_EQ(board.Get(1), far);
  }
}

TEST(TailBoardTest, ShardTellsOfManyAppendsAtATime) {
  TailBoard board(/*shards=*/2);
  ShardTail one(&board, 0);
  uint32_t many = 64;
  for (const auto& [entries, next] :
       {std::pair(10, 64u), std::pair(6'400, 100u), std::pair(1'000'000, 1024u),
        std::pair(10, 64u)}) {
    const TailBoard::Time before = board.Now();
    EXPECT_EQ(one.many(), many);
    for (uint32_t i = 1; i < many; ++i) one.PassOne(entries);
    EXPECT_EQ(board.Now(), before);
    one.PassOne(entries);
    EXPECT_EQ(board.Now() - before, many);
    many = next;
  }
}

}  // namespace
}  // namespace wheelcache::internal
