// How much of each shard the window of a scan-resistant order may take: one
// number for all shards of a cache. It depends on the requests, which are the
// same mixture in each shard, and a shard of a hundred entries sees too few of
// them come back to find it out alone.
//
// Threads. Thread-safe. Of two moves at the same time one may be lost: it is
// one of many.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_WINDOW_TARGET_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_WINDOW_TARGET_H_

#include <algorithm>
#include <atomic>

#include "absl/base/optimization.h"

namespace wheelcache::internal {

class WindowTarget {
 public:
  // As a part of a shard.
  static constexpr double kLeast = 0.05;
  static constexpr double kMost = 0.99;

  explicit WindowTarget(int shards) : shards_(shards) {}

  double Get() const { return part_.load(std::memory_order_relaxed); }

  void Set(double part) {
    part_.store(std::clamp(part, kLeast, kMost), std::memory_order_relaxed);
  }

  // Moves it by `steps` entries of the cache, for a key that came back to a
  // shard into which `entries` fit. One key counts for no more than a fiftieth
  // of the shard and an entry.
  void Move(double steps, double entries) {
    constexpr double kMostStep = 0.02;
    const double most = kMostStep * entries + 1;
    const double by = std::clamp(steps, -most, most) / (entries * shards_);
    Set(Get() + by);
  }

 private:
  const int shards_;
  // Read by each Set of a new key, and written when a ghost comes back.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<double> part_{0.1};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_WINDOW_TARGET_H_
