// Event counters that threads add to without meeting, and without a locked
// instruction, which would keep the processor from working ahead.
//
// The counts lie in stripes of a cache line each. A thread with a small index
// has a stripe to itself; the others share the last one. A sum reads all.
//
// Threads. Thread-safe. A sum taken while others count is not of one instant.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_index.h"

namespace wheelcache {
namespace internal {

enum class Count {
  kHits,
  kMisses,
  kStamped,  // Hits that gave an entry a new stamp.
  kSets,
  kExpired,  // From here on in the order of RemovalCause.
  kEvicted,
  kDeleted,
  kReplaced,
  kListenerExceptions,
};

class Counters {
 public:
  // Returns what the stripe's count has become.
  int64_t Add(Count what, int64_t amount = 1) {
    const size_t thread = ThreadIndex();
    if (ABSL_PREDICT_FALSE(thread >= kOwnStripes)) {
      return amount + Cell(stripes_[kOwnStripes], what)
                          .fetch_add(amount, std::memory_order_relaxed);
    }
    // The only writer: nothing can come between load and store.
    std::atomic<int64_t>& cell = Cell(stripes_[thread], what);
    const int64_t count = cell.load(std::memory_order_relaxed) + amount;
    cell.store(count, std::memory_order_relaxed);
    return count;
  }

  int64_t Sum(Count what) const {
    int64_t sum = 0;
    for (const Line& line : stripes_) {
      sum += line.counts[static_cast<size_t>(what)].load(
          std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr size_t kOwnStripes = 31;
  static constexpr size_t kCounts =
      static_cast<size_t>(Count::kListenerExceptions) + 1;

  // Relaxed: numbers to look at. A thread that takes over another's index sees
  // its counts; see ThreadIndex().
  struct alignas(ABSL_CACHELINE_SIZE) Line {
    std::array<std::atomic<int64_t>, kCounts> counts = {};
  };

  static std::atomic<int64_t>& Cell(Line& line, Count what) {
    return line.counts[static_cast<size_t>(what)];
  }

  std::array<Line, kOwnStripes + 1> stripes_;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
