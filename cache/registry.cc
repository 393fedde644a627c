#include "wheelcache/cache/registry.h"

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/engine_registry.h"
#include "wheelcache/cache/internal/engine/report_extension.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache {
namespace {

KeptMetric Keep(const Metric& metric) {
  KeptMetric kept{metric, nullptr};
  if (metric.histogram != nullptr) {
    kept.histogram = std::make_shared<const Histogram>(*metric.histogram);
    kept.metric.histogram = kept.histogram.get();
  }
  return kept;
}

void Extend(const internal::ReportExtension& extension, CacheReport* report) {
  extension.Correct(&report->stats);
  extension.ForEachMetric(
      [&](const Metric& metric) { report->near.push_back(Keep(metric)); });
}

}  // namespace

void CacheReport::ForEachMetric(
    absl::FunctionRef<void(const Metric&)> visit) const {
  stats.ForEachMetric(visit);
  for (const KeptMetric& kept : near) visit(kept.metric);
}

std::vector<CacheReport> ReportCaches() {
  using internal::EngineRegistry;
  std::vector<CacheReport> reports;
  EngineRegistry::Get().ForEach([&](const EngineRegistry::Item& item) {
    CacheReport& report = reports.emplace_back();
    report.name = item.name;
    report.id = item.id;
    report.stats = item.engine.stats();
    const auto extension = item.extensions.find(&item.engine.options());
    if (extension != item.extensions.end()) {
      Extend(*extension->second, &report);
    }
    if (item.history == nullptr) return;
    item.history->Add(
        {item.engine.clock().Now(), report.stats.hits, report.stats.misses});
    report.samples = item.history->All();
  });
  return reports;
}

}  // namespace wheelcache
