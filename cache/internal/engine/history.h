// The latest samples of a cache's reads, from which the status page draws the
// hit ratio over time.
//
// No thread takes samples: whoever looks at the statistics leaves one, at most
// one in kSpacing. The oldest make way for new ones.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_HISTORY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_HISTORY_H_

#include <array>
#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache::internal {

class History {
 public:
  // Half an hour of a Prometheus that looks every 15 seconds.
  static constexpr size_t kMostSamples = 120;
  static constexpr absl::Duration kSpacing = absl::Seconds(5);

  // Adds a sample, unless the last one is of less than kSpacing before.
  void Add(const CacheSample& sample) {
    if (size_ > 0 && sample.time < At(size_ - 1).time + kSpacing) return;
    samples_[(first_ + size_) % kMostSamples] = sample;
    if (size_ < kMostSamples) {
      ++size_;
    } else {
      first_ = (first_ + 1) % kMostSamples;
    }
  }

  // The samples, the oldest first.
  std::vector<CacheSample> All() const {
    std::vector<CacheSample> all;
    all.reserve(size_);
    for (size_t i = 0; i < size_; ++i) all.push_back(At(i));
    return all;
  }

 private:
  const CacheSample& At(size_t i) const {
    return samples_[(first_ + i) % kMostSamples];
  }

  size_t first_ = 0;
  size_t size_ = 0;
  std::array<CacheSample, kMostSamples> samples_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_HISTORY_H_
