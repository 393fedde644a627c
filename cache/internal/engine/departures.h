// What one call takes out of a cache: the entries, on their way to the listener
// and to limbo, and the room that they leave.
//
// Threads. Thread-compatible; each call has its own.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_

#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/removed_list.h"

namespace wheelcache::internal {

struct Departures {
  explicit Departures(SharedState* shared)
      : removed(shared->pool.get(), &shared->limbo), claim(&shared->budget) {}

  RemovedList removed;
  Claim claim;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_DEPARTURES_H_
