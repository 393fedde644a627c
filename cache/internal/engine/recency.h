// Decides what a hit has to record for the order of eviction: one store, if the
// entry was not used in the present generation of its list
// (lru/generational_list.h), and else nothing.
//
// An entry bears as its stamp the number of the generation of its last use.
// Hits compare it with that of the present one, which changes once in a 16th as
// many appends as the list has entries, so that all cores can have it. A list
// whose entries are used and hardly ever appended would never begin another
// generation: one in 64 recorded uses is counted, for the list to take up.
//
// In exact mode only the entry at the very front is young, and each hit on
// another one moves it there at once, unless the lock is taken: then it gives a
// stamp, too.
//
// Marks. An Advisor has to see the hits on sampled keys. The lowest bit of
// their entries' stamps is set, so that none equals the present number, and the
// comparison that every hit makes takes them off the inlined path.
//
// Threads. Count and what is const are for all; the rest is for whoever holds
// the shard's lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/index/key_hash.h"

namespace wheelcache::internal {

// The number of a generation, a multiple of four; whether that is one of the
// main list, in the second bit; a mark in the lowest.
using Stamp = uint32_t;
inline constexpr Stamp kStampStep = 4;
inline constexpr Stamp kMark = 1;
inline constexpr Stamp kOfMain = 2;

inline bool IsMarked(Stamp stamp) { return (stamp & kMark) != 0; }

// Which list an entry is in: the only one, or the window and the main list of a
// scan-resistant order.
enum ListId : uint32_t { kOnlyList = 0, kWindow = 0, kMain = 1 };

class Recency {
 public:
  // One list, in the order of the stamps at its tail or always; or two.
  enum class Order { kLazy, kExact, kTwoLists };

  // `marks` says whether stamps may be marked.
  explicit Recency(Order order, bool marks = false)
      : exact_(order == Order::kExact),
        plain_(order == Order::kLazy && !marks) {}

  Recency(const Recency&) = delete;
  Recency& operator=(const Recency&) = delete;

  bool exact() const { return exact_; }

  // Whether every use is one store at most.
  bool plain() const { return plain_; }

  // The stamp of an entry of the list that is used now. A use of one that bears
  // it already need not be recorded.
  Stamp Now(ListId list) const {
    return now_[list].load(std::memory_order_relaxed);
  }
  void SetNow(ListId list, uint32_t number) {
    now_[list].store(number | (list == kMain ? kOfMain : 0),
                     std::memory_order_relaxed);
  }

 private:
  const bool exact_;
  const bool plain_;
  // All relaxed: they decide which entry is moved or goes first, never what is
  // there.
  std::array<std::atomic<Stamp>, 2> now_ = {0, kOfMain};
};

// The uses that were recorded, some of them. Away from Recency, which each hit
// reads.
class UseCount {
 public:
  // Counts that the use of an entry with this hash was recorded.
  void Count(Hash32 hash) {
    if (hash % kSample == 0) sampled_.fetch_add(1, std::memory_order_relaxed);
  }
  // About how many were since this was called last.
  uint32_t Take() {
    if (sampled_.load(std::memory_order_relaxed) == 0) return 0;
    return sampled_.exchange(0, std::memory_order_relaxed) * kSample;
  }

 private:
  static constexpr Hash32 kSample = 64;

  std::atomic<uint32_t> sampled_{0};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_RECENCY_H_
