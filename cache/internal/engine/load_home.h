// What those who lead loads have of their cache, which they may outlive.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_HOME_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_HOME_H_

#include "wheelcache/cache/internal/engine/gate.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

template <typename TypedEngine>
struct LoadHome {
  explicit LoadHome(TypedEngine* cache)
      : typed(cache),
        pool(&cache->engine().pool()),
        clock(&cache->engine().clock()) {
    pool->AddOwner();
  }
  LoadHome(const LoadHome&) = delete;
  LoadHome& operator=(const LoadHome&) = delete;
  ~LoadHome() { pool->DropOwner(); }

  Gate gate;                 // Closed when the cache ends.
  TypedEngine* const typed;  // For visitors of the gate.
  EntryPool* const pool;
  Clock* const clock;  // Not read after the end of the cache.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_LOAD_HOME_H_
