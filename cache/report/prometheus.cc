#include "wheelcache/cache/report/prometheus.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache {
namespace {

absl::string_view TypeOf(const Metric& metric) {
  switch (metric.kind) {
    case Metric::Kind::kCounter:
      return "counter";
    case Metric::Kind::kGauge:
      return "gauge";
    case Metric::Kind::kHistogram:
      break;
  }
  return "histogram";
}

// Whole numbers exactly, up to 2^53; others as short as they can be.
std::string FormatNumber(double value) {
  if (std::isinf(value)) return "+Inf";
  return value == std::floor(value) ? absl::StrFormat("%.0f", value)
                                    : absl::StrFormat("%.15g", value);
}

// The metrics of one name, of all caches.
class Family {
 public:
  explicit Family(const Metric& metric)
      : name_(metric.name),
        text_(absl::StrCat("# HELP ", name_, " ", metric.help, "\n# TYPE ",
                           name_, " ", TypeOf(metric), "\n")) {}

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }

  // `labels` are those of the cache.
  void Add(absl::string_view labels, const Metric& metric) {
    if (metric.histogram != nullptr) {
      AddHistogram(labels, *metric.histogram);
    } else if (metric.label.empty()) {
      AddSample("", labels, metric.value);
    } else {
      AddSample("", absl::StrCat(labels, ",", metric.label), metric.value);
    }
  }

 private:
  void AddHistogram(absl::string_view labels, const Histogram& histogram) {
    int64_t count = 0;  // Buckets are cumulative.
    for (size_t i = 0; i < histogram.bounds.size(); ++i) {
      count += histogram.counts[i];
      AddSample("_bucket",
                absl::StrCat(labels, ",le=\"",
                             FormatNumber(histogram.bounds[i]), "\""),
                static_cast<double>(count));
    }
    count += histogram.counts[histogram.bounds.size()];
    AddSample("_bucket", absl::StrCat(labels, ",le=\"+Inf\""),
              static_cast<double>(count));
    AddSample("_sum", labels, histogram.sum);
    AddSample("_count", labels, static_cast<double>(count));
  }

  void AddSample(absl::string_view suffix, absl::string_view labels,
                 double value) {
    absl::StrAppend(&text_, name_, suffix, "{", labels, "} ",
                    FormatNumber(value), "\n");
  }

  std::string name_;
  std::string text_;
};

std::string LabelsOf(const CacheReport& report) {
  std::string labels =
      absl::StrCat("cache=\"", internal::EscapeLabel(report.name), "\"");
  if (report.id > 1) absl::StrAppend(&labels, ",id=\"", report.id, "\"");
  return labels;
}

}  // namespace

std::string PrometheusText() { return PrometheusText(ReportCaches()); }

std::string PrometheusText(absl::Span<const CacheReport> reports) {
  std::vector<Family> families;
  for (const CacheReport& report : reports) {
    const std::string labels = LabelsOf(report);
    // Metrics come in the same order each time, those of near caches last.
    size_t next = 0;
    report.ForEachMetric([&](const Metric& metric) {
      if (next == 0 || families[next - 1].name() != metric.name) {
        if (next == families.size()) families.emplace_back(metric);
        ++next;
      }
      families[next - 1].Add(labels, metric);
    });
  }
  std::string text;
  for (const Family& family : families) text += family.text();
  return text;
}

}  // namespace wheelcache
