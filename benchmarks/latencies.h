// Counts how long operations took, and tells percentiles.
//
//   Latencies latencies;
//   latencies.Record(/*nanos=*/180);
//   latencies.Merge(of_another_thread);
//   double nanos = latencies.Percentile(99.9);
//
// A percentile is exact to 1/64, the maximum wholly. Takes the same few
// kilobytes for any number of operations, so that to record one disturbs
// little.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_BENCHMARKS_LATENCIES_H_
#define WHEELCACHE_BENCHMARKS_LATENCIES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/numeric/bits.h"

namespace wheelcache::benchmarks {

class Latencies {
 public:
  void Record(uint64_t nanos) {
    ++counts_[BucketOf(nanos)];
    ++count_;
    max_ = std::max(max_, nanos);
  }

  void Merge(const Latencies& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }

  // Returns the length that `percent` of the operations did not exceed; 0 if
  // there was none.
  uint64_t Percentile(double percent) const {
    const auto rank = static_cast<uint64_t>(
        std::ceil(static_cast<double>(count_) * percent / 100));
    uint64_t passed = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      passed += counts_[i];
      if (passed >= rank) return std::min(LongestIn(i), max_);
    }
    return max_;
  }

 private:
  // Each power of two is divided into 64 buckets.
  static constexpr int kDivisionBits = 6;
  static constexpr size_t kDivisions = size_t{1} << kDivisionBits;
  static constexpr size_t kBuckets = (64 - kDivisionBits + 1) * kDivisions;

  // How many of the lower bits a bucket does not tell apart.
  static int LostBits(uint64_t nanos) {
    return std::max(
        0, static_cast<int>(absl::bit_width(nanos)) - (kDivisionBits + 1));
  }

  static size_t BucketOf(uint64_t nanos) {
    const int lost = LostBits(nanos);
    return lost * kDivisions + (nanos >> lost);
  }

  static uint64_t LongestIn(size_t bucket) {
    if (bucket < 2 * kDivisions) return bucket;
    const size_t lost = bucket / kDivisions - 1;
    const uint64_t digits = bucket - lost * kDivisions;
    return ((digits + 1) << lost) - 1;
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_LATENCIES_H_
