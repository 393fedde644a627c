#include "wheelcache/cache/registry.h"

#include <vector>

#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/engine_registry.h"
#include "wheelcache/cache/stats.h"

namespace wheelcache {

std::vector<CacheReport> ReportCaches() {
  using internal::EngineRegistry;
  std::vector<CacheReport> reports;
  EngineRegistry::Get().ForEach([&](const EngineRegistry::Item& item) {
    CacheReport& report = reports.emplace_back();
    report.name = item.name;
    report.id = item.id;
    report.stats = item.engine.stats();
    if (item.history == nullptr) return;
    item.history->Add(
        {item.engine.clock().Now(), report.stats.hits, report.stats.misses});
    report.samples = item.history->All();
  });
  return reports;
}

}  // namespace wheelcache
