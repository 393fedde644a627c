#include "wheelcache/benchmarks/zipf.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::benchmarks {
namespace {

constexpr int kNumbers = 1000;
constexpr int kSamples = 1'000'000;

// How often each number is drawn, the most frequent first.
std::vector<int> SortedCounts(const ZipfSampler& sampler) {
  std::mt19937_64 random(/*seed=*/1);
  std::vector<int> counts(kNumbers);
  for (int i = 0; i < kSamples; ++i) ++counts[sampler.Sample(random())];
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

TEST(ZipfSamplerTest, DrawsTheKthMostPopularInProportionToItsPower) {
  constexpr double kSkew = 0.99;
  double sum = 0;
  for (int k = 1; k <= kNumbers; ++k) sum += std::pow(k, -kSkew);
  const std::vector<int> counts = SortedCounts(ZipfSampler(kNumbers, kSkew));
  for (const int k : {1, 2, 3, 10, 30, 100, 300}) {
    const double expected = kSamples * std::pow(k, -kSkew) / sum;
    EXPECT_NEAR(counts[k - 1], expected, 5 * std::sqrt(expected)) << k;
  }
}

TEST(ZipfSamplerTest, DrawsAllAlikeWithoutSkew) {
  constexpr double kExpected = 1.0 * kSamples / kNumbers;
  const std::vector<int> counts = SortedCounts(ZipfSampler(kNumbers, 0));
  EXPECT_LT(counts.front(), kExpected + 6 * std::sqrt(kExpected));
  EXPECT_GT(counts.back(), kExpected - 6 * std::sqrt(kExpected));
}

}  // namespace
}  // namespace wheelcache::benchmarks
