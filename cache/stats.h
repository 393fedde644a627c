// What a cache has done since it was created, and what it holds.
//
//   const wheelcache::CacheStats stats = cache->stats();
//   std::cout << "hit ratio " << stats.hit_ratio() << "\n";
//
// Each number is exact once the calls that it counts have returned; numbers
// read while other threads work are not of one instant.

#ifndef WHEELCACHE_CACHE_STATS_H_
#define WHEELCACHE_CACHE_STATS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace wheelcache {

struct CacheStats {
  // Reads that found a live value, or none. Peek, Contains and TimeToLive do
  // not count.
  int64_t hits = 0;
  int64_t misses = 0;

  // Values that became visible: by Set, or by a load.
  int64_t sets = 0;

  // Entries that left, by cause. Always:
  //   sets == entries + deletes + evictions + expirations + replaced.
  int64_t deletes = 0;
  int64_t evictions = 0;
  int64_t expirations = 0;
  int64_t replaced = 0;

  // Exceptions that removal listeners let escape. They end there.
  int64_t listener_exceptions = 0;

  // What is in the cache now, expired entries that are yet to be reclaimed
  // included.
  int64_t entries = 0;
  int64_t bytes = 0;

  // Hits as a fraction of all counted reads; 0 before the first.
  double hit_ratio() const {
    const int64_t reads = hits + misses;
    return reads == 0 ? 0.0
                      : static_cast<double>(hits) / static_cast<double>(reads);
  }
};

// The line that CacheOptions::stats_log receives, for what happened between
// two readings of one cache's statistics.
std::string StatsLine(absl::string_view name, const CacheStats& before,
                      const CacheStats& after);

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_STATS_H_
