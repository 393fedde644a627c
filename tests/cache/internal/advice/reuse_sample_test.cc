#include "wheelcache/cache/internal/advice/reuse_sample.h"

#include <cstdint>
#include <limits>
#include <memory>

#include "gtest/gtest.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecond = 1'000'000'000;

class ReuseSampleTest : public ::testing::Test {
 protected:
  static std::unique_ptr<ReuseSample> Make(int64_t entries,
                                           int64_t bytes = kUnlimited) {
    return std::make_unique<ReuseSample>(ReuseSample::Limits{entries, bytes},
                                         /*now_nanos=*/0);
  }

  void Miss(uint32_t key) { sample_->Read(key, /*hit=*/false, now_); }
  void Hit(uint32_t key) { sample_->Read(key, /*hit=*/true, now_); }
  void Store(uint32_t key, int64_t ttl = Clock::kNever, uint32_t charge = 1) {
    sample_->Store(key, {charge, Clock::NanosAfter(now_, ttl)}, now_);
  }
  void Load(uint32_t key, int64_t ttl = Clock::kNever) {
    Miss(key);
    Store(key, ttl);
  }
  // Loads `sampled` keys of the `all` that the cache gets meanwhile, as parts
  // of those that it would hold with these limits.
  void LoadMany(double sampled, double all) {
    constexpr double kLimit = 10'000;
    const auto keys = static_cast<uint32_t>(sampled * kLimit * sample_->rate());
    for (uint32_t key = 0; key < keys; ++key) Load(key);
    sample_->CountInsertions(static_cast<int64_t>(all * kLimit));
  }
  double More(ReuseSample::Size size) const { return sample_->more_hits(size); }
  double Misses(ReuseSample::Cause cause) const {
    return sample_->misses(cause);
  }

  int64_t now_ = 0;
  std::unique_ptr<ReuseSample> sample_ = Make(/*entries=*/4);
};

TEST_F(ReuseSampleTest, EachSizeHoldsAsManyKeysAsFit) {
  // The distances are 2, 4, 8 and 16 other keys.
  for (const uint32_t others : {1u, 2u, 7u, 8u, 15u, 16u}) {
    sample_ = Make(/*entries=*/4);
    Load(1000);
    for (uint32_t i = 0; i < others; ++i) Load(i);
    Miss(1000);
    EXPECT_EQ(More(ReuseSample::kTwice), others < 8 ? 1 : 0) << others;
    EXPECT_EQ(More(ReuseSample::kFourTimes), others < 16 ? 1 : 0) << others;
  }
}

TEST_F(ReuseSampleTest, AHalfMissesWhatIsOlderThanItsRoom) {
  Load(1);
  Load(2);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
  Load(3);
  Load(4);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), -1);
}

TEST_F(ReuseSampleTest, BytesCountByTheirWeight) {
  sample_ = Make(kUnlimited, /*bytes=*/100);
  Store(1, Clock::kNever, /*charge=*/60);
  Store(2, Clock::kNever, /*charge=*/140);
  Miss(1);  // 200 bytes in all.
  EXPECT_EQ(More(ReuseSample::kTwice), 1);
  sample_ = Make(kUnlimited, /*bytes=*/100);
  Store(1, Clock::kNever, /*charge=*/60);
  Store(2, Clock::kNever, /*charge=*/141);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 1);
}

TEST_F(ReuseSampleTest, TheTighterOfTwoLimitsDecides) {
  sample_ = Make(/*entries=*/1, /*bytes=*/1000);
  for (uint32_t key = 1; key <= 3; ++key) Store(key);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 1);
}

TEST_F(ReuseSampleTest, AStoreOfAKnownKeyChangesItsCharge) {
  sample_ = Make(kUnlimited, /*bytes=*/100);
  Store(1, Clock::kNever, /*charge=*/10);
  Store(2, Clock::kNever, /*charge=*/300);
  Store(2, Clock::kNever, /*charge=*/20);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, WhatHasExpiredIsAMissAtEachSize) {
  Load(1, kSecond);
  now_ += kSecond;
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 1);
}

TEST_F(ReuseSampleTest, ALargerSizeHasTheOlderDeadline) {
  Load(1, 10 * kSecond);
  now_ += 8 * kSecond;
  for (uint32_t key = 2; key <= 6; ++key) Load(key);
  Load(1, 10 * kSecond);  // Evicted here, and loaded; twice as many hold it.
  EXPECT_EQ(More(ReuseSample::kTwice), 1);
  now_ += 4 * kSecond;
  Hit(1);  // There, it has expired.
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  now_ += 4 * kSecond;
  Hit(1);  // And was loaded at that time.
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, WhatIsLoadedAfterAnEvictionHasItsNewDeadline) {
  Load(1, 10 * kSecond);
  now_ += 2 * kSecond;
  for (uint32_t key = 2; key <= 6; ++key) Load(key);
  Load(1, 10 * kSecond);
  now_ += 9 * kSecond;
  Miss(1);  // Before its new deadline: it had to make room.
  EXPECT_EQ(Misses(ReuseSample::kEvicted), 2);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 0);
}

TEST_F(ReuseSampleTest, AStoreThatNoMissAskedForRenewsEachSize) {
  Load(1, 10 * kSecond);
  now_ += 8 * kSecond;
  Store(1, 10 * kSecond);
  now_ += 8 * kSecond;
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, ATouchRenewsTheDeadlineAndTheUse) {
  Load(1, 10 * kSecond);
  Load(2);
  Load(3);
  sample_->Touch(1, 20 * kSecond, now_);
  now_ += 15 * kSecond;
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AMissThatIsNotLoadedLeavesTheKeyOut) {
  Load(1);
  for (uint32_t key = 2; key <= 9; ++key) Load(key);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  Miss(1);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 2);
}

TEST_F(ReuseSampleTest, TellsWhyReadsMiss) {
  Load(1);
  EXPECT_EQ(Misses(ReuseSample::kFirstUse), 1);
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kEvicted), 1);
  Store(1);
  sample_->Delete(1);
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kDeleted), 1);
  Store(1, kSecond);
  now_ += 2 * kSecond;
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 1);
}

TEST_F(ReuseSampleTest, WhatWasDeletedTakesNoRoom) {
  Load(1);
  for (uint32_t key = 2; key <= 9; ++key) Load(key);
  for (uint32_t key = 2; key <= 9; ++key) sample_->Delete(key);
  Load(10);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, WhatHasExpiredTakesNoRoom) {
  Load(1);
  for (uint32_t key = 2; key <= 9; ++key) Load(key, kSecond);
  now_ += 2 * kSecond;
  // Each store looks at a few keys.
  for (uint32_t i = 0; i < ReuseSample::kMostKeys; ++i) Store(10);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, DeleteAllDeletesEachKey) {
  Load(1);
  Load(2);
  sample_->DeleteAll();
  Miss(1);
  Miss(2);
  EXPECT_EQ(Misses(ReuseSample::kDeleted), 2);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 0);
  Store(1);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, OtherLimitsBeginAnew) {
  Load(1);
  Load(2);
  Load(3);
  Hit(1);
  EXPECT_EQ(More(ReuseSample::kHalf), -1);
  sample_->SetLimits({/*entries=*/8, kUnlimited});
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
  Hit(2);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, FarLowerLimitsSampleMoreKeys) {
  sample_ = Make(/*entries=*/1'000'000);
  EXPECT_LT(sample_->rate(), 0.001);
  sample_->SetLimits({/*entries=*/600'000, kUnlimited});
  EXPECT_LT(sample_->rate(), 0.001);
  sample_->SetLimits({/*entries=*/100, kUnlimited});
  EXPECT_EQ(sample_->rate(), 1);
}

TEST_F(ReuseSampleTest, FarFewerBytesSampleMoreKeys) {
  sample_ = Make(kUnlimited, /*bytes=*/1'000'000);
  for (uint32_t i = 0; i < 20'000; ++i) Store(i * 2654435761u);
  const double rate = sample_->rate();
  EXPECT_LT(rate, 0.5);
  sample_->SetLimits({kUnlimited, /*bytes=*/600'000});
  EXPECT_EQ(sample_->rate(), rate);
  sample_->SetLimits({kUnlimited, /*bytes=*/1000});
  EXPECT_EQ(sample_->rate(), 1);
}

TEST_F(ReuseSampleTest, TheRateFollowsTheLimitOfEntries) {
  EXPECT_EQ(Make(/*entries=*/910)->rate(), 1);
  EXPECT_NEAR(Make(/*entries=*/100'000)->rate(), 4096 / 450'000.0, 1e-6);
  EXPECT_GT(Make(kUnlimited - 1)->threshold(), 0u);
}

TEST_F(ReuseSampleTest, TheRateFallsUntilTheKeysFit) {
  sample_ = Make(kUnlimited, /*bytes=*/1'000'000);
  for (uint32_t i = 0; i < 200'000; ++i) Store(i * 2654435761u);
  EXPECT_LE(sample_->keys(), ReuseSample::kMostKeys);
  EXPECT_GE(sample_->keys(), ReuseSample::kMostKeys * 3 / 4);
  EXPECT_NEAR(sample_->rate(), 4096 / 200'000.0, 0.003);
}

TEST_F(ReuseSampleTest, KeysThatNoSizeHoldsMakeRoomForOthers) {
  sample_ = Make(/*entries=*/100);
  for (uint32_t i = 0; i < 100'000; ++i) Load(i);
  EXPECT_EQ(sample_->rate(), 1);
  Miss(100'000 - 399);
  EXPECT_EQ(More(ReuseSample::kFourTimes), 1);
}

TEST_F(ReuseSampleTest, RemovedKeysDoNotLowerTheRateOfASmallCache) {
  sample_ = Make(/*entries=*/100);
  for (uint32_t i = 0; i < 100'000; ++i) {
    Load(i);
    sample_->Delete(i);
  }
  EXPECT_EQ(sample_->rate(), 1);
}

TEST_F(ReuseSampleTest, KeysAboveTheThresholdAreLeftOut) {
  sample_ = Make(/*entries=*/1'000'000);
  const auto above = static_cast<uint32_t>(sample_->threshold());
  Miss(above);
  Store(above);
  EXPECT_EQ(sample_->keys(), 0u);
  EXPECT_EQ(Misses(ReuseSample::kFirstUse), 0);
  Miss(above - 1);
  EXPECT_NEAR(Misses(ReuseSample::kFirstUse), 1 / sample_->rate(), 1e-6);
}

TEST_F(ReuseSampleTest, TooManySampledKeysMakeNoDistanceLonger) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.2, /*all=*/1.9);
  Miss(100'000);
  EXPECT_GT(More(ReuseSample::kTwice), 0);
}

TEST_F(ReuseSampleTest, TooFewSampledKeysMakeNoDistanceShorter) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/1.8, /*all=*/2.1);
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_GT(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AHitIsNoHitOfHalfTheLimitsBeyondTheirDistance) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/0.45, /*all=*/0.55);
  Hit(100'000);
  EXPECT_LT(More(ReuseSample::kHalf), 0);
}

TEST_F(ReuseSampleTest, AKeyThatExpiresOrIsDeletedOftenStandsForNoOther) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.5, /*all=*/2.5);
  for (int i = 0; i < 500; ++i) {
    Store(200'000);
    sample_->Expire(200'000);
    Store(300'000);
    sample_->Delete(300'000);
  }
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
  EXPECT_GT(More(ReuseSample::kFourTimes), 0);
}

TEST_F(ReuseSampleTest, AStoreThatReplacesIsNoInsertion) {
  sample_ = Make(/*entries=*/10'000);
  Load(100'000);
  LoadMany(/*sampled=*/2.5, /*all=*/2.5);
  for (int i = 0; i < 500; ++i) {
    sample_->Store(0, {1, Clock::kNever, /*replaces=*/true}, now_);
  }
  Miss(100'000);
  EXPECT_EQ(More(ReuseSample::kTwice), 0);
}

TEST_F(ReuseSampleTest, ClocksMayBeginBelowZeroAndJump) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  sample_ = std::make_unique<ReuseSample>(ReuseSample::Limits{4, kUnlimited},
                                          kLowest);
  now_ = kLowest;
  Load(1, kSecond);
  now_ = kLowest + 2 * kSecond;
  Miss(1);
  EXPECT_EQ(Misses(ReuseSample::kExpired), 1);
  now_ = std::numeric_limits<int64_t>::max() - 1;
  Load(2);
  Hit(2);
  EXPECT_EQ(More(ReuseSample::kHalf), 0);
}

}  // namespace
}  // namespace wheelcache::internal
