// The statistics of a near cache: what it has done since its creation.
//
//   const wheelcache::NearCacheStats stats = users->stats();
//   std::cout << "local hit ratio " << stats.local_hit_ratio() << "\n";
//
// Each number is exact once the calls that it counts have returned; numbers
// read while other threads work are no consistent snapshot.
//
// Threads. Thread-compatible: a copy that belongs to the caller.

#ifndef WHEELCACHE_CACHE_NEAR_NEAR_STATS_H_
#define WHEELCACHE_CACHE_NEAR_NEAR_STATS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// The bounds of NearCacheStats::round_trip, in seconds.
inline constexpr double kRoundTripBounds[] = {
    0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
    0.02,    0.05,   0.1,    0.2,    0.5,   1,     2,     5};

struct NearCacheStats {
  // Reads, each counted once, by how they ended: with a value of the local
  // tier, or its knowledge that the store has none; with a fetch of their own
  // that found a value, or none; with the fetch of another caller that they
  // joined; with a value that may be stale, for stale_if_error; with an error.
  // GetMany counts each of its different keys.
  int64_t local_hits = 0;
  int64_t local_absences = 0;
  int64_t fetched_hits = 0;
  int64_t fetched_absences = 0;
  int64_t joined = 0;
  int64_t stale_served = 0;
  int64_t failed_reads = 0;

  // Of these, the reads that found no lease, and so went to the store.
  int64_t unleased_reads = 0;

  // Keys that were set or deleted, by loads too, and those of them that failed.
  int64_t writes = 0;
  int64_t failed_writes = 0;

  // Loaders of GetOrLoad that ran, and those of them that failed.
  int64_t loads = 0;
  int64_t failed_loads = 0;

  // Reads and writes that failed with DeadlineExceeded; values that did not
  // decode; fetched values that were not kept because an invalidation or a
  // write superseded them.
  int64_t timeouts = 0;
  int64_t undecodable = 0;
  int64_t superseded = 0;

  // Keys that the store has told of, and those of them that had a value here;
  // how often any key may have changed.
  int64_t invalidations = 0;
  int64_t useful_invalidations = 0;
  int64_t flushes = 0;

  // Sessions that began, and losses, failed attempts to begin one included.
  int64_t sessions = 0;
  int64_t losses = 0;

  // How long local hits may still be served unless the lease is renewed; zero
  // without a lease.
  absl::Duration lease_left = absl::ZeroDuration();

  // The seconds that commands to the store took, failed ones included.
  Histogram round_trip = {kRoundTripBounds};

  // Those of the local tier. Its hits and misses are the reads above, by
  // whether it answered them.
  CacheStats local = {};

  int64_t reads() const {
    return local_hits + local_absences + fetched_hits + fetched_absences +
           joined + stale_served + failed_reads;
  }

  // The reads that the local tier answered, as a fraction of all; 0 before the
  // first.
  double local_hit_ratio() const {
    return reads() == 0 ? 0.0
                        : static_cast<double>(local_hits + local_absences) /
                              static_cast<double>(reads());
  }

  // Calls `visit` with each of the numbers above but for those of the local
  // tier, in an order that is always the same; those that differ in their label
  // alone follow each other.
  WHEELCACHE_EXPORT void ForEachMetric(
      absl::FunctionRef<void(const Metric&)> visit) const;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_STATS_H_
