// What one call takes out of a cache: the entries, on their way to the listener
// and to limbo, and the room that they leave. It counts them, too.
//
// Threads. Thread-compatible; each call has its own.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_

#include <cstdint>

#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/removed_list.h"
#include "wheelcache/cache/types/removal.h"

namespace wheelcache::internal {

struct Departures {
  explicit Departures(SharedState* shared)
      : removed(shared->pool.get(), &shared->limbo),
        claim(&shared->budget),
        counts(shared->counters.ForThisThread()) {}

  // Adds an entry that was replaced before, and counted then; or null.
  void AddSettled(EntryRef settled) {
    if (settled != 0) removed.AddUntold(settled);
  }

  // Counts what is removed now, under the lock of its shard.
  void CountRemoved(RemovalCause cause, int64_t entries = 1) {
    // The counters are in the order of the causes.
    counts.Add(static_cast<Count>(static_cast<int>(Count::kExpired) +
                                  static_cast<int>(cause)),
               entries);
  }

  RemovedList removed;
  Claim claim;
  Counters::Mine counts;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
