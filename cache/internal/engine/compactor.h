// Moves entries together, so that memory which small entries pin can go back to
// the system.
//
// It works in rounds. The arena condemns the units of memory in which least is
// in use (cache/internal/memory/arena.h). Then, shard by shard, the index is
// read for entries that lie there, and each is copied to another block, which
// takes its place. The old blocks wait in limbo for their readers, as all that
// is removed. An entry that is pinned, or whose bytes cannot be copied, stays.
//
// Threads. Thread-safe. One thread at a time makes a step; others find nothing
// to do, or wait for it. A step holds the lock of one shard, and moves at most
// as many entries as the caller allows.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_COMPACTOR_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_COMPACTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/limbo.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class Departures;

class WHEELCACHE_EXPORT Compactor {
 public:
  Compactor(EntryPool* pool, Limbo* limbo, const ShardArray<Shard>* shards)
      : pool_(*pool), limbo_(*limbo), shards_(*shards) {}
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // Whether a step would do something: a hint.
  bool needed() const {
    return pool_.arena().needs_round() ||
           in_round_.load(std::memory_order_relaxed);
  }

  // Whether all is moved, but some reader stays where it may see an old block:
  // the next step should come a little later.
  bool waits_for_readers() const {
    return waits_for_readers_.load(std::memory_order_relaxed);
  }

  // Makes one step: moves about `budget` entries at most. Returns how much it
  // has done, counting an entry for 1; or 0 if there is nothing to do, or if
  // another thread is doing it.
  uint64_t Step(uint64_t budget, Departures* departures);

  // As Step, but waits while another thread makes a step: for a caller that
  // would otherwise take memory faster than that one can give it back.
  uint64_t StepAfterOthers(uint64_t budget, Departures* departures);

 private:
  void FlushLimbo();
  uint64_t StepAndUnlock(uint64_t budget, Departures* departures)
      ABSL_UNLOCK_FUNCTION(mu_);
  uint64_t StepLocked(uint64_t budget, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TooMuchIsInLimbo() const;

  EntryPool& pool_;
  Limbo& limbo_;
  const ShardArray<Shard>& shards_;

  Mutex mu_;
  // Written under mu_. Relaxed: hints.
  std::atomic<bool> in_round_{false};
  std::atomic<bool> waits_for_limbo_{false};  // All is moved.
  std::atomic<bool> waits_for_readers_{false};
  // Where the next step goes on.
  size_t shard_ ABSL_GUARDED_BY(mu_) = 0;
  size_t bucket_ ABSL_GUARDED_BY(mu_) = 0;
  // When all is moved: the last epoch in which an old block could be seen, the
  // steps that have waited for its readers, and whether they are gone.
  Epoch last_epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int waits_ ABSL_GUARDED_BY(mu_) = 0;
  bool nobody_sees_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_COMPACTOR_H_
