// The scan-resistant policy in one shard: who stays, how large the window is,
// and what the keys that come back teach it; and which hits of either policy
// note that an entry was used. Hit ratios are compared in
// tests/cache/policy_model_test.cc.

#include "wheelcache/cache/internal/engine/admission.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/lru/frequency_sketch.h"

namespace wheelcache::internal {
namespace {

constexpr Admission::List kWindow = Admission::kWindow;
constexpr Admission::List kMain = Admission::kMain;

// A shard of a thousand entries. Its window may take a hundred at first.
class AdmissionTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kEntries = 1000;
  static constexpr int kShards = 1;

  void Fill(Admission::List list, int64_t entries, int64_t bytes = 1) {
    for (int64_t i = 0; i < entries; ++i) admission_.Add(list, {1, bytes});
  }
  void Use(Hash32 hash, int times) {
    for (int i = 0; i < times; ++i) admission_.RecordUsed(hash);
  }
  bool Wins(double window_life = 1, double main_life = 1) {
    return admission_.Wins({kNew, window_life}, {kOld, main_life});
  }
  int WinsOf(int tries) {
    int wins = 0;
    for (int i = 0; i < tries; ++i) wins += Wins();
    return wins;
  }

  static constexpr Hash32 kNew = 0x12345678;
  static constexpr Hash32 kOld = 0x9abcdef0;

  WindowTarget target_{kShards};
  std::vector<FrequencySketch::Block> memory_ =
      std::vector<FrequencySketch::Block>(
          AdmissionMemory::BytesFor(kEntries, kShards) /
          sizeof(FrequencySketch::Block));
  Admission admission_{
      {reinterpret_cast<std::byte*>(memory_.data()), kEntries, kShards},
      {kEntries, kUnlimited},
      &target_};
};

TEST(AdmissionMemoryTest, IsAtMostEighteenBytesAnEntryInWholeLines) {
  for (uint64_t entries = 1'000; entries < 100'000'000;
       entries += entries / 7) {
    for (const int shards : {1, 8, 1'024}) {
      const size_t bytes = AdmissionMemory::BytesFor(entries, shards);
      EXPECT_LE(bytes, 18 * entries) << entries;
      EXPECT_EQ(bytes % 64, 0u) << entries;
      EXPECT_EQ(bytes, AdmissionMemory::SketchBytes(entries) +
                           AdmissionMemory::GhostBytes(entries, shards));
    }
  }
  EXPECT_EQ(AdmissionMemory::SketchBytes(1'000), 8'192u);
}

TEST_F(AdmissionTest, WindowIsFullAboveItsTarget) {
  Fill(kWindow, 98);
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 1}));
  EXPECT_TRUE(admission_.WindowIsFullFor({3, 1}));
  Fill(kWindow, 3);
  EXPECT_TRUE(admission_.WindowIsFullFor({1, 1}));
  admission_.Remove(kWindow, {4, 4});
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 1}));
  Fill(kMain, 800);  // Which does not matter.
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 1}));
}

TEST_F(AdmissionTest, TheLargerPartOfEntriesAndBytesCounts) {
  admission_.SetShare({kEntries, 10'000});
  Fill(kWindow, 9, /*bytes=*/100);
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 99}));
  EXPECT_TRUE(admission_.WindowIsFullFor({1, 101}));
  EXPECT_TRUE(admission_.WindowIsFullFor({92, 1}));
}

TEST_F(AdmissionTest, MainListTakesWhatLeavesAFullWindowUntilItIsFull) {
  Fill(kWindow, 98);
  Fill(kMain, 10);
  EXPECT_FALSE(admission_.MainHasRoomFor({1, 1}));
  Fill(kWindow, 4);
  EXPECT_TRUE(admission_.MainHasRoomFor({1, 1}));
  Fill(kMain, 888);
  EXPECT_TRUE(admission_.MainHasRoomFor({1, 1}));
  EXPECT_FALSE(admission_.MainHasRoomFor({4, 4}));
  Fill(kMain, 4);
  EXPECT_FALSE(admission_.MainHasRoomFor({1, 1}));
  admission_.Clear();
  EXPECT_EQ(admission_.size(kWindow), Room());
  EXPECT_EQ(admission_.size(kMain), Room());
}

TEST_F(AdmissionTest, WhatWasUsedMoreOftenStays) {
  Use(kNew, 3);
  Use(kOld, 2);
  EXPECT_TRUE(Wins());
  Use(kOld, 2);
  EXPECT_FALSE(Wins());
  admission_.RecordSet(kNew);  // Of a new key: a use as well.
  admission_.RecordSet(kNew);
  EXPECT_TRUE(Wins());
}

TEST_F(AdmissionTest, OfEquallyFrequentOnesTheOneInTheMainListStays) {
  EXPECT_FALSE(Wins());
  Use(kNew, 2);
  Use(kOld, 2);
  EXPECT_FALSE(Wins());
}

TEST_F(AdmissionTest, MuchLongerLifeMakesUpForLowerFrequency) {
  Use(kNew, 1);
  Use(kOld, 2);
  EXPECT_FALSE(Wins(/*window_life=*/4, /*main_life=*/1));
  EXPECT_TRUE(Wins(/*window_life=*/4.1, /*main_life=*/1));
  Use(kOld, 3);
  EXPECT_FALSE(Wins(/*window_life=*/4.9, /*main_life=*/1));
  EXPECT_TRUE(Wins(/*window_life=*/5.1, /*main_life=*/1));
}

TEST_F(AdmissionTest, FrequentLoserWinsOneTimeIn128) {
  Use(kNew, 5);
  Use(kOld, 7);
  EXPECT_EQ(WinsOf(10'000), 0);
  Use(kNew, 1);
  EXPECT_NEAR(WinsOf(128 * 100), 100, 30);
}

TEST_F(AdmissionTest, TargetFollowsTheKeysThatComeBack) {
  Fill(kWindow, 100);
  Fill(kMain, 900);
  admission_.RecordSet(1);
  EXPECT_EQ(target_.Get(), 0.1);
  admission_.RecordEvicted(2, kWindow);
  admission_.RecordSet(2);
  EXPECT_NEAR(target_.Get(), 0.101, 1e-9);
  admission_.RecordSet(2);  // It is no ghost any more.
  EXPECT_NEAR(target_.Get(), 0.101, 1e-9);
  admission_.RecordEvicted(4, kMain);
  admission_.RecordSet(4);
  EXPECT_NEAR(target_.Get(), 0.1, 1e-9);
}

TEST_F(AdmissionTest, StepsAreLongerWhereTheOtherListHasMoreGhosts) {
  Fill(kWindow, 100);
  Fill(kMain, 900);
  for (Hash32 hash = 1; hash <= 9; ++hash) {
    admission_.RecordEvicted(hash * 1'000'003, kMain);
  }
  admission_.RecordEvicted(2, kWindow);
  admission_.RecordSet(2);  // Ten to two.
  EXPECT_NEAR(target_.Get(), 0.105, 1e-9);
}

TEST_F(AdmissionTest, OnlyAFrequencyIsLuckyAndNotSomeOfItsCounters) {
  admission_.RecordSet(1);
  for (Hash32 hash = 0; hash < 5'000; ++hash) Use(hash % 500 * 77'777, 1);
  Use(kOld, 15);
  FrequencySketch sketch(memory_.data(), FrequencySketch::BlocksFor(kEntries));
  sketch.Fit(kEntries);
  for (Hash32 hash = 1; hash < 4'000; ++hash) {
    if (sketch.Frequency(hash) > 5) continue;
    for (int i = 0; i < 20; ++i) {
      ASSERT_FALSE(admission_.Wins({hash, 1}, {kOld, 1})) << hash;
    }
  }
}

TEST_F(AdmissionTest, AFullShardHoldsItsPartOfWhatFits) {
  Fill(kWindow, 50);
  Fill(kMain, 200);
  // A quarter of a thousand entries, in a cache that uses half of its limit.
  admission_.RecordFull({500, 7}, {1000, kUnlimited});
  EXPECT_TRUE(admission_.WindowIsFullFor({1, 1}));
  admission_.Remove(kWindow, {2, 2});
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 1}));
  Fill(kWindow, 2);
  admission_.RecordSet(1);  // From now on it remembers as many as fit.
  admission_.RecordEvicted(2, kWindow);
  admission_.RecordSet(2);  // Five hundred fit.
  EXPECT_NEAR(target_.Get(), 0.102, 1e-9);
}

TEST_F(AdmissionTest, NoticesWhatMakesItsPartAnother) {
  Fill(kWindow, 50);
  Fill(kMain, 450);
  const auto is_full = [this](int64_t used, Room limit) {
    admission_.RecordFull({used, 1}, limit);
    return admission_.WindowIsFullFor({1, 1});
  };
  EXPECT_TRUE(is_full(1000, {1000, kUnlimited}));
  EXPECT_FALSE(is_full(900, {1000, kUnlimited}));
  EXPECT_TRUE(is_full(1000, {1000, kUnlimited}));
  EXPECT_FALSE(is_full(1000, {1100, kUnlimited}));
  EXPECT_TRUE(is_full(1000, {1000, kUnlimited}));
  admission_.SetShare({1000, kUnlimited});
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 1}));
  EXPECT_TRUE(is_full(1000, {1000, kUnlimited}));
  EXPECT_FALSE(is_full(1000, {1100, kUnlimited}));
  EXPECT_TRUE(is_full(1000, {1100, 1}));  // By its bytes.
  EXPECT_FALSE(is_full(1000, {1100, kUnlimited}));
  EXPECT_TRUE(is_full(1000, {1000, kUnlimited}));
  Fill(kMain, 100);
  EXPECT_FALSE(is_full(1000, {1000, kUnlimited}));
}

TEST_F(AdmissionTest, AFullShardHoldsItsPartOfTheBytes) {
  Fill(kWindow, 50, /*bytes=*/10);
  Fill(kMain, 200, /*bytes=*/10);
  // All that the cache uses, which is half of its limit.
  admission_.RecordFull({250, 2'500}, {kUnlimited, 5'000});
  EXPECT_TRUE(admission_.WindowIsFullFor({1'000, 0}));
  admission_.Remove(kWindow, {9, 90});
  EXPECT_FALSE(admission_.WindowIsFullFor({1'000, 10}));
  EXPECT_TRUE(admission_.WindowIsFullFor({1, 11}));
}

TEST_F(AdmissionTest, WithALimitOfBytesTheWindowMayBeAFewEntriesShort) {
  // Eight entries are a 125th of what fits.
  Fill(kWindow, 91, /*bytes=*/10);
  Fill(kMain, 909, /*bytes=*/10);
  const auto is_full = [this](int64_t limit_of_bytes) {
    admission_.RecordFull({1'000, 10'000}, {1'000, limit_of_bytes});
    return admission_.WindowIsFullFor({1, 11});
  };
  EXPECT_FALSE(is_full(kUnlimited));
  EXPECT_TRUE(is_full(10'000));
  admission_.Remove(kWindow, {1, 10});
  Fill(kMain, 1, /*bytes=*/10);
  EXPECT_FALSE(is_full(10'000));
}

TEST_F(AdmissionTest, WindowIsNeverFullBelowItsLeastTarget) {
  // Eight entries are four fifths of what fits.
  Fill(kMain, 10, /*bytes=*/1'000);
  admission_.RecordFull({10, 10'000}, {kUnlimited, 10'000});
  EXPECT_FALSE(admission_.WindowIsFullFor({1, 500}));
  EXPECT_TRUE(admission_.WindowIsFullFor({1, 501}));
}

// A shard that remembers one in eight of the keys that it would remember if it
// were small. Half of it is in the window.
class LargeAdmissionTest : public ::testing::Test {
 protected:
  static constexpr int64_t kEntries = 8 * 4 * 4'096;

  LargeAdmissionTest() {
    admission_.Add(kWindow, {kEntries / 2, 0});
    admission_.Add(kMain, {kEntries / 2, 0});
    Fit();
  }

  // Sets enough keys for the shard to look at its size.
  void Fit() {
    for (int i = 0; i < 64; ++i) admission_.RecordSet(1);
  }
  // Evicts so many keys from the window and Sets them again. Returns by how
  // many entries that moves the target.
  double MoveOfKeysThatComeBack(int keys) {
    const double before = target_.Get();
    std::mt19937 random(/*seed=*/1);
    for (int i = 0; i < keys; ++i) {
      admission_.RecordEvicted(static_cast<Hash32>(random()), kWindow);
    }
    random.seed(1);
    for (int i = 0; i < keys; ++i) {
      admission_.RecordSet(static_cast<Hash32>(random()));
    }
    return (target_.Get() - before) * static_cast<double>(kEntries);
  }

  WindowTarget target_{/*shards=*/1};
  std::vector<FrequencySketch::Block> memory_ =
      std::vector<FrequencySketch::Block>(
          AdmissionMemory::BytesFor(kEntries, /*shards=*/1) /
          sizeof(FrequencySketch::Block));
  Admission admission_{
      {reinterpret_cast<std::byte*>(memory_.data()), kEntries, /*shards=*/1},
      {kEntries, kUnlimited},
      &target_};
};

TEST_F(LargeAdmissionTest, TargetMovesAsIfAllKeysWereRemembered) {
  // Half of what it has room for: few are pushed out of their bucket.
  constexpr int kKeys = kEntries / 8;
  EXPECT_NEAR(MoveOfKeysThatComeBack(kKeys), kKeys, kKeys / 20.0);
}

TEST_F(LargeAdmissionTest, RemembersAllKeysOnceFewFit) {
  constexpr int64_t kFew = 4'000;
  admission_.Clear();
  admission_.Add(kWindow, {kFew, 0});
  admission_.SetShare({kFew, kUnlimited});
  Fit();
  const double before = target_.Get();
  for (Hash32 hash = 2; hash < 100; ++hash) {
    admission_.RecordEvicted(hash, kWindow);
    admission_.RecordSet(hash);
  }
  EXPECT_NEAR((target_.Get() - before) * kFew, 98, 1e-6);
}

TEST(WindowTargetTest, AStepIsAnEntryOfTheWholeCache) {
  WindowTarget target(/*shards=*/4);
  EXPECT_EQ(target.Get(), 0.1);
  target.Move(/*steps=*/2, /*keys=*/1, /*entries=*/500);
  EXPECT_NEAR(target.Get(), 0.101, 1e-9);
  target.Move(/*steps=*/-1, /*keys=*/1, /*entries=*/100);
  EXPECT_NEAR(target.Get(), 0.0985, 1e-9);
  target.Move(/*steps=*/1, /*keys=*/3, /*entries=*/500);
  EXPECT_NEAR(target.Get(), 0.1, 1e-9);
}

TEST(WindowTargetTest, NoMoveIsFurtherThanAFiftiethOfAShardAndAnEntry) {
  WindowTarget target(/*shards=*/2);
  target.Move(/*steps=*/100, /*keys=*/1, /*entries=*/50);
  EXPECT_NEAR(target.Get(), 0.12, 1e-9);
  target.Move(/*steps=*/-100, /*keys=*/1, /*entries=*/50);
  EXPECT_NEAR(target.Get(), 0.1, 1e-9);
}

TEST(WindowTargetTest, StaysWithinItsBounds) {
  WindowTarget target(/*shards=*/1);
  for (int i = 0; i < 1'000; ++i) target.Move(100, /*keys=*/1, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kMost);
  for (int i = 0; i < 1'000; ++i) target.Move(-100, /*keys=*/1, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kLeast);
}

// For how many uses of others an entry stays young where the list does not see
// differences below `resolution`.
int64_t UsesUntilOld(Recency::Order order, uint32_t resolution) {
  UseClock clock(/*shards=*/1);
  Recency recency(&clock, order);
  recency.SetResolution(resolution);
  uint32_t uncounted = 0;
  const Stamp stamp = recency.NextStamp(&uncounted);
  int64_t uses = 0;
  while (recency.IsYoung(stamp, recency.Now())) {
    recency.NextStamp(&uncounted);
    ++uses;
  }
  return uses;
}

TEST(RecencyTest, InExactModeOnlyTheEntryAtTheFrontIsYoung) {
  EXPECT_EQ(UsesUntilOld(Recency::Order::kExact, 1), 1);
  EXPECT_EQ(UsesUntilOld(Recency::Order::kExact, 10'000), 1);
}

// A shard counts sixteen uses at a time.
TEST(RecencyTest, EntryIsYoungForAQuarterOfTheTimeThatTheListSpans) {
  for (const uint32_t resolution : {1, 4, 15, 16, 100, 25'000}) {
    const int64_t uses = UsesUntilOld(Recency::Order::kLazy, resolution);
    EXPECT_GT(uses, int64_t{resolution} * 4 - 16);
    EXPECT_LE(uses, int64_t{resolution} * 4 + 16);
  }
}

TEST(RecencyTest, UsesInOneShardAgeTheEntriesOfAll) {
  UseClock clock(/*shards=*/2);
  Recency one(&clock, Recency::Order::kLazy);
  Recency other(&clock, Recency::Order::kLazy);
  one.SetResolution(10);
  uint32_t uncounted_of_one = 0;
  uint32_t uncounted_of_other = 0;
  const Stamp stamp = one.NextStamp(&uncounted_of_one);
  EXPECT_TRUE(one.IsYoung(stamp, one.Now()));
  for (int i = 0; i < 100; ++i) {
    other.NextStamp(&uncounted_of_other);
  }
  EXPECT_FALSE(one.IsYoung(stamp, one.Now()));
}

TEST(RecencyTest, TailIsShownAnewWhereItDiffersByMoreThanTheSlack) {
  UseClock clock(/*shards=*/2);
  clock.set_tail(1, 1000);
  for (const Stamp near : {992, 1000, 1008}) {
    clock.set_tail(1, near, /*slack=*/8);
    EXPECT_EQ(clock.tail(1), 1000);
  }
  for (const Stamp far : {1009, 1000, 991}) {
    clock.set_tail(1, far, /*slack=*/8);
    EXPECT_EQ(clock.tail(1), far);
  }
  EXPECT_EQ(clock.tail(0), 0);
}

}  // namespace
}  // namespace wheelcache::internal
