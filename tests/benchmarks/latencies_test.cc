#include "wheelcache/benchmarks/latencies.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

TEST(LatenciesTest, TellsPercentilesOfShortOnesExactly) {
  Latencies latencies;
  for (uint64_t nanos = 1; nanos <= 100; ++nanos) latencies.Record(nanos);
  EXPECT_EQ(latencies.Percentile(50), 50);
  EXPECT_EQ(latencies.Percentile(99), 99);
  EXPECT_EQ(latencies.Percentile(100), 100);
}

TEST(LatenciesTest, TellsPercentilesOfLongOnesToASixtyFourth) {
  constexpr uint64_t kLongest = uint64_t{1} << 62;
  for (uint64_t nanos = 1; nanos < kLongest; nanos += nanos / 8 + 1) {
    Latencies latencies;
    latencies.Record(nanos);
    latencies.Record(std::numeric_limits<uint64_t>::max());
    EXPECT_GE(latencies.Percentile(50), nanos);
    EXPECT_LE(latencies.Percentile(50) - nanos, nanos / 64);
  }
}

TEST(LatenciesTest, KeepsTheMaximumAsItIs) {
  Latencies latencies;
  latencies.Record(123'456'789);
  EXPECT_EQ(latencies.max(), 123'456'789);
  EXPECT_EQ(latencies.Percentile(99.9), 123'456'789);
}

TEST(LatenciesTest, MergesThoseOfThreads) {
  Latencies mine;
  Latencies others;
  mine.Record(10);
  others.Record(20);
  others.Record(30);
  mine.Merge(others);
  EXPECT_EQ(mine.count(), 3);
  EXPECT_EQ(mine.Percentile(50), 20);
  EXPECT_EQ(mine.max(), 30);
}

TEST(LatenciesTest, OfNothingAreZero) {
  EXPECT_EQ(Latencies().Percentile(99), 0);
  EXPECT_EQ(Latencies().max(), 0);
}

}  // namespace
}  // namespace wheelcache::benchmarks
