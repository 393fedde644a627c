// Counts of local hits, striped by thread: no contention, and no atomic
// read-modify-write on a thread's own stripe.
//
// Threads. Thread-safe. A sum that is taken while other threads count is not of
// one instant.

#ifndef WHEELCACHE_CACHE_NEAR_HIT_COUNTERS_H_
#define WHEELCACHE_CACHE_NEAR_HIT_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_index.h"

namespace wheelcache::internal {

class HitCounters {
 public:
  // Counts a hit on a value, or on the knowledge that there is none.
  void Add(bool has_value) {
    const size_t thread = ThreadIndex();
    const size_t kind = has_value ? 1 : 0;
    if (ABSL_PREDICT_TRUE(thread < kOwnStripes)) {
      // The only writer: nothing can come between load and store.
      std::atomic<int64_t>& count = stripes_[thread].counts[kind];
      count.store(count.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    } else {
      stripes_[kOwnStripes].counts[kind].fetch_add(1,
                                                   std::memory_order_relaxed);
    }
  }

  int64_t Sum(bool has_value) const {
    int64_t sum = 0;
    for (const Stripe& stripe : stripes_) {
      sum += stripe.counts[has_value ? 1 : 0].load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  // Threads with a greater number share one stripe.
  static constexpr size_t kOwnStripes = 31;

  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    std::atomic<int64_t> counts[2] = {};
  };

  std::array<Stripe, kOwnStripes + 1> stripes_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_HIT_COUNTERS_H_
