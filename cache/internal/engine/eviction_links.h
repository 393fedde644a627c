// What the two ways to order a shard's entries for eviction, OneList and
// TwoLists, have in common: how a list finds the fields of an entry, and what
// goes in and out.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LINKS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LINKS_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/lru_list.h"

namespace wheelcache::internal {

// The Store of a GenerationalList.
struct EvictionLinks {
  using Ref = EntryRef;

  LruLinks<Ref>& lru_links(Ref ref) const { return pool->At(ref).lru; }
  uint32_t number(Ref ref) const {
    return pool->At(ref).stamp.load(std::memory_order_relaxed) &
           ~(kMark | kOfMain);
  }
  // Leaves the mark.
  void set_number(Ref ref, uint32_t number) const {
    std::atomic<Stamp>& stamp = pool->At(ref).stamp;
    const Stamp mark = stamp.load(std::memory_order_relaxed) & kMark;
    const Stamp of_list = list == kMain ? kOfMain : 0;
    stamp.store(number | of_list | mark, std::memory_order_relaxed);
  }
  void Publish(uint32_t number) const { recency->SetNow(list, number); }
  uint32_t Now() const { return tail == nullptr ? 0 : tail->Now(); }

  EntryPool* pool;
  Recency* recency;
  ListId list;
  ShardTail* tail;  // Null if the list's tail is not compared.
};

// The only list, or the main one.
using EvictionList = GenerationalList<EvictionLinks>;

inline ListId ListOf(const EntryHeader& entry) {
  return entry.in_main() ? kMain : kWindow;
}

// A new entry, its hash, and the one that it replaces, or null.
struct Added {
  EntryRef ref;
  Hash32 hash;
  EntryRef old;
};

// Returns the least recently used entry of a list but for `keep`, which is
// about to be replaced, or null. As GenerationalList::FindOldest.
template <typename List>
EntryRef FindOldestBut(EntryRef keep, List* list, uint64_t* budget) {
  EntryRef oldest = list->FindOldest(budget);
  while (ABSL_PREDICT_FALSE(oldest == keep) && oldest != 0 &&
         list->size() > 1) {
    list->MoveToFront(keep);
    oldest = list->FindOldest(budget);
  }
  return oldest == keep ? 0 : oldest;
}

// What the shards of a cache compare: who has the older tail evicts. And by how
// much another one has to be older: shards of equal size differ by chance, and
// would take victims from each other all the time if they had to differ by
// less.
struct Standing {
  TailBoard::Time tail;
  uint32_t margin;
};

// That of a list's tail. What passes through a shard is the same part of all
// that is appended in each.
template <typename List>
Standing StandingOf(const List& list, ShardTail* tail) {
  // Exactly where the tail would have that time: an empty shard must not look
  // old. Else it is for the margin alone.
  const TailBoard::Time now =
      ABSL_PREDICT_TRUE(list.knows_back_time()) ? tail->LastNow() : tail->Now();
  const auto shards = static_cast<uint32_t>(tail->shards());
  const TailBoard::Time back = list.BackTime(now, /*each=*/shards);
  return {back, (now - back) / 64 + tail->many()};
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LINKS_H_
