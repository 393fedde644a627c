// What expires while a call is under way that began before. Each test has the
// time come at one point of the engine, each time in the same way.

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {
namespace {

class CacheExpiryRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  ~CacheExpiryRaceTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  void LetASecondPassAndReclaim() {
    clock_.Advance(absl::Seconds(1));
    cache_->RunMaintenance();
  }

  const std::unique_ptr<Cache<int, int>> cache_ = New<int, int>();
};

TEST_P(CacheExpiryRaceTest, MaintenanceOvertakenByASetSparesTheFreshValue) {
  cache_->Set(1, 10, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  At("maintenance: between clock and lock", [&] { cache_->Set(1, 11); });
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->Get(1), 11);
  EXPECT_EQ(cache_->stats().expirations, 1);
  EXPECT_EQ(cache_->stats().replaced, 0);
}

// The later maintenance has moved the wheel on before the earlier gets there.
TEST_P(CacheExpiryRaceTest, MaintenanceOvertakenByAnotherSparesTheLive) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("maintenance: between clock and lock", [&] {
    LetASecondPassAndReclaim();
    cache_->Set(1, 11, absl::Seconds(1));
  });
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->TimeToLive(1), absl::Seconds(1));
  LetASecondPassAndReclaim();
  EXPECT_EQ(cache_->size(), 0);
}

TEST_P(CacheExpiryRaceTest, SetOvertakenByTheExpiryOfTheOldValueIsVisible) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("store: between clock and lock", [&] {
    LetASecondPassAndReclaim();
    EXPECT_EQ(cache_->size(), 0);
  });
  EXPECT_TRUE(cache_->Set(1, 11));
  EXPECT_EQ(cache_->Get(1), 11);
  EXPECT_EQ(cache_->stats().expirations, 1);
  EXPECT_EQ(cache_->stats().replaced, 0);
}

// Its deadline lies behind the hand of the wheel when it comes to the wheel.
TEST_P(CacheExpiryRaceTest, SetOvertakenByItsOwnDeadlineLeavesNothing) {
  cache_->Set(2, 20, absl::Hours(1));
  for (const bool replaces : {false, true}) {
    if (replaces) cache_->Set(1, 10);
    At("store: between clock and lock", [&] { LetASecondPassAndReclaim(); });
    cache_->Set(1, 11, absl::Milliseconds(1));
    EXPECT_EQ(cache_->Get(1), std::nullopt);
    EXPECT_EQ(cache_->TimeToLive(1), std::nullopt);
    EXPECT_LE(cache_->NextDeadline(), clock_.Now());
    cache_->RunMaintenance();
    EXPECT_EQ(cache_->size(), 1);
  }
}

TEST_P(CacheExpiryRaceTest, DelOvertakenByTheExpiryDeletesNothing) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("remove: before the lock", [&] { LetASecondPassAndReclaim(); });
  EXPECT_FALSE(cache_->Del(1));
  EXPECT_EQ(cache_->stats().expirations, 1);
  EXPECT_EQ(cache_->stats().deletes, 0);
}

TEST_P(CacheExpiryRaceTest, TouchOvertakenByTheExpiryRevivesNothing) {
  cache_->Set(1, 10, absl::Seconds(1));
  At("touch: before the lock", [&] { LetASecondPassAndReclaim(); });
  EXPECT_FALSE(cache_->Touch(1, absl::Hours(1)));
  EXPECT_EQ(cache_->size(), 0);
}

TEST_P(CacheExpiryRaceTest, GetOvertakenByTheExpiryStillHasTheValue) {
  cache_->Set(1, 10, absl::Seconds(1));
  int seen = 0;
  EXPECT_TRUE(cache_->Visit(1, [&](const int& value) {
    LetASecondPassAndReclaim();
    EXPECT_EQ(cache_->size(), 0);
    for (int key = 2; key < 100; ++key) cache_->Set(key, key);
    seen = value;
  }));
  EXPECT_EQ(seen, 10);
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheExpiryRaceTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
