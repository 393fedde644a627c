// What the program prints: table, JSON, numbers and the progress line.

#include "wheelcache/tools/trace_replay/report.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/number_format.h"
#include "wheelcache/tools/trace_replay/progress_bar.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {
namespace {

ReplayResult SomeResult() {
  ReplayResult result;
  result.counts.requests = 1'234'567;
  result.counts.hits = 600'000;
  result.counts.misses = 200'000;
  result.counts.peak_entries = 10'000;
  result.counts.peak_bytes = 768'000;
  result.counts.get_nanos.Record(28);
  result.counts.get_nanos.Record(1'250);
  result.evictions = 189'999;
  result.expirations = 1;
  result.elapsed = absl::Milliseconds(500);
  return result;
}

TEST(ReportTest, TableIsAligned) {
  Settings settings;
  settings.trace = "oltp.csv";
  settings.replay.max_entries = 10'000;
  settings.replay.ttl = absl::Seconds(60);
  settings.replay.shards = 1;
  EXPECT_EQ(
      TableReport(settings, SomeResult(), std::nullopt),
      R"(oltp.csv: at most 10,000 entries, LRU, TTL 1m, jitter 0.05, 1 shard, 1 thread

  requests                   1,234,567
  hits                         600,000
  misses                       200,000
  hit ratio                     0.7500
  evictions                    189,999
  expirations                        1
  peak entries                  10,000
  peak bytes                   768,000
  requests per second        2,469,134

  latency        p50       p99     p99.9
  Get          28 ns   1.25 us   1.25 us
  Set              -         -         -
)");
}

TEST(ReportTest, TableNamesBothLimitsAndTheSkippedLines) {
  Settings settings;
  settings.replay.max_entries = 10;
  settings.replay.max_bytes = 1'000'000;
  settings.replay.threads = 4;
  const std::string table = TableReport(settings, SomeResult(), 3);
  EXPECT_NE(table.find("built-in workload: at most 10 entries and 1,000,000 "
                       "bytes, LRU, TTL inf, jitter 0.05, shards by size, 4 "
                       "threads\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("  bad lines skipped                  3\n"),
            std::string::npos)
      << table;
}

TEST(ReportTest, JsonHasExactlyThePromisedKeys) {
  EXPECT_EQ(JsonReport(SomeResult(), std::nullopt),
            "{\"requests\": 1234567, \"hits\": 600000, \"misses\": 200000, "
            "\"hit_ratio\": 0.750000, \"evictions\": 189999, "
            "\"expirations\": 1, \"peak_entries\": 10000, "
            "\"peak_bytes\": 768000, \"requests_per_second\": 2469134}\n");
}

TEST(ReportTest, JsonCountsSkippedLinesIfAsked) {
  const std::string json = JsonReport(SomeResult(), 0);
  EXPECT_NE(json.find("2469134, \"bad_lines\": 0}\n"), std::string::npos)
      << json;
}

TEST(ReportTest, ReplayWithoutReadsOrTimeHasNoUndefinedNumbers) {
  EXPECT_EQ(ReplayResult().hit_ratio(), 0);
  EXPECT_EQ(ReplayResult().requests_per_second(), 0);
}

TEST(NumberFormatTest, GroupsThousands) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1'000), "1,000");
  EXPECT_EQ(WithThousands(1'234'567), "1,234,567");
}

TEST(NumberFormatTest, ShowsThreeDigitsOfADuration) {
  EXPECT_EQ(ShortDuration(0), "0 ns");
  EXPECT_EQ(ShortDuration(999), "999 ns");
  EXPECT_EQ(ShortDuration(1'000), "1.00 us");
  EXPECT_EQ(ShortDuration(9'994), "9.99 us");
  EXPECT_EQ(ShortDuration(9'996), "10.0 us");
  EXPECT_EQ(ShortDuration(99'960), "100 us");
  EXPECT_EQ(ShortDuration(999'400), "999 us");
  EXPECT_EQ(ShortDuration(999'600), "1.00 ms");
  EXPECT_EQ(ShortDuration(17'300'000), "17.3 ms");
  EXPECT_EQ(ShortDuration(2'000'000'000), "2.00 s");
  EXPECT_EQ(ShortDuration(7'200'000'000'000), "7200 s");
}

TEST(ProgressLineTest, ShowsShareRequestsAndRemainingTime) {
  EXPECT_EQ(ProgressLine(0.25, 1'000'000, std::chrono::seconds(2)),
            "[#######.......................]  25%  1,000,000 requests, 6 s "
            "left");
  EXPECT_EQ(ProgressLine(1, 10, std::chrono::seconds(2)),
            "[##############################] 100%  10 requests, 0 s left");
}

TEST(ProgressLineTest, ShowsRequestsAloneWhereTheEndIsUnknown) {
  EXPECT_EQ(ProgressLine(std::nullopt, 4'096, std::chrono::seconds(2)),
            "4,096 requests");
}

TEST(ProgressLineTest, ClampsAShareOutOfRange) {
  // A file that grows while it is read.
  EXPECT_EQ(ProgressLine(1.5, 10, std::chrono::seconds(2)),
            "[##############################] 100%  10 requests, 0 s left");
  EXPECT_EQ(ProgressLine(0, 0, std::chrono::seconds(0)),
            "[..............................]   0%  0 requests");
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
