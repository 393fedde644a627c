// A RemovalOrder that prefetches the cache lines its next steps will touch, so
// that they come from memory while the shard does something else.
//
// Each method does what RemovalOrder says; prefetching changes no result. The
// neighbours of an entry in list and wheel lie anywhere in memory, and each of
// their lines is a cache miss of 100 ns or so: what is asked for together
// arrives together.
//
// Set. The neighbours of the entry that a Set replaces are prefetched as soon
// as that is found. Lines come to the core of the thread that asks: if another
// thread did the Set before, they are prefetched again for this one.
//
// Eviction. Each one prefetches what the next one will touch. That entry itself
// came as the neighbour of the one before. Where there are two lists, both have
// an entry that may be next.
//
// Expiry. An entry is handed out a few timers after its own has fired.
//
// Threads. As RemovalOrder.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_PREFETCHED_ORDER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_PREFETCHED_ORDER_H_

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/engine/removal_order.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

// Hides the methods of RemovalOrder that it extends: none is virtual, and a
// shard has one of these, never a plain RemovalOrder.
class WHEELCACHE_EXPORT PrefetchedOrder final : public RemovalOrder {
 public:
  PrefetchedOrder(const Owner& shard, int64_t now_nanos, const Index* index)
      : RemovalOrder(shard, now_nanos),
        shared_(*shard.shared),
        index_(*index) {}

  // The hash of an entry's key. Of the next victim it is known already.
  Hash32 HashOf(EntryRef ref) const { return evictions().HashOf(ref); }

  // As UnlinkReplaced, before a Set of the entry `next`; before evictions for
  // others.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef UnlinkReplacedForSet(EntryRef next);
  EntryRef UnlinkReplacedForEviction() {
    last_writer_ = ThreadIndex();
    return UnlinkReplaced();
  }

  // Says that the entry is about to be replaced or removed.
  void PrefetchRemoval(EntryRef ref) const { Prefetch(NeighboursOf(ref)); }

  // Says that an entry with this hash, probably of a new key, is about to be
  // added.
  void PrefetchNew(Hash32 hash) const {
    if (ABSL_PREDICT_FALSE(evictions().has_two_lists())) {
      evictions().PrefetchSketch(hash);
    }
  }

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Replace(EntryRef old, bool plain);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RemoveVictim(EntryRef ref, Hash32 hash,
                                                 int64_t charge);
  uint64_t Advance(int64_t now_nanos, uint64_t budget,
                   absl::FunctionRef<void(EntryRef)> fire);

 private:
  // The entries whose links a removal of one will change.
  struct Neighbours {
    LruLinks<EntryRef> lru;
    TimerLinks<EntryRef> timer;
  };

  ABSL_ATTRIBUTE_ALWAYS_INLINE Neighbours NeighboursOf(EntryRef ref) const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Prefetch(
      const Neighbours& neighbours) const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchVictim(bool in_main);
  void RemoveVictimOfTwo(EntryRef ref, Hash32 hash, int64_t charge);
  void PrefetchForThisThread(EntryRef next) const;

  SharedState& shared_;
  const Index& index_;

  std::array<Neighbours, 2> tail_neighbours_ = {};  // When these were found.
  Neighbours replaced_neighbours_;                  // When it was replaced.
  size_t last_writer_ = 0;  // The ThreadIndex() of the last UnlinkReplaced.
};

inline EntryRef PrefetchedOrder::UnlinkReplacedForSet(EntryRef next) {
  const size_t thread = ThreadIndex();
  if (std::exchange(last_writer_, thread) != thread) {
    PrefetchForThisThread(next);
  }
  const EntryRef settled = UnlinkReplaced();
  if (evictions().back() != evictions().tails()[0].ref &&
      !shared_.budget.HasRoom()) {
    PrefetchVictim(/*in_main=*/false);
  }
  return settled;
}

inline bool PrefetchedOrder::Replace(EntryRef old, bool plain) {
  replaced_neighbours_ = NeighboursOf(old);
  return RemovalOrder::Replace(old, plain);
}

inline void PrefetchedOrder::RemoveVictim(EntryRef ref, Hash32 hash,
                                          int64_t charge) {
  if (ABSL_PREDICT_FALSE(evictions().has_two_lists())) {
    RemoveVictimOfTwo(ref, hash, charge);
    return;
  }
  Remove(ref);
  // There is no room, or nothing would be evicted.
  PrefetchVictim(/*in_main=*/false);
}

inline void PrefetchedOrder::Prefetch(const Neighbours& neighbours) const {
  const auto [newer, older] = neighbours.lru;
  if (newer != 0) PrefetchLineToWrite(&pool().At(newer));
  if (older != 0) PrefetchLineToWrite(&pool().At(older));
  wheel().PrefetchNeighbours(neighbours.timer);
}

inline auto PrefetchedOrder::NeighboursOf(EntryRef ref) const -> Neighbours {
  const EntryHeader& entry = pool().At(ref);
  return {entry.lru, entry.timer};
}

// Prefetches what the eviction of the entry at the tail of a list will touch.
// REQUIRES: no replaced entry is linked; a replaced entry is no victim.
inline void PrefetchedOrder::PrefetchVictim(bool in_main) {
  assert(replaced() == 0);
  const EvictionOrder::Tail* const tail = evictions().FindNewTail(in_main);
  if (tail == nullptr) return;
  Neighbours& neighbours = tail_neighbours_[in_main ? 1 : 0];
  neighbours = NeighboursOf(tail->ref);
  index_.Prefetch(tail->hash);
  Prefetch(neighbours);
  if (ABSL_PREDICT_FALSE(evictions().has_two_lists())) {
    evictions().PrefetchSketch(tail->hash);
  }
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_PREFETCHED_ORDER_H_
