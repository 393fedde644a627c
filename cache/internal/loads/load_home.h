// What those who lead loads have of their cache, which they may outlive.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_HOME_H_
#define WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_HOME_H_

#include <memory>

#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/refresh_board.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

struct WHEELCACHE_EXPORT LoadHome {
  LoadHome(EntryPool* entry_pool, Clock* cache_clock)
      : pool(entry_pool), clock(cache_clock) {
    pool->AddOwner();
  }
  LoadHome(const LoadHome&) = delete;
  LoadHome& operator=(const LoadHome&) = delete;
  ~LoadHome() { pool->DropOwner(); }

  // In the child of fork(), the refreshes of other threads are gone.
  void BeforeFork() {}
  void AfterForkInParent() {}
  // NOLINTNEXTLINE(readability-make-member-function-const): as registered.
  void AfterForkInChild() {
    if (board != nullptr) board->ResetAfterFork();
  }

  Gate gate;       // Closed when the cache ends: whoever is inside may use it.
  Gate refreshes;  // Closed when it is stopped.
  EntryPool* const pool;
  Clock* const clock;                   // Not read after the end of the cache.
  std::unique_ptr<RefreshBoard> board;  // Null without refreshes.
  ForkRegistration fork_registration{this};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_LOADS_LOAD_HOME_H_
