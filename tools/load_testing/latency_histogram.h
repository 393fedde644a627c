// Log-linear histogram of latencies: 64 buckets of equal width for each power
// of two, from which percentiles are read.
//
//   LatencyHistogram histogram;
//   histogram.Record(nanos);
//   int64_t p99 = histogram.Percentile(99);
//
// Guarantees: a percentile is never below the true one, and at most 1/64 above
// it. The maximum is exact.
//
// Threads: thread-compatible. Give each thread its own histogram and Merge them
// at the end.
//
// Cost: 29 KiB for any number of latencies; Record takes a few instructions.

#ifndef WHEELCACHE_TOOLS_LOAD_TESTING_LATENCY_HISTOGRAM_H_
#define WHEELCACHE_TOOLS_LOAD_TESTING_LATENCY_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/numeric/bits.h"

namespace wheelcache::load_testing {

class LatencyHistogram {
 public:
  // Counts a latency; a negative one counts as 0.
  void Record(int64_t nanos) {
    const int64_t latency = std::max(nanos, int64_t{0});
    ++counts_[BucketOf(static_cast<uint64_t>(latency))];
    ++count_;
    max_ = std::max(max_, latency);
  }

  // Adds the latencies that `other` has counted.
  void Merge(const LatencyHistogram& other);

  // Returns the nearest-rank percentile in nanoseconds: the least latency that
  // `percent` of the recorded ones do not exceed. Returns 0 if nothing was
  // recorded. REQUIRES: 0 < percent <= 100.
  int64_t Percentile(double percent) const;

  int64_t count() const { return count_; }
  int64_t max() const { return max_; }

 private:
  static constexpr int kDivisionBits = 6;
  static constexpr size_t kDivisions = size_t{1} << kDivisionBits;
  // Latencies below 2 * kDivisions have a bucket each; a row of kDivisions
  // follows for each further bit of the 63 that a latency has.
  static constexpr size_t kBuckets = (63 - kDivisionBits + 1) * kDivisions;

  static size_t BucketOf(uint64_t latency) {
    // The low bits that the bucket ignores.
    const int ignored = std::max(
        0, static_cast<int>(absl::bit_width(latency)) - (kDivisionBits + 1));
    return ignored * kDivisions + (latency >> ignored);
  }
  // Returns the largest latency that the bucket counts.
  static int64_t UpperEdge(size_t bucket);

  std::array<int64_t, kBuckets> counts_ = {};
  int64_t count_ = 0;
  int64_t max_ = 0;
};

}  // namespace wheelcache::load_testing

#endif  // WHEELCACHE_TOOLS_LOAD_TESTING_LATENCY_HISTOGRAM_H_
