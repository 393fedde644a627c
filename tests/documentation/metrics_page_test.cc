// docs/observability.md lists the metrics that there are, and no others.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/stats.h"

namespace wheelcache {
namespace {

absl::string_view NameOf(Metric::Kind kind) {
  switch (kind) {
    case Metric::Kind::kCounter:
      return "counter";
    case Metric::Kind::kGauge:
      return "gauge";
    case Metric::Kind::kHistogram:
      break;
  }
  return "histogram";
}

TEST(MetricsPageTest, TableHasEachMetricInItsOrder) {
  std::stringstream page;
  page << std::ifstream("docs/observability.md").rdbuf();
  std::vector<std::string> rows;
  for (absl::string_view line : absl::StrSplit(page.str(), '\n')) {
    if (absl::StartsWith(line, "| `wheelcache_")) rows.emplace_back(line);
  }
  std::vector<std::string> metrics;
  const auto add = [&](const Metric& metric) {
    const std::string label =
        metric.label.empty() ? "" : absl::StrCat("{", metric.label, "}");
    metrics.push_back(absl::StrCat("| `", metric.name, label, "` | ",
                                   NameOf(metric.kind), " | ", metric.help,
                                   " |"));
  };
  CacheStats stats;
  stats.advice = CacheAdvice();
  stats.ForEachMetric(add);
  NearCacheStats().ForEachMetric(add);
  EXPECT_THAT(rows, ::testing::ElementsAreArray(metrics));
}

}  // namespace
}  // namespace wheelcache
