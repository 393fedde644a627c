// Reading a trace: one line, files and pipes, the whole trace in memory, and
// the built-in workload. And a replay: every count is that of an oracle, and
// threads, errors and the table are as promised.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
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
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/shared_replay.h"
#include "wheelcache/tools/trace_replay/trace_line.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache::replay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// All that a request says.
auto Fields(const Request& request) {
  return std::make_tuple(request.timestamp_seconds, std::string(request.key),
                         request.key_size, request.value_size,
                         request.operation, request.ttl_seconds);
}

std::string ErrorOf(absl::string_view line) {
  const absl::StatusOr<Request> request = ParseTraceLine(line);
  return request.ok() ? "" : std::string(request.status().message());
}

TEST(TraceLineTest, EveryColumnIsRead) {
  EXPECT_EQ(
      Fields(ParseTraceLine("17,nz:u:eeW5,12,345,6,set,7200").value()),
      std::make_tuple(17, "nz:u:eeW5", 12u, 345u, Operation::kSet, 7200u));
  EXPECT_EQ(Fields(ParseTraceLine("9000000000,k,4294967295,4294967295,"
                                  "18446744073709551615,get,4294967295")
                       .value()),
            std::make_tuple(kMaxTimestampSeconds, "k", 4294967295u, 4294967295u,
                            Operation::kGet, 4294967295u));
}

TEST(TraceLineTest, EveryOperationIsRead) {
  constexpr absl::string_view kNames[] = {
      "get",    "gets",    "set",    "add",  "replace", "cas",
      "append", "prepend", "delete", "incr", "decr"};
  int operation = 0;
  for (const absl::string_view name : kNames) {
    EXPECT_EQ(ParseTraceLine(absl::StrCat("0,k,1,1,0,", name, ",0"))
                  .value()
                  .operation,
              static_cast<Operation>(operation++));
  }
}

TEST(TraceLineTest, KeyMayHoldAnyByteButCommaAndLineBreak) {
  const std::string key("\0\xff \"\r", 5);
  const std::string line = absl::StrCat("0,", key, ",5,1,0,get,0");
  EXPECT_EQ(ParseTraceLine(line).value().key, key);
}

TEST(TraceLineTest, ErrorNamesColumnValueAndRule) {
  EXPECT_EQ(ErrorOf(""), "expected 7 columns, found 1: ''");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,get,0,"),
            "expected 7 columns, found 8: '0,k,1,1,0,get,0,'");
  EXPECT_EQ(ErrorOf("9000000001,k,1,1,0,get,0"),
            "timestamp_seconds is '9000000001', must be a whole number from 0 "
            "to 9000000000");
  EXPECT_EQ(ErrorOf("0,,1,1,0,get,0"),
            "key is '', must be at least one byte long");
  EXPECT_EQ(ErrorOf("0,k,-1,1,0,get,0"),
            "key_size is '-1', must be a whole number from 0 to 4294967295");
  EXPECT_EQ(ErrorOf("0,k,1,1,,get,0"),
            "client_id is '', must be a whole number from 0 to "
            "18446744073709551615");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,GET,0"),
            "operation is 'GET', must be get, gets, set, add, replace, cas, "
            "append, prepend, delete, incr or decr");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,get,60s"),
            "ttl_seconds is '60s', must be a whole number from 0 to "
            "4294967295");
  for (const absl::string_view number :
       {"+1", " 1", "1 ", "0x1", "1e3", "4294967296", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("0,k,1,", number, ",0,get,0")),
                AllOf(HasSubstr("value_size"), HasSubstr(number)));
  }
}

TEST(TraceLineTest, ErrorEscapesUnprintableBytesAndCutsLongValues) {
  EXPECT_THAT(ErrorOf("\n\x1b[2J,k,1,1,0,get,0"), HasSubstr("'\\n\\x1b[2J'"));
  EXPECT_THAT(ErrorOf(absl::StrCat(std::string(50, '7'), ",k,1,1,0,get,0")),
              HasSubstr(absl::StrCat("'", std::string(40, '7'), "...'")));
}

// The keys of all requests before the end or the first error.
struct Read {
  std::vector<std::string> keys;
  std::string error;
  std::optional<int64_t> bad_lines;
};

Read ReadFile(const std::string& path, BadLines bad_lines) {
  Read read;
  auto reader = TraceReader::Open(path, bad_lines);
  if (!reader.ok()) return {{}, std::string(reader.status().message()), 0};
  Request request;
  absl::StatusOr<bool> more = true;
  while ((more = (*reader)->Next(request)).ok() && *more) {
    read.keys.emplace_back(request.key);
  }
  read.error = std::string(more.status().message());
  read.bad_lines = (*reader)->bad_lines();
  return read;
}

std::string TracePath() { return ::testing::TempDir() + "trace.csv"; }

Read ReadText(absl::string_view content,
              BadLines bad_lines = BadLines::kReject) {
  std::ofstream(TracePath(), std::ios::binary) << content;
  return ReadFile(TracePath(), bad_lines);
}

TEST(TraceReaderTest, LinesEndAnyhow) {
  for (const absl::string_view content :
       {"0,a,1,1,0,get,0\n0,b,1,1,0,set,9\n",
        "0,a,1,1,0,get,0\n0,b,1,1,0,set,9",
        "0,a,1,1,0,get,0\r\n0,b,1,1,0,get,0\r\n"}) {
    const Read read = ReadText(content);
    EXPECT_THAT(read.keys, ElementsAre("a", "b"));
    EXPECT_EQ(read.error, "");
    EXPECT_EQ(read.bad_lines, std::nullopt);
  }
  EXPECT_THAT(ReadText("").keys, IsEmpty());
}

TEST(TraceReaderTest, ErrorNamesFileAndLine) {
  EXPECT_THAT(ReadText("0,a,1,1,0,get,0\n0,b,1,1,0,got,0\n").error,
              HasSubstr("trace.csv, line 2: operation is 'got'"));
  EXPECT_THAT(ReadText("0,a,1,1,0,get,0\n\n").error,
              HasSubstr("line 2: expected 7 columns, found 1"));
  EXPECT_THAT(ReadFile("/no/such/file", BadLines::kSkip).error,
              HasSubstr("cannot open the file: No such file or directory"));
  EXPECT_THAT(ReadFile(::testing::TempDir(), BadLines::kSkip).error,
              HasSubstr("cannot read: Is a directory"));
}

TEST(TraceReaderTest, BadLinesAreSkippedAndCountedOnRequest) {
  const Read read = ReadText(
      "timestamp,key\n0,a,1,1,0,get,0\n\n0,b,1,1,0,get,0\nx", BadLines::kSkip);
  EXPECT_THAT(read.keys, ElementsAre("a", "b"));
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.bad_lines, 3);
}

// A whole line cut to the largest size would be valid.
TEST(TraceReaderTest, LineAboveTheLimitIsOneBadLine) {
  constexpr absl::string_view kEnd = ",1,1,0,get,0";
  const std::string key(kMaxTraceLineBytes - kEnd.size() - 2, 'k');
  const std::string longest = absl::StrCat("0,", key, kEnd);
  EXPECT_EQ(ReadText(longest + "\r\n").keys.size(), 1u);
  for (const std::string& more :
       {std::string("0"), std::string("\r0"), std::string(5'000'000, '0')}) {
    const std::string content =
        absl::StrCat("0,a,1,1,0,get,0\n", longest, more, "\n0,b,1,1,0,get,0\n");
    const Read read = ReadText(content, BadLines::kSkip);
    EXPECT_THAT(read.keys, ElementsAre("a", "b"));
    EXPECT_EQ(read.bad_lines, 1);
    EXPECT_THAT(ReadText(content).error,
                HasSubstr("line 2: the line has more than 65536 bytes"));
  }
}

TEST(TraceReaderTest, CompressedFileIsAnErrorThatNamesTheCommand) {
  EXPECT_THAT(ReadText("\x28\xb5\x2f\xfd....", BadLines::kSkip).error,
              HasSubstr("zstd -dc FILE | trace_replay --trace=-"));
  EXPECT_THAT(ReadText("\x1f\x8b....", BadLines::kSkip).error,
              HasSubstr("gzip -dc FILE | trace_replay --trace=-"));
}

TEST(LoadedTraceTest, GivesWhatWasLoaded) {
  Random random(1);
  const std::string text =
      absl::StrCat(RandomTrace(random, 2'000),
                   "9000000000,k,4294967295,4294967295,0,decr,4294967295\n");
  TextSource source(text);
  const LoadedTrace part = LoadedTrace::LoadPart(source, 500).value();
  const LoadedTrace rest = LoadedTrace::Load(source).value();
  ASSERT_EQ(part.size(), 500u);
  ASSERT_EQ(rest.size(), 1'501u);
  TextSource again(text);
  Request expected;
  for (const LoadedTrace* const trace : {&part, &rest}) {
    std::map<std::string, size_t> keys;
    int64_t reads = 0;
    for (size_t i = 0; i < trace->size(); ++i) {
      ASSERT_TRUE(again.Next(expected).value());
      ASSERT_EQ(Fields((*trace)[i]), Fields(expected));
      EXPECT_EQ(keys.emplace(expected.key, trace->key(i)).first->second,
                trace->key(i));
      if (expected.operation <= Operation::kGets) ++reads;
    }
    EXPECT_EQ(trace->keys(), keys.size());
    EXPECT_EQ(trace->reads(), reads);
  }
}

TEST(LoadedTraceTest, ErrorOfTheSourceIsReturned) {
  TextSource source("0,a,1,1,0,get,0\n0,a,1,1,0,get\n");
  EXPECT_THAT(std::string(LoadedTrace::Load(source).status().message()),
              HasSubstr("expected 7 columns, found 6"));
}

struct Seen {
  Request request;
  std::string key;
};

std::vector<Seen> Take(int64_t requests) {
  Workload workload(requests);
  std::vector<Seen> all;
  Request request;
  while (workload.Next(request).value()) {
    all.push_back({request, std::string(request.key)});
  }
  return all;
}

TEST(WorkloadTest, IsTheSameOnEachRun) {
  const std::vector<Seen> first = Take(2'500);
  const std::vector<Seen> second = Take(2'500);
  ASSERT_EQ(first.size(), 2'500u);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].key, second[i].key);
    EXPECT_EQ(first[i].request.operation, second[i].request.operation);
    EXPECT_EQ(first[i].request.timestamp_seconds, i / 1'000);
  }
}

TEST(WorkloadTest, HasTheStatisticsOfTheDescription) {
  std::map<std::string, Request> keys;
  std::map<std::string, int> counts;
  std::map<Operation, double> shares;
  constexpr int kRequests = 200'000;
  for (const auto& [request, key] : Take(kRequests)) {
    shares[request.operation] += 1.0 / kRequests;
    const Request& first = keys.emplace(key, request).first->second;
    ASSERT_EQ(first.value_size, request.value_size);
    ASSERT_EQ(first.ttl_seconds, request.ttl_seconds);
    ASSERT_EQ(request.key_size, key.size());
    ++counts[key];
  }
  EXPECT_EQ(shares.size(), 11u);
  EXPECT_NEAR(shares[Operation::kGet], 0.9, 0.005);
  EXPECT_NEAR(shares[Operation::kSet], 0.06, 0.003);
  EXPECT_NEAR(shares[Operation::kCas], 0.007, 0.002);
  std::map<uint32_t, double> ttls;
  std::vector<uint32_t> sizes;
  for (const auto& [key, request] : keys) {
    ttls[request.ttl_seconds] += 1.0 / static_cast<double>(keys.size());
    sizes.push_back(request.value_size);
  }
  EXPECT_EQ(ttls.size(), 6u);
  EXPECT_NEAR(ttls[60], 0.39, 0.01);
  EXPECT_NEAR(ttls[24 * 3600], 0.03, 0.01);
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes.front(), 16u);
  EXPECT_NEAR(sizes[sizes.size() / 2], 230, 35);
  EXPECT_EQ(sizes.back(), 16'000u);
  std::vector<int> sorted;
  for (const auto& [key, count] : counts) sorted.push_back(-count);
  std::sort(sorted.begin(), sorted.end());
  // By Zipf's law the first is used 10^1.1 times as often as the tenth.
  EXPECT_NEAR(static_cast<double>(sorted[0]) / sorted[9], 12.6, 1);
}

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

// A hundred reads a second of keys in turn, of values of a kB, from a time on.
LoadedTrace Loop(int keys, int start, int seconds) {
  std::string text;
  for (int i = 0; i < 100 * seconds; ++i) {
    absl::StrAppend(&text, start + i / 100, ",k", i % keys,
                    ",4,1000,0,get,0\n");
  }
  TextSource source(text);
  return *LoadedTrace::Load(source);
}

TEST(SharedReplayTest, BytesGoToTheTraceThatGainsFromThem) {
  const LoadedTrace large = Loop(300, 5000, 120);
  const LoadedTrace small = Loop(10, 77, 120);
  ReplayOptions options = Exact();
  options.max_bytes = 400'000;
  const SharedTrace traces[] = {{"large", &large}, {"small", &small}};
  const SharedReplay replay = *ReplayShared(traces, options);
  ASSERT_EQ(replay.members.size(), 2);
  const auto& [of_large, of_small] =
      std::tie(replay.members[0], replay.members[1]);
  EXPECT_EQ(of_large.name, "large");
  EXPECT_EQ(of_large.counts.requests, 12'000);
  EXPECT_EQ(of_large.equal_hits, 0);
  EXPECT_GT(of_large.counts.hits, 9'000);
  EXPECT_EQ(of_small.equal_hits, 11'990);
  EXPECT_EQ(of_small.counts.hits, 11'990);

  ASSERT_EQ(replay.splits.size(), SharedReplay::kSplits + 1);
  EXPECT_EQ(replay.splits.front().seconds, 0);
  EXPECT_THAT(replay.splits.front().bytes, ElementsAre(200'000, 200'000));
  EXPECT_EQ(replay.splits.back().seconds, 120);
  EXPECT_GT(replay.splits.back().bytes[0], 300'000);
  for (const SharedReplay::Split& split : replay.splits) {
    EXPECT_LE(split.bytes[0] + split.bytes[1], options.max_bytes);
    EXPECT_GE(split.bytes[1], 200'000 / 16);
  }
}

// A trace that has ended, or has not begun again, gives its bytes up.
TEST(SharedReplayTest, TracesBeginTogetherAndTimeGoesOn) {
  TextSource gap(
      "10,a,1,10,0,get,0\n"
      "9,a,1,10,0,get,0\n"
      "10,b,1,10,0,get,5\n"
      "1000010,a,1,10,0,get,0\n"
      "1000010,b,1,10,0,get,0\n");
  const LoadedTrace with_gap = *LoadedTrace::Load(gap);
  const LoadedTrace other = Loop(3, 0, 2);
  ReplayOptions options = Exact();
  options.max_bytes = 10'000;
  const SharedTrace traces[] = {{"gap", &with_gap}, {"other", &other}};
  const SharedReplay replay = *ReplayShared(traces, options);
  EXPECT_EQ(replay.members[0].counts.hits, 2);
  EXPECT_EQ(replay.members[0].counts.misses, 3);  // One has expired.
  EXPECT_EQ(replay.members[1].counts.hits, 197);
  EXPECT_EQ(replay.splits.back().seconds, 1'000'001);
}

}  // namespace
}  // namespace wheelcache::replay
