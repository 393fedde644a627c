// Near caches in the reports, the metrics and the status page of the process.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/testing/prometheus_text.h"

namespace wheelcache {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class NearReportTest : public NearEnvironment {
 protected:
  NearReportTest() {
    options_.local.name = "users";
    server_.Set("key", "value");
  }

  // One local hit, one fetch, one fetched absence.
  auto NewUsed() {
    auto near = New<std::string>();
    EXPECT_TRUE(near->Get("key").ok());
    EXPECT_TRUE(near->Get("key").ok());
    EXPECT_TRUE(near->Get("absent").ok());
    return near;
  }
};

TEST_F(NearReportTest, LocalTierCountsEachReadOnce) {
  auto near = NewUsed();
  EXPECT_EQ(near->stats().local.hits, 1);
  EXPECT_EQ(near->stats().local.misses, 2);
  store_.Disconnect();
  EXPECT_TRUE(near->Get("key").ok());
  EXPECT_EQ(near->stats().local.hits, 1);
  EXPECT_EQ(near->stats().local.misses, 3);
  const auto reports = ReportCaches();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].stats.misses, 3);
}

TEST_F(NearReportTest, EntryOfAnOldSessionCountsAsAMiss) {
  options_.stale_if_error = true;
  auto near = NewUsed();
  store_.Disconnect();
  RunFor(absl::Seconds(1));
  EXPECT_EQ(*near->Get("key"), "value");
  EXPECT_EQ(near->GetMany({"key"}).size(), 1);
  EXPECT_EQ(near->stats().local.hits, 2);
  EXPECT_EQ(near->stats().local.misses, 3);
}

TEST_F(NearReportTest, NewStatisticsAreZero) {
  NearCacheStats().ForEachMetric([](const Metric& metric) {
    EXPECT_EQ(metric.value, 0) << metric.name << " " << metric.label;
    if (metric.histogram != nullptr) {
      EXPECT_EQ(metric.histogram->count(), 0);
    }
  });
  EXPECT_EQ(NearCacheStats().reads(), 0);
  EXPECT_EQ(NearCacheStats().local_hit_ratio(), 0);
}

TEST_F(NearReportTest, ReportsHaveTheMetricsOfNearCachesAlone) {
  auto near = NewUsed();
  const auto plain = *Cache<int, int>::Create({});
  const auto reports = ReportCaches();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_THAT(reports[0].near, IsEmpty());
  EXPECT_EQ(reports[1].name, "users");
  size_t metrics = 0;
  near->stats().ForEachMetric([&](const Metric& metric) {
    ASSERT_LT(metrics, reports[1].near.size());
    EXPECT_EQ(reports[1].near[metrics].metric.name, metric.name);
    EXPECT_EQ(reports[1].near[metrics].metric.label, metric.label);
    ++metrics;
  });
  EXPECT_EQ(metrics, reports[1].near.size());
  near.reset();
  EXPECT_THAT(ReportCaches(), SizeIs(1));
}

TEST_F(NearReportTest, RoundTripsAreCountedByTheirTime) {
  auto near = New<std::string>();
  const std::pair<absl::Duration, size_t> cases[] = {
      {absl::Milliseconds(1), 4}, {absl::Microseconds(1001), 5}};
  for (const auto& [time, bucket] : cases) {
    const auto before = near->stats().round_trip;
    Once(Step::kExecuted, [&, took = time] { clock_.Advance(took); });
    EXPECT_TRUE(near->GetFresh("key").ok());
    const auto after = near->stats().round_trip;
    EXPECT_DOUBLE_EQ(after.sum - before.sum, absl::ToDoubleSeconds(time));
    for (size_t i = 0; i < Histogram::kMostBounds; ++i) {
      EXPECT_EQ(after.counts[i] - before.counts[i], i == bucket ? 1 : 0) << i;
    }
  }
}

TEST_F(NearReportTest, ReportOutlivesItsNearCache) {
  auto near = NewUsed();
  const auto reports = ReportCaches();
  near.reset();
  EXPECT_THAT(PrometheusText(reports),
              HasSubstr("wheelcache_near_round_trip_seconds_count"
                        "{cache=\"users\"} 2\n"));
}

TEST_F(NearReportTest, PrometheusHasEachSeriesFromZeroOn) {
  options_.key_prefix = "other:";
  options_.local.name = "zero";
  auto unused = New<std::string>();
  const auto plain = *Cache<int, int>::Create({});
  options_.key_prefix = "key";
  options_.local.name = "users";
  server_.Set("keykey", "value");
  auto near = NewUsed();
  const std::string text = PrometheusText();
  EXPECT_TRUE(testing::ParsePrometheusText(text).ok());
  for (const absl::string_view sample : {
           "reads_total{cache=\"users\",outcome=\"local\"} 1\n",
           "reads_total{cache=\"users\",outcome=\"fetched\"} 1\n",
           "reads_total{cache=\"users\",outcome=\"fetched_absent\"} 1\n",
           "reads_total{cache=\"users\",outcome=\"failed\"} 0\n",
           "sessions_total{cache=\"users\"} 1\n",
           "lease_seconds{cache=\"users\"} 3\n",
           "reads_total{cache=\"zero\",outcome=\"local\"} 0\n",
       }) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("wheelcache_near_", sample)));
  }
  EXPECT_THAT(text, Not(HasSubstr("wheelcache_near_lease_seconds{cache=\"c")));
}

TEST_F(NearReportTest, StatusPageShowsNearCaches) {
  auto near = NewUsed();
  const std::string page = StatusPage();
  EXPECT_EQ(testing::HtmlPage(page).Error(), "");
  EXPECT_THAT(page, HasSubstr("Read locally</h3><b>33"));
  EXPECT_THAT(page, HasSubstr("<h3>Lease</h3><b>3"));
  store_.Disconnect();
  EXPECT_THAT(StatusPage(), HasSubstr("<h3>Lease</h3><b>none</b>"));
  EXPECT_THAT(StatusPage(),
              HasSubstr("data-metric=\"wheelcache_near_losses_total\">1<"));
}

TEST_F(NearReportTest, UnregisteredNearCacheIsNotShown) {
  options_.local.registered = false;
  auto near = NewUsed();
  EXPECT_THAT(ReportCaches(), IsEmpty());
}

}  // namespace
}  // namespace wheelcache
