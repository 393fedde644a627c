// Percentiles against those of the sorted latencies, and frequencies of many
// samples against the probabilities of the distribution.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/load_testing/zipf_sampler.h"

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

constexpr int kNumbers = 1000;
constexpr int kSamples = 1'000'000;

// Returns how often each number is drawn.
std::vector<int> Counts(const ZipfSampler& sampler) {
  std::mt19937_64 random(/*seed=*/1);
  std::vector<int> counts(kNumbers);
  for (int i = 0; i < kSamples; ++i) ++counts[sampler.Sample(random())];
  return counts;
}

std::vector<int> MostFrequentFirst(std::vector<int> counts) {
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

// `counts` starts with the most popular number.
void ExpectZipf(const std::vector<int>& counts, double skew) {
  double sum = 0;
  for (int k = 1; k <= kNumbers; ++k) sum += std::pow(k, -skew);
  for (const int k : {1, 2, 3, 10, 30, 100, 300}) {
    const double expected = kSamples * std::pow(k, -skew) / sum;
    EXPECT_NEAR(counts[k - 1], expected, 5 * std::sqrt(expected)) << k;
  }
}

TEST(ZipfSamplerTest, DrawsTheKthMostPopularInProportionToItsPower) {
  for (const double skew : {0.5, 0.99, 1.1}) {
    ExpectZipf(MostFrequentFirst(Counts(ZipfSampler(kNumbers, skew))), skew);
  }
}

TEST(ZipfSamplerTest, SmallNumbersAreThePopularOnesInOrderOfNumber) {
  const ZipfSampler sampler(kNumbers, 1.1, ZipfOrder::kByNumber);
  ExpectZipf(Counts(sampler), 1.1);
}

TEST(ZipfSamplerTest, PopularNumbersAreNotNeighboursByDefault) {
  const std::vector<int> counts = Counts(ZipfSampler(kNumbers, 0.99));
  const auto most = std::max_element(counts.begin(), counts.end());
  const int second = MostFrequentFirst(counts)[1];
  EXPECT_NE(most, counts.begin());
  EXPECT_GT(std::abs(std::find(counts.begin(), counts.end(), second) - most),
            1);
}

TEST(ZipfSamplerTest, DrawsAllAlikeWithoutSkew) {
  constexpr double kExpected = 1.0 * kSamples / kNumbers;
  const std::vector<int> counts =
      MostFrequentFirst(Counts(ZipfSampler(kNumbers, 0)));
  EXPECT_LT(counts.front(), kExpected + 6 * std::sqrt(kExpected));
  EXPECT_GT(counts.back(), kExpected - 6 * std::sqrt(kExpected));
}

TEST(ZipfSamplerTest, SingleNumberIsAlwaysDrawn) {
  const ZipfSampler sampler(1, 0.99);
  EXPECT_EQ(sampler.Sample(0), 0);
  EXPECT_EQ(sampler.Sample(~uint64_t{0}), 0);
}

}  // namespace
}  // namespace wheelcache::load_testing
