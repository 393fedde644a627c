#include "wheelcache/examples/replay/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace wheelcache {
namespace replay {

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (int i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

int64_t LatencyHistogram::Percentile(double percent) const {
  const auto rank = static_cast<int64_t>(
      std::ceil(percent / 100 * static_cast<double>(count_)));
  int64_t below = 0;
  for (int i = 0; i < kBuckets; ++i) {
    below += buckets_[i];
    if (below >= rank && below > 0) {
      return static_cast<int64_t>(std::min(UpperEdge(i), max_));
    }
  }
  return 0;
}

uint64_t LatencyHistogram::UpperEdge(int bucket) {
  if (bucket < kDivisions) return bucket;
  const int shift = bucket / kDivisions - 1;
  const uint64_t division = bucket % kDivisions + kDivisions;
  return ((division + 1) << shift) - 1;
}

}  // namespace replay
}  // namespace wheelcache
