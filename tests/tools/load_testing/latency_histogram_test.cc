// Percentiles against those of the sorted latencies.

#include "wheelcache/tools/load_testing/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::load_testing {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(LatencyHistogramTest, EmptyHistogramHasPercentilesOfZero) {
  EXPECT_EQ(LatencyHistogram().count(), 0);
  EXPECT_EQ(LatencyHistogram().max(), 0);
  EXPECT_EQ(LatencyHistogram().Percentile(99), 0);
}

TEST(LatencyHistogramTest, SingleLatencyIsEveryPercentile) {
  for (const int64_t nanos : {int64_t{0}, int64_t{127}, int64_t{128},
                              int64_t{1'000'003}, kMax - 1, kMax}) {
    LatencyHistogram histogram;
    histogram.Record(nanos);
    EXPECT_EQ(histogram.Percentile(0.1), nanos);
    EXPECT_EQ(histogram.Percentile(100), nanos);
    EXPECT_EQ(histogram.max(), nanos);
  }
}

TEST(LatencyHistogramTest, NegativeLatencyCountsAsZero) {
  LatencyHistogram histogram;
  histogram.Record(-5);
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.Percentile(50), 0);
}

TEST(LatencyHistogramTest, PercentileIsTheSmallestThatEnoughDoNotExceed) {
  LatencyHistogram histogram;
  for (int64_t nanos = 1; nanos <= 10; ++nanos) histogram.Record(nanos);
  EXPECT_EQ(histogram.Percentile(10), 1);
  EXPECT_EQ(histogram.Percentile(10.1), 2);
  EXPECT_EQ(histogram.Percentile(50), 5);
  EXPECT_EQ(histogram.Percentile(100), 10);
}

TEST(LatencyHistogramTest, ShortLatenciesAreExact) {
  LatencyHistogram histogram;
  for (int64_t nanos = 1; nanos <= 100; ++nanos) histogram.Record(nanos);
  for (const int percent : {1, 50, 99, 100}) {
    EXPECT_EQ(histogram.Percentile(percent), percent);
  }
}

TEST(LatencyHistogramTest, EveryLatencyIsAtMost64thBelowItsPercentile) {
  for (int64_t nanos = 1; nanos < kMax / 2; nanos += nanos / 8 + 1) {
    LatencyHistogram histogram;
    histogram.Record(nanos);
    histogram.Record(kMax);
    EXPECT_GE(histogram.Percentile(50), nanos);
    EXPECT_LE(histogram.Percentile(50) - nanos, nanos / 64);
  }
}

TEST(LatencyHistogramTest, PercentileIsNeverBelowTheTrueOneAndAtMost64thAbove) {
  std::mt19937_64 random(7);
  for (const double spread : {1.0, 3.0, 9.0}) {
    LatencyHistogram histogram;
    std::vector<int64_t> sorted;
    std::lognormal_distribution<double> latency(5, spread);
    for (int i = 0; i < 10'000; ++i) {
      sorted.push_back(static_cast<int64_t>(std::min(latency(random), 1e18)));
      histogram.Record(sorted.back());
    }
    std::sort(sorted.begin(), sorted.end());
    for (const double percent : {0.01, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9}) {
      const auto rank = static_cast<size_t>(std::ceil(10'000 * percent / 100));
      const int64_t truth = sorted[rank - 1];
      EXPECT_GE(histogram.Percentile(percent), truth) << percent;
      EXPECT_LE(histogram.Percentile(percent), truth + truth / 64) << percent;
    }
    EXPECT_EQ(histogram.max(), sorted.back());
  }
}

TEST(LatencyHistogramTest, MergedHistogramsAreOneOfAllLatencies) {
  LatencyHistogram even, odd, all;
  for (int64_t nanos = 0; nanos < 5'000; ++nanos) {
    (nanos % 2 == 0 ? even : odd).Record(nanos * nanos);
    all.Record(nanos * nanos);
  }
  even.Merge(odd);
  EXPECT_EQ(even.count(), all.count());
  EXPECT_EQ(even.max(), all.max());
  for (const double percent : {1.0, 50.0, 99.0, 100.0}) {
    EXPECT_EQ(even.Percentile(percent), all.Percentile(percent));
  }
}

}  // namespace
}  // namespace wheelcache::load_testing
