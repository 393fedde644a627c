// A replay: every count is that of an oracle, and threads, errors and the table
// are as promised.

#include <algorithm>
#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache::replay {
namespace {

using ::testing::HasSubstr;

ReplayResult ReplayAll(RequestSource&& source, const ReplayOptions& options) {
  absl::StatusOr<ReplayResult> result = Replay(source, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ReplayResult());
}

// An LRU list with deadlines, simple enough to be obviously correct: each rule
// of the replayer a second time. Time never goes back; expired entries leave
// first, then the least recently used ones.
class LruOracle {
 public:
  explicit LruOracle(const ReplayOptions& options)
      : options_(options), overhead_(OverheadPerEntry(options).value()) {}

  void Play(const Request& request) {
    now_ = std::max(now_, absl::Seconds(request.timestamp_seconds));
    const auto entry = FindLive(request.key);
    const bool present = entry != entries_.end();
    switch (request.operation) {
      case Operation::kGet:
      case Operation::kGets:
        ++(present ? hits : misses);
        if (present) entries_.splice(entries_.begin(), entries_, entry);
        if (!present && options_.read_through) Set(request);
        break;
      case Operation::kSet:
        Set(request);
        break;
      case Operation::kAdd:
        if (present) entries_.splice(entries_.begin(), entries_, entry);
        if (!present) Set(request);
        break;
      case Operation::kReplace:
      case Operation::kCas:
        if (present) Set(request);
        break;
      case Operation::kAppend:
      case Operation::kPrepend:
        if (present) Set(Grown(*entry, request.value_size));
        break;
      case Operation::kIncr:
      case Operation::kDecr:
        if (present) Set(*entry);
        break;
      case Operation::kDelete:
        if (present) entries_.erase(entry);
        break;
    }
  }

  int64_t hits = 0;
  int64_t misses = 0;
  int64_t evictions = 0;
  int64_t expirations = 0;
  int64_t peak_entries = 0;
  int64_t peak_bytes = 0;

 private:
  struct Entry {
    std::string key;
    int64_t bytes;
    absl::Duration deadline;
  };

  std::list<Entry>::iterator FindLive(absl::string_view key) {
    const auto before = static_cast<int64_t>(entries_.size());
    entries_.remove_if([&](const Entry& e) { return e.deadline <= now_; });
    expirations += before - static_cast<int64_t>(entries_.size());
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& e) { return e.key == key; });
  }

  static Entry Grown(Entry entry, int64_t bytes) {
    entry.bytes += bytes;
    return entry;
  }

  void Set(const Request& request) {
    const absl::Duration ttl = request.ttl_seconds == 0
                                   ? options_.ttl
                                   : absl::Seconds(request.ttl_seconds);
    Set({std::string(request.key),
         overhead_ + request.key_size + request.value_size, now_ + ttl});
  }

  // Takes a copy: the caller's entry may be the one that is replaced.
  void Set(Entry entry) {
    entries_.remove_if([&](const Entry& e) { return e.key == entry.key; });
    if (entry.bytes > options_.max_bytes) return;
    while (static_cast<int64_t>(entries_.size()) >= options_.max_entries ||
           Bytes() > options_.max_bytes - entry.bytes) {
      entries_.pop_back();
      ++evictions;
    }
    entries_.push_front(std::move(entry));
    peak_entries =
        std::max(peak_entries, static_cast<int64_t>(entries_.size()));
    peak_bytes = std::max(peak_bytes, Bytes());
  }

  int64_t Bytes() const {
    int64_t bytes = 0;
    for (const Entry& entry : entries_) bytes += entry.bytes;
    return bytes;
  }

  const ReplayOptions options_;
  const int64_t overhead_;
  absl::Duration now_;
  std::list<Entry> entries_;  // The most recently used first.
};

ReplayOptions RandomOptions(Random& random) {
  ReplayOptions options = Exact();
  options.read_through = !random.OneIn(4);
  if (random.OneIn(2)) options.ttl = absl::Seconds(random.From(1, 60));
  if (random.OneIn(2)) options.max_entries = random.From(1, 50);
  if (random.OneIn(2)) options.max_bytes = random.From(200, 8'200);
  return options;
}

TEST(ReplayTest, EveryCountIsThatOfTheOracle) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ReplayOptions options = RandomOptions(random);
    // Time may jump to its end.
    const std::string trace =
        absl::StrCat("0,old,1,1,0,set,4294967295\n", RandomTrace(random, 3'000),
                     "9000000000,old,1,1,0,get,4294967295\n"
                     "9000000000,old,1,1,0,get,0\n");
    LruOracle oracle(options);
    TextSource for_oracle(trace);
    Request request;
    while (for_oracle.Next(request).value()) oracle.Play(request);
    const ReplayResult result = ReplayAll(TextSource(trace), options);
    ASSERT_EQ(result.counts.requests, 3'003);
    ASSERT_EQ(result.counts.hits, oracle.hits);
    ASSERT_EQ(result.counts.misses, oracle.misses);
    ASSERT_EQ(result.evictions, oracle.evictions);
    ASSERT_EQ(result.expirations, oracle.expirations);
    ASSERT_EQ(result.counts.peak_entries, oracle.peak_entries);
    ASSERT_EQ(result.counts.peak_bytes, oracle.peak_bytes);
  }
}

TEST(ReplayTest, ChargeIsKeySizeAndValueSizeOfTheTrace) {
  const auto bytes = [](absl::string_view trace) {
    return ReplayAll(TextSource(trace), Exact()).counts.peak_bytes;
  };
  const auto base = bytes("0,k,10,100,0,set,0\n");
  EXPECT_EQ(bytes("0,k,11,100,0,set,0\n"), base + 1);
  EXPECT_EQ(bytes("0,k,10,4000000100,0,set,0\n"), base + 4'000'000'000);
}

TEST(ReplayTest, ErrorOfTheSourceEndsTheReplay) {
  for (const int threads : {1, 3}) {
    ReplayOptions options = Exact();
    options.threads = threads;
    std::string trace;
    for (int i = 0; i < 10'000; ++i) {
      absl::StrAppend(&trace, i, ",k,1,1,0,get,0\n");
    }
    TextSource source(absl::StrCat(trace, "nonsense\n"));
    EXPECT_EQ(Replay(source, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(ReplayTest, EmptySourceGivesAnEmptyResult) {
  ReplayOptions options = Exact();
  options.threads = 2;
  const ReplayResult result = ReplayAll(TextSource(""), options);
  EXPECT_EQ(result.counts.requests, 0);
  EXPECT_EQ(result.hit_ratio(), 0);
}

TEST(ReplayTest, SomeCallsAreTimed) {
  const ReplayResult result = ReplayAll(Workload(40'000), Exact());
  EXPECT_NEAR(result.counts.get_nanos.count(), 5'000, 1'000);
  EXPECT_GT(result.counts.set_nanos.count(), 100);
  EXPECT_GT(result.elapsed, absl::ZeroDuration());
}

// Without evictions, the outcome of a request depends only on the time and on
// the earlier requests for its key. So any number of threads must give the
// counts of one, if keys keep their order and no thread runs ahead in time.
TEST(ReplayTest, ThreadsGiveTheCountsOfOneThread) {
  ReplayOptions options = Exact();
  const ReplayResult one = ReplayAll(Workload(100'000), options);
  EXPECT_GT(one.expirations, 100);
  options.shards = 16;
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const ReplayResult many = ReplayAll(Workload(100'000), options);
    EXPECT_EQ(many.counts.requests, 100'000) << threads;
    EXPECT_EQ(many.counts.hits, one.counts.hits) << threads;
    EXPECT_EQ(many.counts.misses, one.counts.misses) << threads;
    EXPECT_EQ(many.expirations, one.expirations) << threads;
    EXPECT_EQ(many.evictions, 0) << threads;
  }
}

TEST(ReplayTest, ThreadsHardlyChangeTheHitRatioOfAFullCache) {
  ReplayOptions options = Exact();
  options.max_entries = 5'000;
  const double one = ReplayAll(Workload(100'000), options).hit_ratio();
  options.threads = 4;
  const ReplayResult many = ReplayAll(Workload(100'000), options);
  EXPECT_NEAR(many.hit_ratio(), one, 0.002);
  EXPECT_EQ(many.counts.peak_entries, 5'000);
}

ReplayResult SomeResult() {
  ReplayResult result;
  result.counts.requests = 1'234'567;
  result.counts.hits = 600'000;
  result.counts.misses = 200'000;
  result.counts.peak_entries = 10'000;
  result.counts.peak_bytes = 768'000;
  for (const int64_t nanos : {28, 1'000, 99'960}) {
    result.counts.get_nanos.Record(nanos);
  }
  result.evictions = 189'999;
  result.expirations = 1;
  result.elapsed = absl::Milliseconds(500);
  return result;
}

TEST(ReportTest, TableIsAligned) {
  ReplayOptions options = Exact();
  options.max_entries = 10'000;
  options.ttl = absl::Seconds(60);
  EXPECT_EQ(
      ReplayTable("oltp.csv", options, SomeResult()),
      R"(oltp.csv: at most 10,000 entries, LRU, TTL 1m, jitter 0, 1 shard, 1 thread

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
  Get        1.01 us    100 us    100 us
  Set              -         -         -
)");
}

TEST(ReportTest, TableNamesTheSkippedLines) {
  ReplayResult result = SomeResult();
  result.bad_lines = 3;
  EXPECT_THAT(ReplayTable("", Exact(), result),
              HasSubstr("  bad lines skipped                  3\n"));
}

TEST(ReportTest, JsonHasExactlyThePromisedKeys) {
  ReplayResult result = SomeResult();
  const std::string json =
      "{\"requests\": 1234567, \"hits\": 600000, \"misses\": 200000, "
      "\"hit_ratio\": 0.750000, \"evictions\": 189999, \"expirations\": 1, "
      "\"peak_entries\": 10000, \"peak_bytes\": 768000, "
      "\"requests_per_second\": 2469134";
  EXPECT_EQ(ReplayJson(result), json + "}\n");
  result.bad_lines = 0;
  EXPECT_EQ(ReplayJson(result), json + ", \"bad_lines\": 0}\n");
}

}  // namespace
}  // namespace wheelcache::replay
