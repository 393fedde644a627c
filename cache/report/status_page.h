// A page that shows how all caches of the process fare: limits and use, hit
// ratio over time, why entries left and at what age, and what that advises.
//
//   server.Get("/caches", [](const Request&, Response& response) {
//     response.set_content(wheelcache::StatusPage(), "text/html");
//   });
//
// One HTML document, complete in itself: no script, and nothing from elsewhere.
// It is readable on a phone and in dark mode, and each number of CacheStats
// stands in it under its name in Prometheus. Names of caches are escaped.
//
// Over time. No thread takes samples: the chart of the hit ratio has a point
// for each look at the caches, be it by this page or by a Prometheus that calls
// PrometheusText. It begins with the second look; see CacheReport::samples.
//
// Who may see it. It tells the names and the traffic of caches, and no key or
// value. Serve it where you serve your metrics.
//
// examples/status_server.cc is a whole program.
//
// Many caches. Of more than fifty it shows the fifty that need attention first:
// those with the most advice, and of these, those with the most misses.
//
// Threads. Thread-safe. Cost. Some 10 KB and 80 microseconds for each cache. No
// lock of a cache is taken.

#ifndef WHEELCACHE_CACHE_REPORT_STATUS_PAGE_H_
#define WHEELCACHE_CACHE_REPORT_STATUS_PAGE_H_

#include <string>

#include "absl/types/span.h"
#include "wheelcache/cache/report/registry.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// Returns the page, in UTF-8, of ReportCaches() and ReportShares(), or of these
// reports.
WHEELCACHE_EXPORT std::string StatusPage();
WHEELCACHE_EXPORT std::string StatusPage(
    absl::Span<const CacheReport> reports,
    absl::Span<const ShareReport> shares = {});

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_REPORT_STATUS_PAGE_H_
