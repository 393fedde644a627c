#include "wheelcache/tools/load_testing/zipf_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace wheelcache::load_testing {
namespace {

// Returns how often `size` samples draw each number on average.
std::vector<double> ExpectedCounts(int64_t size, double skew, ZipfOrder order) {
  std::vector<double> counts(size);
  for (int64_t i = 0; i < size; ++i) {
    counts[i] = std::pow(static_cast<double>(i + 1), -skew);
  }
  // The small ones first, so that none is lost to rounding.
  const double sum = std::accumulate(counts.rbegin(), counts.rend(), 0.0);
  for (double& count : counts) count *= static_cast<double>(size) / sum;
  if (order == ZipfOrder::kShuffled) {
    std::shuffle(counts.begin(), counts.end(), std::mt19937_64(/*seed=*/1));
  }
  return counts;
}

}  // namespace

ZipfSampler::ZipfSampler(int64_t size, double skew, ZipfOrder order)
    : columns_(size) {
  constexpr uint32_t kAlways = std::numeric_limits<uint32_t>::max();
  std::vector<double> left = ExpectedCounts(size, skew, order);
  std::vector<uint32_t> rare;
  std::vector<uint32_t> frequent;
  for (uint32_t i = 0; i < left.size(); ++i) {
    columns_[i] = {kAlways, i};
    (left[i] < 1 ? rare : frequent).push_back(i);
  }
  while (!rare.empty() && !frequent.empty()) {
    const uint32_t filled = rare.back();
    const uint32_t filler = frequent.back();
    rare.pop_back();
    columns_[filled] = {static_cast<uint32_t>(left[filled] * kAlways), filler};
    left[filler] -= 1 - left[filled];
    if (left[filler] < 1) {
      frequent.pop_back();
      rare.push_back(filler);
    }
  }
}

}  // namespace wheelcache::load_testing
