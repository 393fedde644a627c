#include "wheelcache/tools/load_testing/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace wheelcache::load_testing {

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

int64_t LatencyHistogram::Percentile(double percent) const {
  const auto rank = static_cast<int64_t>(
      std::ceil(static_cast<double>(count_) * percent / 100));
  int64_t counted = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    counted += counts_[i];
    if (counted >= rank) return std::min(UpperEdge(i), max_);
  }
  return max_;
}

int64_t LatencyHistogram::UpperEdge(size_t bucket) {
  if (bucket < 2 * kDivisions) return static_cast<int64_t>(bucket);
  const size_t ignored = bucket / kDivisions - 1;
  const uint64_t digits = bucket - ignored * kDivisions;
  return static_cast<int64_t>(((digits + 1) << ignored) - 1);
}

}  // namespace wheelcache::load_testing
