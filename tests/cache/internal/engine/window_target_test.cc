#include "wheelcache/cache/internal/engine/window_target.h"

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

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

TEST(WindowTargetTest, ManyKeysMoveItByNoMoreThanAFiftiethOfTheCache) {
  WindowTarget target(/*shards=*/10);
  target.Move(/*steps=*/100, /*keys=*/3, /*entries=*/50);  // Two each.
  EXPECT_NEAR(target.Get(), 0.112, 1e-9);
  target.Move(/*steps=*/-100, /*keys=*/20, /*entries=*/50);
  EXPECT_NEAR(target.Get(), 0.09, 1e-9);
}

TEST(WindowTargetTest, StaysWithinItsBounds) {
  WindowTarget target(/*shards=*/1);
  for (int i = 0; i < 1'000; ++i) target.Move(100, /*keys=*/1, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kMost);
  for (int i = 0; i < 1'000; ++i) target.Move(-100, /*keys=*/1, /*entries=*/50);
  EXPECT_EQ(target.Get(), WindowTarget::kLeast);
}

}  // namespace
}  // namespace wheelcache::internal
