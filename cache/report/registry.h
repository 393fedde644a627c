// The caches of the process, with their statistics.
//
//   for (const wheelcache::CacheReport& cache : wheelcache::ReportCaches()) {
//     Log(cache.name, cache.stats.hit_ratio());
//   }
//
// A cache is in the registry from Create until its destruction, unless
// CacheOptions::registered is false. cache/prometheus.h and
// cache/status_page.h show all that are.
//
// Caches of one name. They are told apart by an id: the lowest from 1 on that
// is free when the cache is created. So caches that are made again in the same
// order have the same ids again, and a monitoring system the same series.
//
// Threads. Thread-safe; caches may be created and destroyed meanwhile. To
// destroy a cache waits until a report of it is done. fork(). The child has the
// caches of its parent.
//
// Cost. Microseconds for a cache, whatever it holds; no lock of a cache. A
// cache that nobody looks at has some 100 bytes here.

#ifndef WHEELCACHE_CACHE_REPORT_REGISTRY_H_
#define WHEELCACHE_CACHE_REPORT_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/share_stats.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// A Metric that outlives its source. `metric.histogram` is that here.
struct KeptMetric {
  Metric metric = {};
  std::shared_ptr<const Histogram> histogram = nullptr;
};

struct CacheReport {
  std::string name = {};  // CacheOptions::name.
  int id = 1;             // Among the caches and shares of this name.
  CacheStats stats = {};

  // Of the latest calls of ReportCaches, PrometheusText and StatusPage that
  // came 5 seconds or more after the one before; the oldest first, at most 120.
  std::vector<CacheSample> samples = {};

  // Of a near cache (cache/near/near_cache.h), of which this is the local tier:
  // its own metrics. Empty for other caches.
  std::vector<KeptMetric> near = {};

  // Calls `visit` with the metrics of `stats`, and then with those of `near`.
  WHEELCACHE_EXPORT void ForEachMetric(
      absl::FunctionRef<void(const Metric&)> visit) const;
};

// Returns a report of each registered cache, ordered by name and id.
WHEELCACHE_EXPORT std::vector<CacheReport> ReportCaches();

// Of a MemoryShare (cache/share/memory_share.h).
struct ShareReport {
  std::string name = {};
  int id = 1;  // Among the caches and shares of this name.
  absl::Duration now = absl::ZeroDuration();  // By the clock of the share.
  ShareStats stats = {};
};

// Returns a report of each share of the process, ordered by name and id.
WHEELCACHE_EXPORT std::vector<ShareReport> ReportShares();

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_REPORT_REGISTRY_H_
