// The order of eviction with EvictionPolicy::kLru: one list, whose tail goes.
// Exact in a cache of one shard, where a hit moves its entry to the front.
//
// TwoLists has the same methods.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ONE_LIST_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ONE_LIST_H_

#include <array>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_links.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"

namespace wheelcache::internal {

class OneList {
 public:
  OneList(EvictionList::Generations* generations, EvictionLinks links,
          UseCount* uses)
      : uses_(*uses), list_(generations, links, links.recency->exact()) {}

  bool empty() const { return list_.empty(); }

  // The entry that was appended last, and the tails.
  EntryRef front() const { return list_.front(); }
  std::array<EntryRef, 1> backs() const { return {list_.back()}; }

  void PrefetchGhosts(Hash32) const {}

  void Add(const Added& added, const Room&) {
    if (const uint32_t uses = uses_.Take()) list_.CountUses(uses);
    list_.PushFront(added.ref);
    list_.store().tail->PassOne(list_.size());
  }
  void Remove(EntryRef ref, int64_t) { list_.Remove(ref); }
  void RemoveVictim(EntryRef ref, Hash32, int64_t) { list_.Remove(ref); }
  void Substitute(EntryRef old, EntryRef copy) { list_.Substitute(old, copy); }

  void MoveToFront(EntryRef ref) { list_.MoveToFront(ref); }

  EntryRef FindVictim(EntryRef keep, const Room&, uint64_t* budget) {
    return FindOldestBut(keep, &list_, budget);
  }

  Standing standing() const { return StandingOf(list_, list_.store().tail); }
  void SetShare(Room) {}

  std::pair<EntryRef, EntryRef> TakeAll() {
    const EntryRef oldest = list_.back();
    return {list_.TakeAll(), oldest};
  }

  absl::Status CheckInvariants(
      absl::FunctionRef<absl::Status(EntryRef)> visit) {
    if (auto status = list_.CheckInvariants(); !status.ok()) return status;
    for (EntryRef ref = list_.front(); ref != 0;
         ref = list_.store().lru_links(ref).older) {
      if (auto status = visit(ref); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  UseCount& uses_;
  EvictionList list_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ONE_LIST_H_
