// Decides when a hit has to move its entry to the front of the LRU list, and
// tells which shard's list ends with the entry that is longest unused.
//
// A cache counts the moves to the front. An entry bears the count of its last
// move as its stamp. One whose stamp is among the newest is near the front
// already: it is young, and a hit leaves it where it is, so that hits on what
// is used most write nothing. What may be given up is a little of the order
// among young entries, which are far from being evicted. In exact mode only the
// entry at the very front is young.
//
// The shards of a cache share one count, so that stamps can be compared: the
// one whose last entry has the oldest stamp is the one to evict from.
//
// Threads. UseClock is thread-safe. Of Recency, IsYoung is for all, the rest
// for whoever holds the shard's lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_RECENCY_H_
#define WHEELCACHE_CACHE_INTERNAL_RECENCY_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"

namespace wheelcache {
namespace internal {

// A count of moves to the front. Counts wrap around, and are compared by their
// difference: what was not moved for two billion moves may be taken for young.
using Stamp = uint32_t;

inline bool IsOlderBy(Stamp a, Stamp b, int64_t moves) {
  return static_cast<int32_t>(b - a) > moves;
}

// What the shards of a cache share.
class UseClock {
 public:
  explicit UseClock(int shards) : tails_(shards) {}

  Stamp Now() const { return now_.load(std::memory_order_relaxed); }
  void Advance(uint32_t moves) {
    now_.fetch_add(moves, std::memory_order_relaxed);
  }

  // The stamp of the last entry of a shard's list, when its lock was last held
  // to evict; Now() of that time if the list was empty.
  Stamp tail(int shard) const {
    return tails_[shard].load(std::memory_order_relaxed);
  }
  void set_tail(int shard, Stamp stamp) {
    tails_[shard].store(stamp, std::memory_order_relaxed);
  }

 private:
  // All relaxed, youth_ below as well: they decide which entry is moved or goes
  // first, never what is there.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<Stamp> now_{0};
  alignas(ABSL_CACHELINE_SIZE) std::vector<std::atomic<Stamp>> tails_;
};

// What each shard has.
class Recency {
 public:
  Recency(UseClock* clock, bool exact)
      : clock_(*clock), stride_(exact ? 1 : kStride) {}

  Recency(const Recency&) = delete;
  Recency& operator=(const Recency&) = delete;

  // Whether an entry with this stamp need not be moved.
  bool IsYoung(Stamp stamp) const {
    return !IsOlderBy(stamp, clock_.Now(),
                      youth_.load(std::memory_order_relaxed) - 1);
  }

  // The stamp of an entry that is moved to the front now, in a cache of
  // `entries`.
  Stamp NextStamp(int64_t entries) {
    if (++moves_ >= stride_) {
      clock_.Advance(moves_);
      moves_ = 0;
      if (stride_ > 1) SetYouth(entries);
    }
    return clock_.Now();
  }

  // By how many moves another shard's last entry has to be older than this
  // one's to be the better victim.
  int64_t Margin() const {
    return youth_.load(std::memory_order_relaxed) / 8 + stride_;
  }

 private:
  // A shard counts so many moves at a time, so that not each takes the cache
  // line of the count away from all who read it.
  static constexpr uint32_t kStride = 16;

  // An entry is young until half the cache has been moved before it.
  void SetYouth(int64_t entries) {
    youth_.store(std::clamp<int64_t>(entries / 2, 1, int64_t{1} << 30),
                 std::memory_order_relaxed);
  }

  UseClock& clock_;
  const uint32_t stride_;
  uint32_t moves_ = 0;  // Not counted yet.
  std::atomic<int64_t> youth_{1};
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_RECENCY_H_
