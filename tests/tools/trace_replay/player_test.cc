// What each operation does to the cache: memcached's semantics.

#include "wheelcache/tools/trace_replay/player.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {
namespace {

// Without read-through, so that a get observes what the other operations did.
ReplayOptions WithoutReadThrough() {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  options.read_through = false;
  return options;
}

ReplayResult Play(absl::string_view trace,
                  const ReplayOptions& options = WithoutReadThrough()) {
  TextSource source(trace);
  absl::StatusOr<ReplayResult> result = Replay(source, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ReplayResult());
}

TEST(PlayerTest, OnlyGetAndGetsCountAsHitsAndMisses) {
  const ReplayResult result = Play(
      "0,k,1,1,0,get,0\n"
      "0,k,1,1,0,set,0\n"
      "0,k,1,1,0,get,0\n"
      "0,k,1,1,0,gets,0\n"
      "0,k,1,1,0,add,0\n"
      "0,k,1,1,0,replace,0\n"
      "0,k,1,1,0,cas,0\n"
      "0,k,1,1,0,append,0\n"
      "0,k,1,1,0,prepend,0\n"
      "0,k,1,1,0,incr,0\n"
      "0,k,1,1,0,decr,0\n"
      "0,k,1,1,0,delete,0\n");
  EXPECT_EQ(result.counts.requests, 12);
  EXPECT_EQ(result.counts.hits, 2);
  EXPECT_EQ(result.counts.misses, 1);
}

TEST(PlayerTest, MissIsFollowedByASetOfTheSizeInTheTrace) {
  ReplayOptions options = WithoutReadThrough();
  options.read_through = true;
  const ReplayResult result = Play(
      "0,k,3,100,0,get,0\n"
      "0,k,3,100,0,gets,0\n",
      options);
  EXPECT_EQ(result.counts.misses, 1);
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.peak_entries, 1);
}

TEST(PlayerTest, WithoutReadThroughAMissLeavesNothing) {
  const ReplayResult result = Play(
      "0,k,1,1,0,get,0\n"
      "0,k,1,1,0,get,0\n");
  EXPECT_EQ(result.counts.misses, 2);
  EXPECT_EQ(result.counts.peak_entries, 0);
}

TEST(PlayerTest, ReadThroughTakesTheTtlOfTheReadIfItHasOne) {
  ReplayOptions options = WithoutReadThrough();
  options.read_through = true;
  options.ttl = absl::Seconds(100);
  const ReplayResult result = Play(
      "0,k,1,1,0,get,5\n"
      "0,l,1,1,0,get,0\n"
      "5,k,1,1,0,get,5\n"
      "99,l,1,1,0,get,0\n",
      options);
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.misses, 3);
}

TEST(PlayerTest, SetWritesWithItsTtlAndZeroMeansTheDefault) {
  ReplayOptions options = WithoutReadThrough();
  options.ttl = absl::Seconds(10);
  const ReplayResult result = Play(
      "0,short,1,1,0,set,3\n"
      "0,default,1,1,0,set,0\n"
      "2,short,1,1,0,get,0\n"
      "3,short,1,1,0,get,0\n"
      "9,default,1,1,0,get,0\n"
      "10,default,1,1,0,get,0\n",
      options);
  EXPECT_EQ(result.counts.hits, 2);
  EXPECT_EQ(result.counts.misses, 2);
  EXPECT_EQ(result.expirations, 2);
}

TEST(PlayerTest, AddWritesOnlyAnAbsentKey) {
  const ReplayResult result = Play(
      "0,k,1,1,0,add,3\n"
      "1,k,1,1,0,add,100\n"
      "2,k,1,1,0,get,0\n"
      "3,k,1,1,0,get,0\n"
      "3,k,1,1,0,add,5\n"
      "7,k,1,1,0,get,0\n");
  EXPECT_EQ(result.counts.hits, 2);
  EXPECT_EQ(result.counts.misses, 1);
}

TEST(PlayerTest, AddOfAPresentKeyRefreshesItsRecency) {
  ReplayOptions options = WithoutReadThrough();
  options.max_entries = 2;
  const ReplayResult result = Play(
      "0,a,1,1,0,set,0\n"
      "0,b,1,1,0,set,0\n"
      "0,a,1,1,0,add,0\n"
      "0,c,1,1,0,set,0\n"
      "0,a,1,1,0,get,0\n"
      "0,b,1,1,0,get,0\n",
      options);
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.misses, 1);
}

TEST(PlayerTest, ReplaceAndCasWriteOnlyAPresentKey) {
  for (const absl::string_view operation : {"replace", "cas"}) {
    const ReplayResult result = Play(absl::StrCat("0,k,1,1,0,", operation,
                                                  ",0\n"
                                                  "0,k,1,1,0,get,0\n"
                                                  "0,k,1,1,0,set,3\n"
                                                  "1,k,1,1,0,",
                                                  operation,
                                                  ",9\n"
                                                  "9,k,1,1,0,get,0\n"
                                                  "10,k,1,1,0,get,0\n"));
    EXPECT_EQ(result.counts.hits, 1) << operation;
    EXPECT_EQ(result.counts.misses, 2) << operation;
  }
}

TEST(PlayerTest, AppendAndPrependGrowOnlyAPresentValueAndKeepItsDeadline) {
  for (const absl::string_view operation : {"append", "prepend"}) {
    const auto trace = [&](absl::string_view growth) {
      return absl::StrCat("0,k,1,1000,0,", operation,
                          ",0\n"
                          "0,k,1,1,0,get,0\n"
                          "0,k,1,1000,0,set,10\n"
                          "4,k,1,",
                          growth, ",0,", operation,
                          ",100\n"
                          "9,k,1,1,0,get,0\n"
                          "10,k,1,1,0,get,0\n");
    };
    const ReplayResult none = Play(trace("0"));
    const ReplayResult some = Play(trace("500"));
    EXPECT_EQ(some.counts.hits, 1) << operation;
    EXPECT_EQ(some.counts.misses, 2) << operation;
    EXPECT_EQ(some.counts.peak_bytes, none.counts.peak_bytes + 500)
        << operation;
  }
}

TEST(PlayerTest, IncrAndDecrChangeNeitherSizeNorDeadlineAndNeedAPresentKey) {
  for (const absl::string_view operation : {"incr", "decr"}) {
    const ReplayResult result = Play(absl::StrCat("0,k,1,1,0,", operation,
                                                  ",0\n"
                                                  "0,k,1,1,0,get,0\n"
                                                  "0,k,1,8,0,set,10\n"
                                                  "4,k,1,5000,0,",
                                                  operation,
                                                  ",100\n"
                                                  "9,k,1,1,0,get,0\n"
                                                  "10,k,1,1,0,get,0\n"));
    EXPECT_EQ(result.counts.hits, 1) << operation;
    EXPECT_EQ(result.counts.misses, 2) << operation;
    EXPECT_EQ(result.counts.peak_bytes,
              Play("0,k,1,8,0,set,10\n").counts.peak_bytes)
        << operation;
  }
}

TEST(PlayerTest, WriteRefreshesTheRecencyOfAPresentKey) {
  for (const absl::string_view operation :
       {"set", "replace", "cas", "append", "prepend", "incr", "decr"}) {
    ReplayOptions options = WithoutReadThrough();
    options.max_entries = 2;
    const ReplayResult result = Play(absl::StrCat("0,a,1,1,0,set,0\n"
                                                  "0,b,1,1,0,set,0\n"
                                                  "0,a,1,1,0,",
                                                  operation,
                                                  ",0\n"
                                                  "0,c,1,1,0,set,0\n"
                                                  "0,a,1,1,0,get,0\n"),
                                     options);
    EXPECT_EQ(result.counts.hits, 1) << operation;
  }
}

TEST(PlayerTest, DeleteRemovesItsKeyAlone) {
  const ReplayResult result = Play(
      "0,a,1,1,0,set,0\n"
      "0,b,1,1,0,set,0\n"
      "0,a,1,1,0,delete,0\n"
      "0,c,1,1,0,delete,0\n"
      "0,a,1,1,0,get,0\n"
      "0,b,1,1,0,get,0\n");
  EXPECT_EQ(result.counts.hits, 1);
  EXPECT_EQ(result.counts.misses, 1);
  EXPECT_EQ(result.counts.peak_entries, 2);
}

TEST(PlayerTest, ChargeIsKeySizeAndValueSizeOfTheTrace) {
  const auto bytes = [](absl::string_view trace) {
    return Play(trace).counts.peak_bytes;
  };
  const auto base = bytes("0,k,10,100,0,set,0\n");
  EXPECT_EQ(bytes("0,k,11,100,0,set,0\n"), base + 1);
  EXPECT_EQ(bytes("0,k,10,4000000100,0,set,0\n"), base + 4'000'000'000);
}

TEST(PlayerTest, ValueLargerThanTheCacheIsNotStoredAndTheOldOneIsGone) {
  ReplayOptions options = WithoutReadThrough();
  options.max_bytes = 10'000;
  const ReplayResult result = Play(
      "0,k,1,100,0,set,0\n"
      "0,k,1,20000,0,set,0\n"
      "0,k,1,1,0,get,0\n",
      options);
  EXPECT_EQ(result.counts.misses, 1);
  EXPECT_LE(result.counts.peak_bytes, 10'000);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
