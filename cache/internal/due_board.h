// When each shard of a cache next has something to reclaim.
//
// A shard writes its own cell, under its lock, whenever its wheel's next
// wake-up changes; everybody reads without a lock, to learn whether a visit
// would find anything, and when the next one will.
//
// Threads. Thread-safe; each cell has one writer at a time.

#ifndef WHEELCACHE_CACHE_INTERNAL_DUE_BOARD_H_
#define WHEELCACHE_CACHE_INTERNAL_DUE_BOARD_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace internal {

class DueBoard {
 public:
  explicit DueBoard(int shards) : due_nanos_(shards) {
    for (Cell& cell : due_nanos_) {
      cell.store(Clock::kNever, std::memory_order_relaxed);
    }
  }

  int64_t Get(int shard) const {
    return due_nanos_[shard].load(std::memory_order_relaxed);
  }
  void Set(int shard, int64_t nanos) {
    due_nanos_[shard].store(nanos, std::memory_order_relaxed);
  }

  // The earliest of all shards. O(shards).
  int64_t Earliest() const {
    int64_t earliest = Clock::kNever;
    for (const Cell& cell : due_nanos_) {
      earliest = std::min(earliest, cell.load(std::memory_order_relaxed));
    }
    return earliest;
  }

 private:
  // Relaxed: a hint for whom to visit. What decides stands under the lock of
  // the shard.
  using Cell = std::atomic<int64_t>;

  // Close together: Earliest reads them all.
  std::vector<Cell> due_nanos_;
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_DUE_BOARD_H_
