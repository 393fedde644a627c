// Counts latencies in buckets whose width grows with the latency, so that
// percentiles of nanoseconds and of seconds come from one small table.
//
//   LatencyHistogram histogram;
//   histogram.Record(nanos);
//   int64_t p99 = histogram.Percentile(99);
//
// Guarantees: a percentile is never below the true one of what was recorded,
// and above it by at most 1/32.
//
// Threads: thread-compatible. Give each thread one of its own and Merge them.
//
// Cost: 15 KiB; Record is a few instructions.

#ifndef WHEELCACHE_EXAMPLES_REPLAY_LATENCY_HISTOGRAM_H_
#define WHEELCACHE_EXAMPLES_REPLAY_LATENCY_HISTOGRAM_H_

#include <array>
#include <cstdint>

#include "absl/numeric/bits.h"

namespace wheelcache {
namespace replay {

class LatencyHistogram {
 public:
  // A negative latency counts as 0.
  void Record(int64_t nanos) {
    const uint64_t latency = nanos < 0 ? 0 : static_cast<uint64_t>(nanos);
    ++buckets_[BucketOf(latency)];
    ++count_;
    if (latency > max_) max_ = latency;
  }

  void Merge(const LatencyHistogram& other);

  // Returns the latency in nanoseconds that `percent` of the recorded ones do
  // not exceed; 0 if nothing was recorded. REQUIRES: 0 < percent <= 100.
  int64_t Percentile(double percent) const;

  int64_t count() const { return count_; }

 private:
  // Each power of two is divided into this many buckets of equal width.
  static constexpr int kDivisionBits = 5;
  static constexpr int kDivisions = 1 << kDivisionBits;
  // One row for all latencies below kDivisions, then one for each further bit
  // of the 63 that a latency has.
  static constexpr int kBuckets = (1 + 63 - kDivisionBits) * kDivisions;

  static int BucketOf(uint64_t latency) {
    if (latency < kDivisions) return static_cast<int>(latency);
    const int shift =
        static_cast<int>(absl::bit_width(latency)) - 1 - kDivisionBits;
    return shift * kDivisions + static_cast<int>(latency >> shift);
  }
  // Returns the largest latency that the bucket counts.
  static uint64_t UpperEdge(int bucket);

  std::array<int64_t, kBuckets> buckets_ = {};
  int64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_EXAMPLES_REPLAY_LATENCY_HISTOGRAM_H_
