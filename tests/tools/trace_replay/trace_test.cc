// Reading a trace: one line, files and pipes, the whole trace in memory, and
// the built-in workload.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/request.h"
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

}  // namespace
}  // namespace wheelcache::replay
