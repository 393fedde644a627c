// The charts of the status page, and the parts of them, as SVG within HTML.
// Colours come from the page's style sheet, by class: axis, bar, empty, grid,
// line, track, fill. Coordinates are in units of the picture, which is as wide
// as the page lets it be.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_REPORT_INTERNAL_CHARTS_H_
#define WHEELCACHE_CACHE_REPORT_INTERNAL_CHARTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

struct PictureSize {
  double width;
  double height;
};

// `name` tells those who do not see the picture what it is. Both texts are
// HTML.
WHEELCACHE_EXPORT std::string Picture(absl::string_view name, PictureSize size,
                                      absl::string_view content);

enum class Anchor { kStart, kMiddle, kEnd };

// A label of an axis, from `x`, around it, or up to it. The text is HTML.
WHEELCACHE_EXPORT std::string AxisLabel(double x, double y, Anchor anchor,
                                        absl::string_view text);

WHEELCACHE_EXPORT std::string GridLine(double left, double right, double y);

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

#endif  // WHEELCACHE_CACHE_REPORT_INTERNAL_CHARTS_H_
