// When each shard of a cache next has something to reclaim.
//
// A shard writes its own cell, under its lock, whenever its wheel's next
// wake-up changes; everybody reads without a lock, to learn whether a visit
// would find anything, and when the next one will.
//
// Next to the cells stands a lower bound of them all, so that those who ask
// only whether anything is due read one number as long as nothing is. Who finds
// it passed looks at the cells, and raises it.
//
// Threads. Thread-safe; each cell has one writer at a time.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_DUE_BOARD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_DUE_BOARD_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class DueBoard {
 public:
  explicit DueBoard(int shards) : due_nanos_(static_cast<size_t>(shards)) {
    for (Cell& cell : due_nanos_) {
      cell.store(Clock::kNever, std::memory_order_relaxed);
    }
  }

  int64_t Get(int shard) const {
    return due_nanos_[static_cast<size_t>(shard)].load(
        std::memory_order_relaxed);
  }
  void Set(int shard, int64_t nanos) {
    due_nanos_[static_cast<size_t>(shard)].store(nanos,
                                                 std::memory_order_seq_cst);
    LowerBoundTo(nanos);
  }

  // The earliest of all shards. O(shards).
  int64_t Earliest() const {
    int64_t earliest = Clock::kNever;
    for (const Cell& cell : due_nanos_) {
      earliest = std::min(earliest, cell.load(std::memory_order_seq_cst));
    }
    return earliest;
  }

  // Whether anything is due in any shard. O(1) as long as nothing is.
  bool AnyDue(int64_t now_nanos) {
    int64_t bound = bound_.load(std::memory_order_relaxed);
    if (bound > now_nanos) return false;
    const int64_t earliest = Earliest();
    if (earliest <= now_nanos) return true;
    Interleave("due board: between the look and the bound");
    if (bound_.compare_exchange_strong(bound, earliest,
                                       std::memory_order_seq_cst)) {
      LowerBoundTo(Earliest());
    }
    return false;
  }

 private:
  using Cell = std::atomic<int64_t>;

  void LowerBoundTo(int64_t nanos) {
    int64_t bound = bound_.load(std::memory_order_seq_cst);
    while (nanos < bound && !bound_.compare_exchange_weak(
                                bound, nanos, std::memory_order_seq_cst)) {
    }
  }

  // Both are hints for whom to visit; what decides stands under the lock of
  // the shard. Sequentially consistent where the bound must not be lost: who
  // raises it looks at the cells once more, and who changes a cell looks at the
  // bound after that, so that one of the two sees the other.
  //
  // Close together: Earliest reads them all.
  std::vector<Cell> due_nanos_;
  alignas(ABSL_CACHELINE_SIZE) std::atomic<int64_t> bound_{Clock::kNever};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_DUE_BOARD_H_
