// Event counters that threads add to without meeting.
//
// The counts lie in stripes of a cache line each; a thread keeps to one. A sum
// reads all stripes.
//
// Threads. Thread-safe. A sum taken while others count is not of one instant.

#ifndef WHEELCACHE_CACHE_INTERNAL_COUNTERS_H_
#define WHEELCACHE_CACHE_INTERNAL_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/thread_index.h"

namespace wheelcache {
namespace internal {

enum class Count {
  kHits,
  kMisses,
  kSets,
  kExpired,  // From here on in the order of RemovalCause.
  kEvicted,
  kDeleted,
  kReplaced,
  kListenerExceptions,
};

class Counters {
 public:
  void Add(Count what, int64_t amount = 1) {
    Cell(stripes_[ThreadIndex() % kStripes], what)
        .fetch_add(amount, std::memory_order_relaxed);
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
  static constexpr size_t kStripes = 16;
  static constexpr size_t kCounts = 8;

  struct alignas(ABSL_CACHELINE_SIZE) Line {
    std::array<std::atomic<int64_t>, kCounts> counts = {};
  };

  static std::atomic<int64_t>& Cell(Line& line, Count what) {
    return line.counts[static_cast<size_t>(what)];
  }

  std::array<Line, kStripes> stripes_;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_COUNTERS_H_
