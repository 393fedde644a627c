#include "wheelcache/tools/trace_replay/loaded_trace.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/random_trace.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {
namespace {

using ::testing::HasSubstr;

// All that a request says.
auto Fields(const Request& request) {
  return std::make_tuple(request.timestamp_seconds, std::string(request.key),
                         request.key_size, request.value_size,
                         request.operation, request.ttl_seconds);
}

TEST(LoadedTraceTest, ReadersGiveWhatWasLoaded) {
  Random random(1);
  const std::string text = RandomTrace(random, 2'000);
  TextSource source(text);
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->size(), 2'000u);
  for (int round = 0; round < 2; ++round) {
    TextSource again(text);
    LoadedTrace::Reader reader(*trace);
    Request expected;
    Request request;
    while (again.Next(expected).value()) {
      ASSERT_TRUE(reader.Next(request).value());
      ASSERT_EQ(Fields(request), Fields(expected));
    }
    EXPECT_EQ(reader.progress(), 1.0);
    EXPECT_FALSE(reader.Next(request).value());
  }
}

TEST(LoadedTraceTest, LargestNumbersAreKept) {
  constexpr char kLine[] =
      "9000000000,k,4294967295,4294967295,0,decr,4294967295\n";
  TextSource source(kLine);
  TextSource again(kLine);
  Request expected;
  ASSERT_TRUE(again.Next(expected).value());
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(Fields((*trace)[0]), Fields(expected));
}

TEST(LoadedTraceTest, KeysAndReadsAreCounted) {
  TextSource source(
      "0,a,1,1,0,get,0\n"
      "0,b,1,1,0,gets,0\n"
      "0,a,1,1,0,set,0\n");
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->keys(), 2u);
  EXPECT_EQ(trace->reads(), 2);
  EXPECT_EQ(trace->key(0), trace->key(2));
  EXPECT_NE(trace->key(0), trace->key(1));
}

TEST(LoadedTraceTest, ErrorOfTheSourceIsReturned) {
  TextSource source(
      "0,a,1,1,0,get,0\n"
      "0,a,1,1,0,get\n");
  const absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(source);
  EXPECT_THAT(std::string(trace.status().message()),
              HasSubstr("expected 7 columns, found 6"));
}

}  // namespace
}  // namespace wheelcache::replay
