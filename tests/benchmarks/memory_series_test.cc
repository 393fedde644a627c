// Which samples of the memory the benchmarks report.

#include "wheelcache/benchmarks/memory_series.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

using ::testing::ElementsAre;

TEST(MemorySeriesTest, KnowsTheWorstAndWhereItWasFirst) {
  MemorySeries series(/*length=*/9, /*parts=*/3);
  EXPECT_EQ(series.worst(), 0);
  series.Add(1, 0.5);
  series.Add(4, 1.25);
  series.Add(5, 1.25);
  series.Add(8, 1);
  EXPECT_EQ(series.worst(), 1.25);
  EXPECT_EQ(series.worst_at(), 4);
}

TEST(MemorySeriesTest, HasTheLargestOfEachPart) {
  MemorySeries series(/*length=*/9, /*parts=*/3);
  series.Add(0, 0.25);
  series.Add(2.9, 0.75);
  series.Add(3, 1.25);
  series.Add(4, 1);
  series.Add(8.9, 0.5);
  EXPECT_THAT(series.parts(), ElementsAre(0.75, 1.25, 0.5));
}

TEST(MemorySeriesTest, APartWithoutASampleIsAsThePartBefore) {
  MemorySeries series(/*length=*/4, /*parts=*/4);
  series.Add(1, 0.75);
  series.Add(3, 0.5);
  EXPECT_THAT(series.parts(), ElementsAre(0, 0.75, 0.75, 0.5));
}

TEST(MemorySeriesTest, WhatIsBeyondTheEndCountsForTheLastPart) {
  MemorySeries series(/*length=*/4, /*parts=*/2);
  series.Add(1, 0.5);
  series.Add(4, 1);
  series.Add(4.1, 1.5);
  EXPECT_THAT(series.parts(), ElementsAre(0.5, 1.5));
}

}  // namespace
}  // namespace wheelcache::benchmarks
