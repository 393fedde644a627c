// The statistics of a cache: what it has done since its creation, and holds.
//
//   const wheelcache::CacheStats stats = cache->stats();
//   std::cout << "hit ratio " << stats.hit_ratio() << "\n";
//
// Each number is exact once the calls that it counts have returned; numbers
// read while other threads work are no consistent snapshot.
//
// cache/prometheus.h and cache/status_page.h show the statistics of all caches
// of the process; ForEachMetric serves any other system of monitoring.
//
// Threads. Thread-compatible: a copy that belongs to the caller.

#ifndef WHEELCACHE_CACHE_TYPES_STATS_H_
#define WHEELCACHE_CACHE_TYPES_STATS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// The bounds of CacheStats::eviction_age, in seconds, from 0.1 s to 30 days,
// each two to four times the one before; and of
// CacheStats::eviction_life_left.
inline constexpr double kEvictionAgeBounds[] = {
    0.1,  0.3,  1,     3,     10,    30,     60,     180,    600,
    1800, 3600, 10800, 36000, 86400, 259200, 604800, 2592000};
inline constexpr double kEvictionLifeLeftBounds[] = {0.1, 0.2, 0.3, 0.4, 0.5,
                                                     0.6, 0.7, 0.8, 0.9, 1};

// A number, or a histogram, in the form that systems of monitoring want. Names
// and labels follow the conventions of Prometheus.
struct Metric {
  enum class Kind {
    kCounter,    // Never falls.
    kGauge,      // Rises and falls.
    kHistogram,  // Of which each bucket never falls.
  };

  absl::string_view name = {};   // "wheelcache_removals_total"; no labels.
  absl::string_view help = {};   // One sentence.
  absl::string_view label = {};  // `cause="evicted"`, or empty.
  Kind kind = Kind::kCounter;
  double value = 0;                      // Infinite: a limit that is not set.
  const Histogram* histogram = nullptr;  // Of kHistogram; else null.
};

struct CacheStats {
  // Reads that found a live value, or none; Take and Update included. Peek,
  // Contains and TimeToLive do not count.
  int64_t hits = 0;
  int64_t misses = 0;

  // Values that became visible: by Set, SetIf, Update, or by a load.
  int64_t sets = 0;

  // Values that were not stored, by Set or by a load: larger than the limit, or
  // with a TTL of zero or less.
  int64_t refused = 0;

  // Loads that have ended, of loaders, tickets and refreshes; of these, those
  // that failed, and those whose value was not stored because a later write
  // superseded it. The time they took in all, from their beginning; a refresh
  // begins when it is handed to the executor.
  int64_t loads = 0;
  int64_t load_errors = 0;
  int64_t superseded_loads = 0;
  int64_t load_nanos = 0;

  // Calls that joined a load of another caller.
  int64_t load_waits = 0;

  // Calls that found a value old enough to be refreshed; and the refreshes that
  // were run.
  int64_t stale_hits = 0;
  int64_t refreshes = 0;

  // Entries that were removed, by cause. While no call runs:
  //   sets == entries + deletes + evictions + expirations + replaced,
  // unless a failure is remembered (LoadOptions::error_ttl), which is an entry.
  int64_t deletes = 0;
  int64_t evictions = 0;
  int64_t expirations = 0;
  int64_t replaced = 0;

  // The bytes that were charged to those evicted.
  int64_t evicted_bytes = 0;

  // Exceptions of removal listeners, all of them contained.
  int64_t listener_exceptions = 0;

  // What is in the cache now, including expired entries not yet reclaimed.
  int64_t entries = 0;
  int64_t bytes = 0;

  // The limits; kUnlimited where there is none.
  int64_t max_entries = 0;
  int64_t max_bytes = 0;

  // The resident memory of the cache's entries and indexes, with what is free
  // for the next ones: close to what the process pays for it. Not what the
  // values themselves allocate.
  int64_t resident_bytes = 0;

  // Of each evicted entry, the seconds since its value was stored, in steps of
  // 20 ms as CacheHandle::Age. And of those with a deadline, which part of the
  // time from storing to that was left: where it was most, the cache is too
  // small for what it is given. The sum of these takes each for the middle of
  // its bucket.
  Histogram eviction_age = {kEvictionAgeBounds};
  Histogram eviction_life_left = {kEvictionLifeLeftBounds};

  // With CacheOptions::advise: what other limits would do, and why reads miss.
  std::optional<CacheAdvice> advice = std::nullopt;

  // Hits as a fraction of all counted reads; 0 before the first.
  double hit_ratio() const {
    const int64_t reads = hits + misses;
    return reads == 0 ? 0.0
                      : static_cast<double>(hits) / static_cast<double>(reads);
  }

  // Calls `visit` with each of the numbers above, in an order that is always
  // the same; those that differ in their label alone follow each other. Those
  // of the advice come last, where there is any.
  WHEELCACHE_EXPORT void ForEachMetric(
      absl::FunctionRef<void(const Metric&)> visit) const;
};

// The reads of a cache up to a time on its clock.
struct CacheSample {
  absl::Duration time = absl::ZeroDuration();
  int64_t hits = 0;
  int64_t misses = 0;
};

// The line that CacheOptions::stats_log receives, for what happened between
// two readings of one cache's statistics.
WHEELCACHE_EXPORT std::string StatsLine(absl::string_view name,
                                        const CacheStats& before,
                                        const CacheStats& after);

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_STATS_H_
