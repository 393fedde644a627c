// Frequencies of many samples against the probabilities of the distribution.

#include "wheelcache/tools/load_testing/zipf_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::load_testing {
namespace {

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
