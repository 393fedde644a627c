// Decides when a hit has to move its entry to the front of the LRU list.
//
// A shard counts the moves to the front; an entry bears the count of its last
// one as its stamp. An entry whose stamp is among the newest is near the front
// already: it is young, and a hit leaves it where it is, so that hits on what
// is used most write nothing. What may be given up is a little of the order
// among young entries, which are far from being evicted. In exact mode only the
// entry at the very front is young.
//
// Readers see the count a little late, so that their copy of its cache line is
// not taken from them at each move.
//
// Threads. NextStamp is for whoever holds the shard's lock, IsYoung for all.

#ifndef WHEELCACHE_CACHE_INTERNAL_RECENCY_H_
#define WHEELCACHE_CACHE_INTERNAL_RECENCY_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace wheelcache {
namespace internal {

class Recency {
 public:
  explicit Recency(bool exact) : exact_(exact) {}

  Recency(const Recency&) = delete;
  Recency& operator=(const Recency&) = delete;

  // Whether an entry with this stamp need not be moved. Stamps may wrap around;
  // an entry that is taken for young by that is so once in four billion moves.
  bool IsYoung(uint32_t stamp) const {
    const uint32_t age = shown_.load(std::memory_order_relaxed) - stamp;
    // A stamp ahead of what is shown is newer still.
    return static_cast<int32_t>(age) <
           static_cast<int32_t>(youth_.load(std::memory_order_relaxed));
  }

  // The stamp of an entry that is moved to the front now, in a list of
  // `entries`.
  uint32_t NextStamp(size_t entries) {
    ++count_;
    if (count_ - shown_.load(std::memory_order_relaxed) >= stride_) {
      Show(entries);
    }
    return count_;
  }

 private:
  // An entry is young until a quarter of the list has passed it. Half would
  // save moves, and costs half a point of the hit ratio on a real trace.
  static constexpr size_t kYoungFraction = 4;
  static constexpr size_t kMostYouth = size_t{1} << 30;

  void Show(size_t entries) {
    if (!exact_) {
      const size_t youth =
          std::clamp<size_t>(entries / kYoungFraction, 1, kMostYouth);
      youth_.store(static_cast<uint32_t>(youth), std::memory_order_relaxed);
      stride_ = static_cast<uint32_t>(std::max<size_t>(youth / 16, 1));
    }
    shown_.store(count_, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> shown_{0};
  std::atomic<uint32_t> youth_{1};

  const bool exact_;
  uint32_t count_ = 0;
  uint32_t stride_ = 1;  // How far the count runs ahead of what is shown.
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_RECENCY_H_
