// When the shards of a cache next have something to reclaim.

#include "wheelcache/cache/internal/engine/due_board.h"

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

TEST(DueBoardTest, NothingIsDueAtFirst) {
  DueBoard board(/*shards=*/4);
  EXPECT_FALSE(board.AnyDue(Clock::kNever - 1));
  EXPECT_EQ(board.Earliest(), Clock::kNever);
}

TEST(DueBoardTest, AnyDueTellsOfTheEarliestShardToTheNanosecond) {
  DueBoard board(/*shards=*/4);
  board.Set(1, 200);
  board.Set(3, 100);
  EXPECT_FALSE(board.AnyDue(99));
  EXPECT_TRUE(board.AnyDue(100));
  EXPECT_EQ(board.Earliest(), 100);
}

// The bound is raised by those who ask, and must come down again.
TEST(DueBoardTest, AnyDueFollowsTheCellsUpAndDown) {
  DueBoard board(/*shards=*/2);
  board.Set(0, 100);
  EXPECT_TRUE(board.AnyDue(150));
  board.Set(0, 300);
  EXPECT_FALSE(board.AnyDue(150));
  EXPECT_FALSE(board.AnyDue(299));
  board.Set(1, 200);
  EXPECT_FALSE(board.AnyDue(199));
  EXPECT_TRUE(board.AnyDue(200));
  board.Set(1, Clock::kNever);
  EXPECT_FALSE(board.AnyDue(299));
  EXPECT_TRUE(board.AnyDue(300));
}

using DueBoardRaceTest = InterruptedCacheEnvironment;

// The cell is set to less than the bound is about to be.
TEST_F(DueBoardRaceTest, BoundIsNotRaisedAboveACellThatWasSetMeanwhile) {
  DueBoard board(/*shards=*/2);
  board.Set(0, 100);
  board.Set(0, 300);
  At("due board: between the look and the bound", [&] { board.Set(1, 200); });
  EXPECT_FALSE(board.AnyDue(150));
  EXPECT_FALSE(board.AnyDue(199));
  EXPECT_TRUE(board.AnyDue(200));
}

}  // namespace
}  // namespace wheelcache::internal
