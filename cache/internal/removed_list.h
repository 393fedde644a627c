// Entries that have left the cache, on their way to the removal listener and
// to limbo.
//
// They are collected under a shard's lock, where no user code may run, and
// disposed of after it. They are linked through their own LRU links, one chain
// for each cause, so that collecting allocates nothing, and all entries of a
// shard can be taken over at once.
//
// Threads. Thread-compatible; each call of the cache has its own.

#ifndef WHEELCACHE_CACHE_INTERNAL_REMOVED_LIST_H_
#define WHEELCACHE_CACHE_INTERNAL_REMOVED_LIST_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/entry.h"
#include "wheelcache/cache/internal/limbo.h"
#include "wheelcache/cache/removal.h"

namespace wheelcache {
namespace internal {

template <typename Key, typename Value>
class RemovedList {
 public:
  using Pool = EntryPool<Key, Value>;

  RemovedList(Pool* pool, Limbo<Key, Value>* limbo)
      : pool_(*pool), limbo_(*limbo) {}
  RemovedList(const RemovedList&) = delete;
  RemovedList& operator=(const RemovedList&) = delete;
  ~RemovedList() {
    Dispose([](EntryRef, RemovalCause) {});
  }

  // Takes over the pin that the cache had on the entry.
  void Add(EntryRef ref, RemovalCause cause) {
    pool_.At(ref).lru.older = 0;
    AddChain(ref, ref, cause);
  }

  // Takes over all entries from `newest` along the links to the older, up to
  // `oldest`.
  void AddChain(EntryRef newest, EntryRef oldest, RemovalCause cause) {
    Chain& chain = chains_[static_cast<size_t>(cause)];
    (chain.first == 0 ? chain.first : pool_.At(chain.last).lru.older) = newest;
    chain.last = oldest;
  }

  // Calls `tell(ref, cause)` for each entry, those of one cause in the order of
  // their removal, and passes them on to limbo. No lock is held.
  template <typename Tell>
  void Dispose(Tell&& tell) {
    for (size_t cause = 0; cause < chains_.size(); ++cause) {
      while (chains_[cause].first != 0) {
        const EntryRef ref = chains_[cause].first;
        chains_[cause].first = pool_.At(ref).lru.older;
        tell(ref, static_cast<RemovalCause>(cause));
        limbo_.Add(ref);
      }
    }
  }

 private:
  struct Chain {
    EntryRef first = 0;
    EntryRef last = 0;  // Of meaning while there is a first.
  };

  Pool& pool_;
  Limbo<Key, Value>& limbo_;
  std::array<Chain, 4> chains_;  // By cause.
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_REMOVED_LIST_H_
