// The charts of the status page, as SVG within HTML. Colours come from the
// page's style sheet, by class: axis, bar, empty, grid, line, track, fill.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_STATUS_CHARTS_H_
#define WHEELCACHE_CACHE_INTERNAL_STATUS_CHARTS_H_

#include <string>

#include "absl/types/span.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// A bar of which the fraction is filled.
WHEELCACHE_EXPORT std::string Meter(double fraction);

// The hit ratio between each two samples; empty where no two of them have a
// read between them.
WHEELCACHE_EXPORT std::string HitRatioChart(
    absl::Span<const CacheSample> samples);

// The hit ratio at half to four times the limits.
WHEELCACHE_EXPORT std::string LimitsChart(const CacheAdvice& advice);

// A bar for each bucket.
WHEELCACHE_EXPORT std::string AgeChart(const Histogram& seconds);
WHEELCACHE_EXPORT std::string ShareChart(const Histogram& fractions);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_STATUS_CHARTS_H_
