// The statistics of a cache: what it has done since its creation, and holds.
//
//   const wheelcache::CacheStats stats = cache->stats();
//   std::cout << "hit ratio " << stats.hit_ratio() << "\n";
//
// Each number is exact once the calls that it counts have returned; numbers
// read while other threads work are no consistent snapshot.
//
// Threads. Thread-compatible: a copy that belongs to the caller.

#ifndef WHEELCACHE_CACHE_STATS_H_
#define WHEELCACHE_CACHE_STATS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

struct CacheStats {
  // Reads that found a live value, or none; Take and Update included. Peek,
  // Contains and TimeToLive do not count.
  int64_t hits = 0;
  int64_t misses = 0;

  // Values that became visible: by Set, SetIf, Update, or by a load.
  int64_t sets = 0;

  // Entries that were removed, by cause. Always, in the child of a fork() too:
  //   sets == entries + deletes + evictions + expirations + replaced.
  int64_t deletes = 0;
  int64_t evictions = 0;
  int64_t expirations = 0;
  int64_t replaced = 0;

  // Exceptions of removal listeners, all of them contained.
  int64_t listener_exceptions = 0;

  // What is in the cache now, including expired entries not yet reclaimed.
  int64_t entries = 0;
  int64_t bytes = 0;

  // The resident memory of the cache's entries and indexes, with what is free
  // for the next ones: close to what the process pays for it. Not what the
  // values themselves allocate.
  int64_t resident_bytes = 0;

  // Hits as a fraction of all counted reads; 0 before the first.
  double hit_ratio() const {
    const int64_t reads = hits + misses;
    return reads == 0 ? 0.0
                      : static_cast<double>(hits) / static_cast<double>(reads);
  }
};

// The line that CacheOptions::stats_log receives, for what happened between
// two readings of one cache's statistics.
WHEELCACHE_EXPORT std::string StatsLine(absl::string_view name,
                                        const CacheStats& before,
                                        const CacheStats& after);

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_STATS_H_
