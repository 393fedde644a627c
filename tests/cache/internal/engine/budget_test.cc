// The limits of a cache, and the claims on them.

#include "wheelcache/cache/internal/engine/budget.h"

#include <atomic>
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

TEST(BudgetTest, GivesTheRoomOfAHigherLimitAtOnce) {
  Budget budget({1, 100});
  ASSERT_TRUE(budget.TryTake({1, 100}));
  budget.Raise({2, 0});
  EXPECT_EQ(budget.limit(), (Room{3, 100}));
  EXPECT_EQ(budget.used(), (Room{1, 100}));
  EXPECT_TRUE(budget.TryTake({2, 0}));
  EXPECT_FALSE(budget.TryTake({1, 0}));
  budget.Raise({0, kNoLimit - 100});
  EXPECT_TRUE(budget.TryTake({0, kNoLimit - 100}));
  EXPECT_FALSE(budget.TryTake({0, 1}));
  EXPECT_EQ(budget.used(), (Room{3, kNoLimit}));
}

TEST(BudgetTest, TellsTheUseOfEachLimitThatThereIs) {
  Budget budget({10, 100});
  ASSERT_TRUE(budget.TryTake({2, 30}));
  EXPECT_EQ(budget.used_of({10, 100}), (Room{2, 30}));
  EXPECT_EQ(budget.used_of({10, kNoLimit}), (Room{2, 0}));
  EXPECT_EQ(budget.used_of({kNoLimit, 100}), (Room{0, 30}));
}

TEST(BudgetTest, HasRoomForAnotherOfTheSameSize) {
  Budget budget({3, 100});
  EXPECT_TRUE(budget.HasRoom());
  ASSERT_TRUE(budget.TryTake({1, 50}));
  EXPECT_TRUE(budget.HasRoom());
  ASSERT_TRUE(budget.TryTake({0, 1}));
  EXPECT_FALSE(budget.HasRoom()) << "49 bytes for one of 51";
  budget.Raise({0, 2});
  EXPECT_TRUE(budget.HasRoom());
  ASSERT_TRUE(budget.TryTake({2, 0}));
  EXPECT_FALSE(budget.HasRoom()) << "no entry more";
}

// What a thread has read of a limit before that falls must not help it.
TEST(BudgetTest, LimitThatChangesIsNeverExceededByManyThreads) {
  Budget budget({1000, 1000});
  std::atomic<int64_t> taken{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      while (!done.load()) {
        const Room room = {static_cast<int64_t>(random() % 40), 0};
        if (!budget.TryTake(room)) continue;
        taken.fetch_add(room.entries);
        taken.fetch_sub(room.entries);
        budget.Give(room);
      }
    });
  }
  for (int i = 0; i < 20'000; ++i) {
    const Room kept = budget.TakeUpTo({980, 0});
    EXPECT_EQ(kept.bytes, 0);
    budget.Lower(kept);
    // Of whoever has taken now, all of it is within the limit.
    EXPECT_LE(taken.load(), 1000 - kept.entries);
    EXPECT_LE(budget.used().entries, budget.limit().entries);
    EXPECT_GE(budget.used().entries, 0);
    budget.Raise(kept);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), Room());
  EXPECT_EQ(budget.limit(), (Room{1000, 1000}));
}

TEST(ClaimTest, LowersTheLimitsByWhatItHolds) {
  Budget budget({10, 100});
  Claim claim(&budget);
  ASSERT_TRUE(budget.TryTake({8, 50}));
  claim.CoverUpTo({5, 20});
  EXPECT_EQ(budget.used(), (Room{10, 70}));
  EXPECT_EQ(claim.LowerLimits({5, 20}), (Room{2, 20}));
  EXPECT_EQ(budget.limit(), (Room{8, 80}));
  EXPECT_EQ(budget.used(), (Room{8, 50}));
  claim.Add({1, 10});
  EXPECT_EQ(claim.LowerLimits({3, 0}), (Room{1, 0}));
  claim.GiveBack();
  EXPECT_EQ(budget.limit(), (Room{7, 80}));
  EXPECT_EQ(budget.used(), (Room{7, 40}));
  EXPECT_FALSE(budget.TryTake({1, 0}));
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
