// One line of a trace: what is accepted, what is rejected, and the errors.

#include "wheelcache/tools/trace_replay/trace_line.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view line) {
  const absl::StatusOr<Request> request = ParseTraceLine(line);
  if (request.ok()) return "no error";
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(request.status().message());
}

TEST(TraceLineTest, ReadsEveryColumn) {
  const absl::StatusOr<Request> request =
      ParseTraceLine("17,nz:u:eeW5,12,345,6,set,7200");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->timestamp_seconds, 17);
  EXPECT_EQ(request->key, "nz:u:eeW5");
  EXPECT_EQ(request->key_size, 12u);
  EXPECT_EQ(request->value_size, 345u);
  EXPECT_EQ(request->operation, Operation::kSet);
  EXPECT_EQ(request->ttl_seconds, 7200u);
}

TEST(TraceLineTest, ReadsEveryOperation) {
  constexpr struct {
    absl::string_view name;
    Operation operation;
  } kOperations[] = {
      {"get", Operation::kGet},         {"gets", Operation::kGets},
      {"set", Operation::kSet},         {"add", Operation::kAdd},
      {"replace", Operation::kReplace}, {"cas", Operation::kCas},
      {"append", Operation::kAppend},   {"prepend", Operation::kPrepend},
      {"delete", Operation::kDelete},   {"incr", Operation::kIncr},
      {"decr", Operation::kDecr}};
  for (const auto& [name, operation] : kOperations) {
    const absl::StatusOr<Request> request =
        ParseTraceLine(absl::StrCat("0,k,1,1,0,", name, ",0"));
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->operation, operation) << name;
  }
}

TEST(TraceLineTest, ReadsTheLargestNumbers) {
  const absl::StatusOr<Request> request = ParseTraceLine(
      "9000000000,k,4294967295,4294967295,18446744073709551615,get,4294967295");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->timestamp_seconds, kMaxTimestampSeconds);
  EXPECT_EQ(request->value_size, 4294967295u);
}

TEST(TraceLineTest, KeyMayHoldAnyByteButCommaAndLineBreak) {
  const std::string key("\0\xff \"\r", 5);
  const std::string line = absl::StrCat("0,", key, ",5,1,0,get,0");
  const absl::StatusOr<Request> request = ParseTraceLine(line);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->key, key);
}

TEST(TraceLineTest, RejectsAnyNumberOfColumnsButSeven) {
  EXPECT_EQ(ErrorOf(""), "expected 7 columns, found 1: ''");
  EXPECT_EQ(ErrorOf("1,2,3"), "expected 7 columns, found 3: '1,2,3'");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,get,0,"),
            "expected 7 columns, found 8: '0,k,1,1,0,get,0,'");
  EXPECT_THAT(ErrorOf(std::string(1000, ',')), HasSubstr("found 1001"));
}

TEST(TraceLineTest, ErrorNamesColumnValueAndRule) {
  EXPECT_EQ(ErrorOf("x,k,1,1,0,get,0"),
            "timestamp_seconds is 'x', must be a whole number from 0 to "
            "9000000000");
  EXPECT_EQ(ErrorOf("0,,1,1,0,get,0"),
            "key is '', must be at least one byte long");
  EXPECT_EQ(ErrorOf("0,k,-1,1,0,get,0"),
            "key_size is '-1', must be a whole number from 0 to 4294967295");
  EXPECT_EQ(ErrorOf("0,k,1,1.5,0,get,0"),
            "value_size is '1.5', must be a whole number from 0 to 4294967295");
  EXPECT_EQ(ErrorOf("0,k,1,1,,get,0"),
            "client_id is '', must be a whole number from 0 to "
            "18446744073709551615");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,GET,0"),
            "operation is 'GET', must be get, gets, set, add, replace, cas, "
            "append, prepend, delete, incr or decr");
  EXPECT_EQ(ErrorOf("0,k,1,1,0,get,60s"),
            "ttl_seconds is '60s', must be a whole number from 0 to "
            "4294967295");
}

TEST(TraceLineTest, RejectsAllButDigitsWithinTheRange) {
  for (const absl::string_view number :
       {"+1", " 1", "1 ", "0x1", "1e3", "4294967296", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("0,k,1,", number, ",0,get,0")),
                AllOf(HasSubstr("value_size"), HasSubstr(number)));
  }
}

TEST(TraceLineTest, RejectsATimestampThatOverflowsNanoseconds) {
  EXPECT_THAT(ErrorOf("9000000001,k,1,1,0,get,0"),
              HasSubstr("timestamp_seconds"));
}

TEST(TraceLineTest, RejectsALineAboveTheSizeLimit) {
  const std::string key(kMaxTraceLineBytes, 'k');
  EXPECT_EQ(ErrorOf(absl::StrCat("0,", key, ",1,1,0,get,0")),
            "the line has more than 65536 bytes");
}

TEST(TraceLineTest, ErrorEscapesUnprintableBytesAndTruncatesLongValues) {
  EXPECT_THAT(ErrorOf("\n\x1b[2J,k,1,1,0,get,0"), HasSubstr("'\\n\\x1b[2J'"));
  EXPECT_THAT(ErrorOf(absl::StrCat(std::string(50, '7'), ",k,1,1,0,get,0")),
              HasSubstr(absl::StrCat("'", std::string(40, '7'), "...'")));
}

TEST(TraceLineTest, AnyBytesAreSafe) {
  std::mt19937 random(1);
  constexpr absl::string_view kBytes("0,k19,\0\xff,getsr-\n\"", 18);
  for (int i = 0; i < 100'000; ++i) {
    std::string line;
    const size_t size = random() % 40;
    while (line.size() < size) line += kBytes[random() % kBytes.size()];
    const absl::StatusOr<Request> request = ParseTraceLine(line);
    if (request.ok()) {
      EXPECT_FALSE(request->key.empty());
    }
  }
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
