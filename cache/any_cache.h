// What all caches have, whatever the types of their keys and values: limits,
// statistics and maintenance.
//
//   void Print(const wheelcache::AnyCache& cache) {
//     std::cout << cache.options().name << ": " << cache.size() << "\n";
//   }
//
// The base of Cache (cache/cache.h), which makes all objects of this class. All
// of it is inline: no shared object exports it.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_ANY_CACHE_H_
#define WHEELCACHE_CACHE_ANY_CACHE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache {

namespace internal {
class CachePeer;
class ShareMember;
struct SnapshotContext;
}  // namespace internal

class AnyCache {
 public:
  AnyCache(const AnyCache&) = delete;
  AnyCache& operator=(const AnyCache&) = delete;

  // Removes all values that are there at one instant during the call.
  void Clear() { engine_.Clear(); }

  // Changes the limits, or returns InvalidArgument. On return the new ones
  // hold; lower ones are approached step by step, by eviction as in a Set.
  // FailedPrecondition if a MemoryShare (cache/share/memory_share.h) sets the
  // bytes, and others are given.
  absl::Status SetLimits(int64_t entries, int64_t bytes) {
    return engine_.SetLimits(entries, bytes);
  }
  CacheLimits limits() const {
    const internal::Room limit = engine_.limit();
    return {limit.entries, limit.bytes};
  }

  // What is in the cache, with expired entries that are not yet reclaimed, and
  // with failures that are remembered. O(shards), and never more than
  // limits().
  int64_t size() const { return engine_.used().entries; }
  int64_t bytes() const { return engine_.used().bytes; }

  CacheStats stats() const { return engine_.stats(); }

  // Returns what half, twice and four times the limits would do for the hit
  // ratio, and why reads miss. Empty without CacheOptions::advise, and where
  // there was no memory for it. Part of stats() as well.
  std::optional<CacheAdvice> Advise() const { return engine_.Advise(); }

  // As given to Create.
  const CacheOptions& options() const { return engine_.options(); }

  // Reclaims what is due, for programs that run without a reaper: removes and
  // moves at most `budget` timers, late waits for loads included. Returns how
  // many; less than `budget` means that nothing due is left. Throws what
  // CacheOptions::stats_log does, and nothing else.
  int64_t RunMaintenance(int64_t budget = std::numeric_limits<int64_t>::max()) {
    return engine_.RunMaintenance(budget);
  }

  // Returns when RunMaintenance next has something to do, as a reading of the
  // clock; infinite if it has nothing. That includes entries that readers may
  // still hold back, for which it is to look now and then. What makes it
  // earlier, CacheOptions::on_earlier_deadline tells.
  absl::Duration NextDeadline() const { return engine_.NextDeadline(); }

  // Ends the background work and refreshes for good, and waits for what runs of
  // them, unless called by that. The cache remains usable: Set and
  // RunMaintenance reclaim.
  void Stop() { engine_.Stop(); }

  // Whether the reaper serves this cache, or why it could not be had.
  const absl::Status& reaper_status() const { return engine_.reaper_status(); }

  // For tests: finds the first broken invariant. No other thread may be in the
  // cache. O(entries).
  absl::Status CheckInvariants() { return engine_.CheckInvariants(); }

 protected:
  // REQUIRES: the options are valid.
  AnyCache(CacheOptions options, const internal::EntryOperations* operations,
           internal::Charges charges, internal::Engine::Tell tell)
      : engine_(std::move(options), operations, charges, std::move(tell)) {}
  ~AnyCache() = default;

  internal::Engine& engine() { return engine_; }
  const internal::Engine& engine() const { return engine_; }

 private:
  friend class internal::CachePeer;  // For tests.
  friend class internal::ShareMember;
  friend struct internal::SnapshotContext;

  internal::Engine engine_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_ANY_CACHE_H_
