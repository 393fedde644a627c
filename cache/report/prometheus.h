// The metrics of all caches of the process, in the text format of Prometheus.
//
//   server.Get("/metrics", [](const Request&, Response& response) {
//     response.set_content(wheelcache::PrometheusText(),
//                          wheelcache::kPrometheusContentType);
//   });
//
// docs/observability.md lists the metrics. Each sample has the label `cache`,
// the name of its cache; from the second cache of a name on, the label `id` as
// well, its number. Every series exists from the creation of its cache on.
// Those of shares have the label `share` instead, and of their caches `member`.
//
// examples/status_server.cc is a whole program.
//
// Threads. Thread-safe. Cost. 4 KB of text and some 40 microseconds for each
// cache. No lock of a cache is taken.

#ifndef WHEELCACHE_CACHE_REPORT_PROMETHEUS_H_
#define WHEELCACHE_CACHE_REPORT_PROMETHEUS_H_

#include <string>

#include "absl/types/span.h"
#include "wheelcache/cache/report/registry.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// The media type of the text.
inline constexpr char kPrometheusContentType[] =
    "text/plain; version=0.0.4; charset=utf-8";

// Returns the metrics of ReportCaches() and ReportShares(), or of these
// reports.
WHEELCACHE_EXPORT std::string PrometheusText();
WHEELCACHE_EXPORT std::string PrometheusText(
    absl::Span<const CacheReport> reports,
    absl::Span<const ShareReport> shares = {});

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_REPORT_PROMETHEUS_H_
