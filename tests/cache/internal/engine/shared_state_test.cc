// Tests of what the shared state derives from the limits of a cache.

#include "wheelcache/cache/internal/engine/shared_state.h"

#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::internal {
namespace {

TEST(PatienceForTest, IsASixteenthOfTheEntries) {
  EXPECT_EQ(PatienceFor({160, kUnlimited}), 10);
  EXPECT_EQ(PatienceFor({1'600'000, kUnlimited}), 100'000);
}

TEST(PatienceForTest, IsASixteenthOfTheBytesInLargeEntries) {
  EXPECT_EQ(PatienceFor({kUnlimited, 64 << 20}), (64 << 20) / 16 / 256);
}

// Weights, of which each entry may have one.
TEST(PatienceForTest, IsNotSmallBecauseOfFewBytes) {
  EXPECT_EQ(PatienceFor({kUnlimited, 1000}), 1024);
  EXPECT_EQ(PatienceFor({160, 1000}), 10);
}

}  // namespace
}  // namespace wheelcache::internal
