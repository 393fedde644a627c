// The metrics as Prometheus reads them.

#include "wheelcache/cache/prometheus.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/prometheus_text.h"

namespace wheelcache {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::ParsePrometheusText;
using testing::PrometheusSamples;

class PrometheusTest : public CacheEnvironment {
 protected:
  static PrometheusSamples Read() {
    const std::string text = PrometheusText();
    auto samples = ParsePrometheusText(text);
    EXPECT_TRUE(samples.ok()) << samples.status() << "\n" << text;
    return samples.ok() ? *samples : PrometheusSamples();
  }
};

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

TEST_F(PrometheusTest, LimitThatIsNotSetIsInfinite) {
  auto cache = New<int, int>();
  EXPECT_TRUE(absl::StrContains(
      PrometheusText(), "\nwheelcache_max_bytes{cache=\"cache\"} +Inf\n"));
}

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

TEST_F(PrometheusTest, LargeNumbersAreExact) {
  CacheReport report;
  report.stats.hits = 123'456'789'012'345;
  EXPECT_TRUE(absl::StrContains(PrometheusText({report}),
                                "{cache=\"\"} 123456789012345\n"));
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

}  // namespace
}  // namespace wheelcache
