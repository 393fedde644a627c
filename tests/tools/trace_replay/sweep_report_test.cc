#include "wheelcache/tools/trace_replay/sweep_report.h"

#include <optional>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Sweep SmallSweep() {
  constexpr Policy kFirst = {EvictionPolicy::kLru, "first", "First",
                             "Policy::kFirst"};
  Sweep sweep;
  sweep.requests = 12'345;
  sweep.reads = 1000;
  sweep.keys = 2000;
  sweep.limits = {1000, 2000};
  sweep.curves = {{kFirst, absl::Minutes(5), {500, 625}},
                  {kFirst, absl::InfiniteDuration(), {600, 750}}};
  sweep.bounds = {{absl::Minutes(5), {700, 800}},
                  {absl::InfiniteDuration(), {900, 900}}};
  sweep.samples = {{absl::Minutes(5), {1000, 1500}, {0.49, 0.51}},
                   {absl::InfiniteDuration(), {1000}, {0.61}}};
  return sweep;
}

TEST(SweepReportTest, TableHasARowForEachLimitOfEachTtl) {
  EXPECT_EQ(SweepTable("oltp.csv", SmallSweep(), std::nullopt),
            "oltp.csv: hit ratio by max_entries\n"
            "12,345 requests, 1,000 reads, 2,000 keys\n"
            "\n"
            "TTL 5m\n"
            "       max_entries           First  Belady's bound\n"
            "             1,000          0.5000          0.7000  knee\n"
            "             2,000          0.6250          0.8000\n"
            "\n"
            "TTL inf\n"
            "       max_entries           First  Belady's bound\n"
            "             1,000          0.6000          0.9000  knee\n"
            "             2,000          0.7500          0.9000\n"
            "\n"
            "Choose max_entries = 1,000, Policy::kFirst and no TTL: 60.0 % of "
            "the reads hit; twice as much would gain 15.0 points.\n");
}

TEST(SweepReportTest, TableNamesTheSourceAndTheBadLines) {
  EXPECT_THAT(SweepTable("-", SmallSweep(), 17),
              StartsWith("standard input: hit ratio by max_entries\n"
                         "12,345 requests, 1,000 reads, 2,000 keys, 17 bad "
                         "lines skipped\n"));
}

TEST(SweepReportTest, BytesHaveABoundOfAnotherName) {
  Sweep sweep = SmallSweep();
  sweep.by = SweepBy::kBytes;
  EXPECT_THAT(
      SweepTable("t.csv", sweep, std::nullopt),
      HasSubstr("         max_bytes           First     Upper bound\n"));
  EXPECT_THAT(SweepJson(sweep, std::nullopt), HasSubstr("\"by\": \"bytes\""));
}

TEST(SweepReportTest, JsonHasEveryFigure) {
  EXPECT_EQ(SweepJson(SmallSweep(), std::nullopt),
            R"({"requests": 12345, "reads": 1000, "keys": 2000, "by": "entries",
 "limits": [1000, 2000],
 "curves": [{"policy": "first", "ttl": "5m", "hits": [500, 625], "hit_ratios": [0.500000, 0.625000]},
  {"policy": "first", "ttl": "inf", "hits": [600, 750], "hit_ratios": [0.600000, 0.750000]}],
 "bounds": [{"ttl": "5m", "hits": [700, 800], "hit_ratios": [0.700000, 0.800000]},
  {"ttl": "inf", "hits": [900, 900], "hit_ratios": [0.900000, 0.900000]}],
 "samples": [{"ttl": "5m", "limits": [1000, 1500], "hit_ratios": [0.490000, 0.510000]},
  {"ttl": "inf", "limits": [1000], "hit_ratios": [0.610000]}],
 "choice": {"limit": 1000, "policy": "first", "ttl": "inf", "hit_ratio": 0.600000},
 "advice": "Choose max_entries = 1,000, Policy::kFirst and no TTL: 60.0 % of the reads hit; twice as much would gain 15.0 points."}
)");
  EXPECT_THAT(SweepJson(SmallSweep(), 3), EndsWith(", \"bad_lines\": 3}\n"));
}

}  // namespace
}  // namespace wheelcache::replay
