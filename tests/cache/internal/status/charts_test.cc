#include "wheelcache/cache/internal/status/charts.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/histogram.h"

namespace wheelcache::internal {
namespace {

using ::testing::HasSubstr;

TEST(ChartsTest, PartOfALifeIsLabelledInPercent) {
  constexpr double kTenths[] = {0.1, 0.2, 0.3, 0.4, 0.5,
                                0.6, 0.7, 0.8, 0.9, 1.0};
  Histogram left;
  left.bounds = kTenths;
  left.counts[2] = 7;
  const std::string chart = ShareChart(left);
  for (const char* label : {">20 %<", ">40 %<", ">60 %<", ">80 %<"}) {
    EXPECT_THAT(chart, HasSubstr(label));
  }
  EXPECT_THAT(chart, HasSubstr("20.0 % to 30.0 %: 7"));
}

}  // namespace
}  // namespace wheelcache::internal
