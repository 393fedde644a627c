// What one call takes out of a cache: the entries, on their way to the removal
// listener and to limbo, and the room that they leave. It counts them, too.
//
//   Departures departures(&shared);
//   shard.Evict(&departures);      // Under the shard's lock.
//   departures.claim.GiveBack();   // Under none, as what follows.
//   departures.Dispose([](EntryRef ref, RemovalCause cause) { ... });
//
// No user code may run under a shard's lock, so entries gather here, and are
// disposed of after its release. They are linked through their own LRU links,
// which also have room for the cause: to gather them allocates nothing, and all
// entries of a shard can be taken over at once, in O(1).
//
// Threads. Thread-compatible; each call of the cache has its own.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_

#include <cassert>
#include <cstdint>
#include <utility>

#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/limbo.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/lru/lru_list.h"

namespace wheelcache::internal {

class Departures {
 public:
  explicit Departures(SharedState* shared)
      : claim(&shared->budget),
        counts(shared->counters.ForThisThread()),
        pool_(*shared->pool),
        limbo_(shared->limbo) {}
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  // Takes over the cache's pin on the entry.
  void Add(EntryRef ref, RemovalCause cause) {
    pool_.At(ref).lru = {/*newer=*/static_cast<EntryRef>(cause), /*older=*/0};
    Append(&removed_, {ref, ref});
  }

  // The same for an entry of which nobody is told.
  void AddUntold(EntryRef ref) {
    pool_.At(ref).lru = {/*newer=*/kUntold, /*older=*/0};
    Append(&removed_, {ref, ref});
  }

  // The same for one that was replaced before, and counted then; or null.
  void AddUnlinked(EntryRef replaced) {
    if (replaced != 0) AddUntold(replaced);
  }

  // Takes over all entries from `newest` along the links to the older, up to
  // `oldest`, as deleted.
  void AddCleared(EntryRef newest, EntryRef oldest) {
    Append(&cleared_, {newest, oldest});
  }

  // Counts what is removed now, but not evicted, under the lock of its shard.
  void CountRemoved(RemovalCause cause, int64_t entries = 1) {
    assert(cause != RemovalCause::kEvicted);
    const Count count = cause == RemovalCause::kExpired    ? Count::kExpired
                        : cause == RemovalCause::kReplaced ? Count::kReplaced
                                                           : Count::kDeleted;
    counts.Add(count, entries);
  }

  // Whether it has no entries.
  bool empty() const { return removed_.first == 0 && cleared_.first == 0; }

  // Takes over all entries that `other` has, behind what is here. O(1), and
  // O(n) of the cleared entries. May be called by the `tell` of Dispose.
  void TakeOver(Departures* other) {
    for (EntryRef ref = other->cleared_.first; ref != 0;) {
      EntryHeader& entry = pool_.At(ref);
      entry.lru.newer = entry.is_placeholder()
                            ? kUntold
                            : static_cast<EntryRef>(RemovalCause::kDeleted);
      ref = entry.lru.older;
    }
    for (Chain* const chain : {&other->removed_, &other->cleared_}) {
      const Chain more = std::exchange(*chain, Chain());
      if (more.first != 0) Append(&removed_, more);
    }
  }

  // Calls `tell(ref, cause)` for each entry, in the order of their removal but
  // for the cleared ones, which come last, and passes them on to limbo. No lock
  // is held. What comes in meanwhile may be left.
  template <typename Tell>
  void Dispose(Tell&& tell) {
    while (removed_.first != 0) {
      const EntryRef ref = removed_.first;
      const LruLinks<EntryRef> links = pool_.At(ref).lru;
      removed_.first = links.older;
      if (links.newer != kUntold) {
        tell(ref, static_cast<RemovalCause>(links.newer));
      }
      limbo_.Add(ref);
    }
    while (cleared_.first != 0) {
      const EntryRef ref = cleared_.first;
      const EntryHeader& entry = pool_.At(ref);
      cleared_.first = entry.lru.older;
      if (!entry.is_placeholder()) tell(ref, RemovalCause::kDeleted);
      limbo_.Add(ref);
    }
  }

  Claim claim;
  Counters::Mine counts;

 private:
  // In place of a cause.
  static constexpr EntryRef kUntold = ~EntryRef{0};

  struct Chain {
    EntryRef first = 0;
    EntryRef last = 0;  // Valid if there is a first.
  };

  void Append(Chain* chain, Chain more) {
    (chain->first == 0 ? chain->first : pool_.At(chain->last).lru.older) =
        more.first;
    chain->last = more.last;
  }

  EntryPool& pool_;
  Limbo& limbo_;
  Chain removed_;  // One by one.
  Chain cleared_;  // A shard's at once.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
