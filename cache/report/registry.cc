#include "wheelcache/cache/report/registry.h"

#include <cstddef>

#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/report_source.h"

namespace wheelcache {

namespace {

// Half an hour of a Prometheus that looks every 15 seconds.
constexpr size_t kMostSamples = 120;
constexpr absl::Duration kSpacing = absl::Seconds(5);

// The oldest make way for new ones.
void AddSample(const CacheSample& sample, std::vector<CacheSample>* samples) {
  if (!samples->empty() && sample.time < samples->back().time + kSpacing) {
    return;
  }
  if (samples->size() == kMostSamples) samples->erase(samples->begin());
  samples->push_back(sample);
}

KeptMetric Keep(const Metric& metric) {
  KeptMetric kept{metric, nullptr};
  if (metric.histogram != nullptr) {
    kept.histogram = std::make_shared<const Histogram>(*metric.histogram);
    kept.metric.histogram = kept.histogram.get();
  }
  return kept;
}

}  // namespace

void CacheReport::ForEachMetric(
    absl::FunctionRef<void(const Metric&)> visit) const {
  stats.ForEachMetric(visit);
  for (const KeptMetric& kept : near) visit(kept.metric);
}

std::vector<CacheReport> ReportCaches() {
  std::vector<CacheReport> reports;
  internal::ReportSource::ForEach([&](internal::ReportSource& source) {
    if (source.is_share()) return;
    CacheReport& report = reports.emplace_back();
    report.name = source.name();
    report.id = source.id();
    report.stats = source.stats();
    source.ForEachMoreMetric(
        [&](const Metric& metric) { report.near.push_back(Keep(metric)); });
    AddSample({source.clock().Now(), report.stats.hits, report.stats.misses},
              &source.samples);
    report.samples = source.samples;
  });
  return reports;
}

std::vector<ShareReport> ReportShares() {
  std::vector<ShareReport> reports;
  internal::ReportSource::ForEach([&](internal::ReportSource& source) {
    if (!source.is_share()) return;
    reports.push_back({source.name(), source.id(), source.clock().Now(),
                       source.share_stats()});
  });
  return reports;
}

}  // namespace wheelcache
