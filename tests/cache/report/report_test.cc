// The caches and near caches of the process, while they come, go and fork, and
// their metrics as Prometheus reads them.

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/internal/engine/report_source.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/report/prometheus.h"
#include "wheelcache/cache/report/registry.h"
#include "wheelcache/cache/report/status_page.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/html_page.h"
#include "wheelcache/tests/testing/prometheus_text.h"

namespace wheelcache {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using testing::ParsePrometheusText;
using testing::PrometheusSamples;
using ::testing::SizeIs;

class RegistryTest : public CacheEnvironment {
 protected:
  using IntCache = Cache<int, int>;

  std::unique_ptr<IntCache> Make(const std::string& name) {
    options_.name = name;
    return New<int, int>();
  }

  // Each as its name and id.
  static std::vector<std::string> Registered() {
    std::vector<std::string> names;
    for (const CacheReport& report : ReportCaches()) {
      names.push_back(absl::StrCat(report.name, " ", report.id));
    }
    return names;
  }
};
TEST_F(RegistryTest, CacheIsRegisteredFromItsCreationToItsEnd) {
  EXPECT_THAT(Registered(), IsEmpty());
  auto b = Make("b");
  auto a = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "b 1"));
  b.reset();
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
  a.reset();
  EXPECT_THAT(Registered(), IsEmpty());
}

TEST_F(RegistryTest, CacheMayStayOut) {
  options_.registered = false;
  auto hidden = Make("hidden");
  options_.registered = true;
  auto shown = Make("shown");
  EXPECT_THAT(Registered(), ElementsAre("shown 1"));
}

TEST_F(RegistryTest, CachesOfOneNameGetTheLowestFreeId) {
  std::vector<std::unique_ptr<IntCache>> caches;
  for (int i = 0; i < 4; ++i) caches.push_back(Make("a"));
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 3", "a 4"));
  caches[1].reset();
  caches[2].reset();
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 4"));
  caches[1] = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 4"));
  caches[3].reset();  // The last of them, with a gap before it.
  caches[2] = Make("a");
  caches[3] = Make("a");
  auto fifth = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 3", "a 4", "a 5"));
  caches.clear();
  EXPECT_THAT(Registered(), ElementsAre("a 5"));
  fifth.reset();
  fifth = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
}

TEST_F(RegistryTest, EachLookAfterFiveSecondsLeavesASample) {
  auto cache = Make("a");
  const auto look = [] { return ReportCaches()[0].samples; };
  EXPECT_EQ(look().size(), 1u);
  clock_.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  (void)cache->Get(1);
  EXPECT_EQ(look().size(), 1u);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(look().size(), 2u);
  clock_.Advance(absl::Hours(1));
  cache->Set(1, 1);
  (void)cache->Get(1);
  (void)PrometheusText();  // Is a look, too.
  const std::vector<CacheSample> samples = look();
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].misses, 0);
  EXPECT_EQ(samples[1].misses, 1);
  EXPECT_EQ(samples[2].hits, 1);
  EXPECT_EQ(samples[2].time - samples[1].time, absl::Hours(1));
}

TEST_F(RegistryTest, OldSamplesMakeWayForNewOnes) {
  auto cache = Make("a");
  for (int i = 0; i < 250; ++i) {
    (void)cache->Get(1);
    (void)ReportCaches();
    clock_.Advance(absl::Seconds(5));
  }
  const std::vector<CacheSample> samples = ReportCaches()[0].samples;
  ASSERT_EQ(samples.size(), 120u);
  EXPECT_EQ(samples.back().misses, 250);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].time - samples[i - 1].time, absl::Seconds(5));
  }
}

TEST_F(RegistryTest, NextCacheOfANameHasNoSamplesOfTheLast) {
  auto first = Make("a");
  auto second = Make("a");
  (void)ReportCaches();
  clock_.Advance(absl::Seconds(5));
  (void)ReportCaches();
  first.reset();
  first = Make("a");
  EXPECT_EQ(ReportCaches()[0].samples.size(), 1u);
  EXPECT_EQ(ReportCaches()[1].samples.size(), 2u);
}

// Promise: Observable
TEST_F(RegistryTest, CachesMayComeAndGoWhileOthersLook) {
  constexpr int kRounds = 300;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    CacheOptions options = options_;
    threads.emplace_back([options, t]() mutable {
      for (int i = 0; i < kRounds; ++i) {
        options.name = absl::StrCat("name ", (i + t) % 2);
        options.max_entries = 2;
        auto cache = *IntCache::Create(options);
        for (int key = 0; key < 5; ++key) cache->Set(key, key);
      }
    });
  }
  std::thread looker([&] {
    while (!done.load()) {
      for (const CacheReport& report : ReportCaches()) {
        const CacheStats& stats = report.stats;
        EXPECT_LE(stats.entries, 2);
        EXPECT_LE(stats.evictions, 3);
        EXPECT_EQ(stats.evictions, stats.eviction_age.count());
      }
      (void)PrometheusText();
      (void)StatusPage();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  looker.join();
  EXPECT_THAT(Registered(), IsEmpty());
}

// A value whose destructor looks at all caches, its own included.
struct Looks {
  Looks() = default;
  Looks(const Looks&) = default;
  ~Looks() { (void)PrometheusText(); }
};
TEST_F(RegistryTest, DestructorsOfValuesMayLook) {
  auto cache = New<int, Looks>();
  cache->Set(1, Looks());
  cache->Set(1, Looks());
  cache.reset();
  EXPECT_THAT(Registered(), IsEmpty());
}

TEST_F(RegistryTest, ChildOfForkHasTheCachesOfItsParent) {
  auto a = Make("a");
  a->Set(1, 1);
  EXPECT_TRUE(testing::HoldsInChild([&] {
    auto b = Make("b");
    const bool both = Registered() == std::vector<std::string>{"a 1", "b 1"};
    a.reset();
    return both && Registered() == std::vector<std::string>{"b 1"};
  }));
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
}

// Ends the program well if it finds the one static cache, and looks again while
// static objects end.
void LookAtAStaticCacheAndExit() {
  CacheOptions options;
  options.reaper = nullptr;
  static const auto cache = *Cache<int, int>::Create(options);
  struct LastLook {
    ~LastLook() { (void)PrometheusText(); }
  };
  static const LastLook look;
  std::exit(ReportCaches().size() == 1 ? 0 : 1);
}
TEST(RegistryDeathTest, StaticCachesMayEndAfterTheRegistryWasUsed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LookAtAStaticCacheAndExit(), ::testing::ExitedWithCode(0), "");
}

// As Prometheus reads them.

class PrometheusTest : public CacheEnvironment {
 protected:
  static PrometheusSamples Read() {
    const std::string text = PrometheusText();
    auto samples = ParsePrometheusText(text);
    EXPECT_TRUE(samples.ok()) << samples.status() << "\n" << text;
    return samples.ok() ? *samples : PrometheusSamples();
  }
};
// Promise: Observable
TEST_F(PrometheusTest, EveryNumberOfTheStatisticsIsAMetricOfItsOwn) {
  // All members up to the first histogram are numbers, each a different one.
  constexpr size_t kNumbers = offsetof(CacheStats, eviction_age) / 8;
  CacheStats stats;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < kNumbers; ++i) {
    numbers.push_back(static_cast<int64_t>(i) + 1);
  }
  std::memcpy(static_cast<void*>(&stats), numbers.data(), kNumbers * 8);
  std::set<double> shown;
  std::set<std::string> series;
  int histograms = 0;
  stats.ForEachMetric([&](const Metric& metric) {
    EXPECT_TRUE(series.insert(absl::StrCat(metric.name, metric.label)).second);
    if (metric.histogram == nullptr) {
      // Times are counted in nanoseconds, and shown in seconds.
      const bool seconds = absl::StrContains(metric.name, "_seconds_");
      shown.insert(seconds ? std::round(metric.value * 1e9) : metric.value);
    } else {
      ++histograms;
    }
  });
  EXPECT_EQ(shown, std::set<double>(numbers.begin(), numbers.end()));
  EXPECT_EQ(histograms, 2);
}

TEST_F(PrometheusTest, ValuesAreThoseOfTheStatistics) {
  options_.name = "users";
  options_.max_entries = 2;
  auto cache = New<int, int>();
  for (int i = 0; i < 5; ++i) cache->Set(i, i, absl::Seconds(10));
  (void)cache->Get(4);
  (void)cache->Get(0);
  cache->Del(4);
  cache->Set(3, 0);
  cache->Set(9, 0, absl::ZeroDuration());
  clock_.Advance(absl::Seconds(20));
  const auto samples = Read();
  const auto of = [&](const std::string& name) {
    return samples.at(absl::StrCat("wheelcache_", name, "{cache=\"users\"}"));
  };
  const auto removals = [&](const std::string& cause) {
    return samples.at(absl::StrCat("wheelcache_removals_total{cache=\"users\",",
                                   "cause=\"", cause, "\"}"));
  };
  const CacheStats stats = cache->stats();
  EXPECT_EQ(of("hits_total"), 1);
  EXPECT_EQ(of("misses_total"), 1);
  EXPECT_EQ(of("sets_total"), 6);
  EXPECT_EQ(of("refused_total"), 1);
  EXPECT_EQ(removals("evicted"), 3);
  EXPECT_EQ(removals("deleted"), 1);
  EXPECT_EQ(removals("replaced"), 1);
  EXPECT_EQ(removals("expired"), 0);
  EXPECT_EQ(of("entries"), 1);
  EXPECT_EQ(of("max_entries"), 2);
  EXPECT_EQ(of("charged_bytes"), static_cast<double>(stats.bytes));
  EXPECT_EQ(of("resident_bytes"), static_cast<double>(stats.resident_bytes));
  EXPECT_EQ(of("eviction_age_seconds_count"), 3);
}

// Promise: Observable
TEST_F(PrometheusTest, EverySeriesExistsFromZeroOn) {
  options_.max_entries = 1;
  auto used = New<int, int>();
  for (int i = 0; i < 9; ++i) {
    clock_.Advance(absl::Hours(i * i * i));
    used->Set(i, i, absl::Hours(1000));
  }
  const size_t series = Read().size();
  used.reset();
  const auto fresh = New<int, int>();
  const auto samples = Read();
  EXPECT_EQ(samples.size(), series);
  for (const auto& [name, value] : samples) {
    const bool limit = absl::StrContains(name, "max_");
    EXPECT_TRUE(limit || value == 0) << name;
  }
}

TEST_F(PrometheusTest, BucketsAreCumulativeAndInclusive) {
  options_.max_entries = 1;
  auto cache = New<int, int>();
  cache->Set(1, 1);
  clock_.Advance(absl::Milliseconds(100));
  cache->Set(2, 2);  // Evicts a value of exactly 0.1 s.
  clock_.Advance(absl::Milliseconds(120));
  cache->Set(3, 3);
  clock_.Advance(absl::Hours(24 * 31));
  cache->Set(4, 4);
  const auto samples = Read();
  const auto bucket = [&](const std::string& bound) {
    return samples.at(absl::StrCat(
        "wheelcache_eviction_age_seconds_bucket{cache=\"cache\",le=\"", bound,
        "\"}"));
  };
  EXPECT_EQ(bucket("0.1"), 1);
  EXPECT_EQ(bucket("0.3"), 2);
  EXPECT_EQ(bucket("2592000"), 2);
  EXPECT_EQ(bucket("+Inf"), 3);
  EXPECT_DOUBLE_EQ(
      samples.at("wheelcache_eviction_age_seconds_sum{cache=\"cache\"}"),
      0.1 + 0.12 + 31 * 86400);
  EXPECT_EQ(
      samples.at("wheelcache_eviction_life_left_ratio_count{cache=\"cache\"}"),
      0);
}

TEST_F(PrometheusTest, NamesAreEscaped) {
  options_.name = "a\\b\"c\nd{}=,\xC3\xA9\xFF";
  auto cache = New<int, int>();
  EXPECT_EQ(Read().count("wheelcache_entries{cache=\"a\\\\b\\\"c\\nd{}=,"
                         "\xC3\xA9\xEF\xBF\xBD\"}"),
            1u);
}

TEST_F(PrometheusTest, CachesOfOneNameHaveSeriesOfTheirOwn) {
  auto first = New<int, int>();
  auto second = New<int, int>();
  second->Set(1, 1);
  const auto samples = Read();
  EXPECT_EQ(samples.at("wheelcache_entries{cache=\"cache\"}"), 0);
  EXPECT_EQ(samples.at("wheelcache_entries{cache=\"cache\",id=\"2\"}"), 1);
}

TEST_F(PrometheusTest, NoCacheGivesAnEmptyText) {
  EXPECT_THAT(PrometheusText(), IsEmpty());
}

// The judge is judged.
TEST(ParsePrometheusTextTest, RefusesWhatPrometheusRefuses) {
  const std::string head = "# HELP a_total Text.\n# TYPE a_total counter\n";
  EXPECT_TRUE(ParsePrometheusText(head + "a_total{b=\"c\"} 1\n").ok());
  const std::string histogram = "# HELP h Text.\n# TYPE h histogram\n";
  EXPECT_TRUE(ParsePrometheusText(histogram +
                                  "h_bucket{le=\"1\"} 1\n"
                                  "h_bucket{le=\"+Inf\"} 2\nh_count 2\n")
                  .ok());
  for (const std::string& bad : {
           head + "a_total{b=\"c\"} 1",
           head + "a_total{b=\"c\"} x\n",
           head + "a_total{b=\"c\"} -1\n",
           head + "a_total{b=\"\\c\"} 1\n",
           head + "a_total{b=\"c\"\"} 1\n",
           head + "a_total{b=\"c\",b=\"d\"} 1\n",
           head + "a_total{1b=\"c\"} 1\n",
           head + "a_total 1\na_total 1\n",
           head + "b_total 1\n",
           head + head,
           std::string("a_total 1\n"),
           std::string("# HELP a_total Text.\na_total 1\n"),
           std::string("# HELP a Text.\n# TYPE a counter\na 1\n"),
           std::string("# HELP a_total Text.\n# TYPE a_total gauge\n"),
           std::string("# HELP a_ms Text.\n# TYPE a_ms gauge\n"),
           histogram + "h_bucket{le=\"1\"} 1\nh_count 1\n",
           histogram + "h_bucket{le=\"+Inf\"} 1\nh_count 2\n",
           histogram +
               "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_count 1\n",
           histogram + "h_bucket{le=\"+Inf\"} 1\n",
       }) {
    EXPECT_FALSE(ParsePrometheusText(bad).ok()) << bad;
  }
}

// Near caches.

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

// Not once more when it fetches what it has missed.
TEST_F(NearReportTest, AdviceOfTheLocalTierCountsEachMissOnce) {
  options_.local.advise = true;
  options_.local.max_entries = 1000;
  auto near = New<std::string>();
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(near->Get(absl::StrCat(i)).ok());
  EXPECT_NEAR(near->stats().local.advice->first_uses, 500, 50);
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

// Those that some caches lack are not taken for others.
TEST(PrometheusTextTest, AMetricOfSomeCachesIsOfItsOwnName) {
  std::vector<CacheReport> reports(3);
  reports[0].name = "advised";
  reports[0].stats.advice.emplace();
  reports[1].name = "near";
  reports[1].near.push_back({{"wheelcache_near_writes_total", "Writes.", "",
                              Metric::Kind::kCounter, 7}});
  reports[2] = reports[0];
  reports[2].name = "both";
  reports[2].near = reports[1].near;
  const std::string text = PrometheusText(reports);
  EXPECT_TRUE(ParsePrometheusText(text).ok()) << text;
  EXPECT_THAT(text,
              HasSubstr("# TYPE wheelcache_near_writes_total counter\n"
                        "wheelcache_near_writes_total{cache=\"near\"} 7\n"
                        "wheelcache_near_writes_total{cache=\"both\"} 7\n"));
}

}  // namespace
}  // namespace wheelcache
