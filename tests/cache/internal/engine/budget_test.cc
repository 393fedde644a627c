// The limits of a cache, and the claims on them.

#include "wheelcache/cache/internal/engine/budget.h"

#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

TEST(BudgetTest, GivesRoomUpToTheLimits) {
  Budget budget({2, 100});
  EXPECT_TRUE(budget.TryTake({1, 60}));
  EXPECT_FALSE(budget.TryTake({1, 41}));
  EXPECT_TRUE(budget.TryTake({1, 40}));
  EXPECT_FALSE(budget.TryTake({1, 0}));
  EXPECT_FALSE(budget.TryTake({0, 1}));
  EXPECT_TRUE(budget.TryTake({0, 0}));
  EXPECT_EQ(budget.used(), (Room{2, 100}));
  budget.Give({1, 60});
  EXPECT_EQ(budget.used(), (Room{1, 40}));
}

TEST(BudgetTest, TakesNothingWhereOneLimitForbidsIt) {
  Budget budget({1, 100});
  EXPECT_FALSE(budget.TryTake({1, 101}));
  EXPECT_EQ(budget.used(), Room());
  EXPECT_FALSE(budget.TryTake({2, 1}));
  EXPECT_EQ(budget.used(), Room());
}

TEST(BudgetTest, NoLimitIsNeverReached) {
  Budget budget({kNoLimit, kNoLimit});
  EXPECT_TRUE(budget.TryTake({kNoLimit - 1, kNoLimit - 1}));
  EXPECT_TRUE(budget.TryTake({1, 1}));
  EXPECT_FALSE(budget.TryTake({1, 1}));
}

TEST(BudgetTest, IsNeverExceededByManyThreads) {
  Budget budget({10, 1000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20'000; ++i) {
        const Room room = {1, static_cast<int64_t>(random() % 300)};
        if (!budget.TryTake(room)) continue;
        const Room used = budget.used();
        EXPECT_LE(used.entries, 10);
        EXPECT_LE(used.bytes, 1000);
        budget.Give(room);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), Room());
}

TEST(ClaimTest, CoversFromTheBudgetWhatItLacks) {
  Budget budget({10, 100});
  Claim claim(&budget);
  EXPECT_TRUE(claim.Cover({1, 30}));
  EXPECT_TRUE(claim.Cover({1, 50}));  // Twenty more.
  EXPECT_EQ(budget.used(), (Room{1, 50}));
  EXPECT_FALSE(claim.Cover({1, 101}));
  EXPECT_EQ(claim.need(), (Room{1, 101}));
  EXPECT_EQ(budget.used(), (Room{1, 50}));
}

TEST(ClaimTest, RoomOfARemovedEntryIsUsedBeforeTheBudgets) {
  Budget budget({1, 100});
  ASSERT_TRUE(budget.TryTake({1, 80}));  // The entry's.
  Claim claim(&budget);
  EXPECT_FALSE(claim.Cover({1, 90}));
  claim.Add({1, 80});
  EXPECT_TRUE(claim.Cover({1, 90}));
  claim.Spend({1, 90});
  claim.GiveBack();
  EXPECT_EQ(budget.used(), (Room{1, 90}));
}

TEST(ClaimTest, WhatIsLeftGoesBackInTheEnd) {
  Budget budget({10, 100});
  {
    Claim claim(&budget);
    ASSERT_TRUE(claim.Cover({2, 70}));
    claim.Spend({1, 40});
  }
  EXPECT_EQ(budget.used(), (Room{1, 40}));
}

// A smaller value in the place of a larger one needs less than nothing.
TEST(ClaimTest, ReplacementThatShrinksGivesRoom) {
  Budget budget({1, 100});
  ASSERT_TRUE(budget.TryTake({1, 80}));
  Claim claim(&budget);
  EXPECT_TRUE(claim.Cover({0, -50}));
  claim.Spend({0, -50});
  claim.GiveBack();
  EXPECT_EQ(budget.used(), (Room{1, 30}));
}

}  // namespace
}  // namespace wheelcache::internal
