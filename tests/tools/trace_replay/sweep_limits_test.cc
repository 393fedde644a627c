#include "wheelcache/tools/trace_replay/sweep_limits.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(SweepLimitsTest, AreSpacedEvenlyAndRound) {
  EXPECT_THAT(SweepLimits(76'349, 4), ElementsAre(300, 1'900, 12'000, 76'349));
  EXPECT_THAT(SweepLimits(1'000'000, 16), SizeIs(16));
}

TEST(SweepLimitsTest, FewKeysHaveFewerLimits) {
  EXPECT_THAT(SweepLimits(1, 16), ElementsAre(1));
  EXPECT_THAT(SweepLimits(5, 16), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(SweepLimits(2, 2), ElementsAre(1, 2));
}

TEST(SweepLimitsTest, AscendUpToTheLargestWhateverThatIs) {
  for (const int64_t largest :
       {int64_t{9}, int64_t{99}, int64_t{256}, int64_t{1'000'001},
        std::numeric_limits<int64_t>::max()}) {
    for (const int count : {2, 3, 16, 256}) {
      const std::vector<int64_t> limits = SweepLimits(largest, count);
      EXPECT_EQ(limits.back(), largest);
      EXPECT_GE(limits.front(), 1);
      for (size_t i = 1; i < limits.size(); ++i) {
        EXPECT_LT(limits[i - 1], limits[i]);
      }
    }
  }
}

TEST(SampledLimitsTest, CachesTellOfAllLimitsTogether) {
  EXPECT_THAT(SampledLimits(51'200, 3), ElementsAre(200, 1'600, 12'800));
  EXPECT_THAT(SampledLimits(60, 3), ElementsAre(1, 15));
  EXPECT_THAT(SampledLimits(1, 3), ElementsAre(1));
}

}  // namespace
}  // namespace wheelcache::replay
