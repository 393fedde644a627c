// The lists that an EvictionOrder consists of: EvictionList is its one list or
// the window, MainList what a scan-resistant order has besides.
//
// Threads. Thread-compatible: they belong to the lock of their shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LIST_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LIST_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/admission.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/lru/lru_list.h"

namespace wheelcache::internal {

// How a list finds the links and the stamp of an entry.
struct EvictionLinks {
  using Ref = EntryRef;
  LruLinks<Ref>& lru_links(Ref ref) const { return pool->At(ref).lru; }
  Stamp stamp(Ref ref) const {
    return recency->Unmarked(
        pool->At(ref).stamp.load(std::memory_order_relaxed));
  }
  EntryPool* pool;
  const Recency* recency;
};

using EvictionList = LazyLruList<EvictionLinks>;

// The main list, and the Admission that decides what enters it, in cache lines
// of their own, which are prefetched together.
struct alignas(ABSL_CACHELINE_SIZE) MainList {
  MainList(const EvictionLinks& links, const SharedState& shared, int shard)
      : list(links),
        admission(shared.AdmissionMemoryOf(shard),
                  shared.ShareOf(shared.budget.limit()),
                  shared.window_target.get()) {}

  EvictionList list;
  Admission admission;
  // What Recency was told last of both lists.
  uint32_t window_shown = 0;
  uint32_t main_shown = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_LIST_H_
