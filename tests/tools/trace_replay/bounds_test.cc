#include "wheelcache/tools/trace_replay/bounds.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/testing/reference_belady.h"
#include "wheelcache/tests/tools/trace_replay/random_trace.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache::replay {
namespace {

using ::testing::ElementsAre;

LoadedTrace Load(absl::string_view text) {
  TextSource source(text);
  return LoadedTrace::Load(source).value();
}

// Requests for a value of 10 bytes, one a second.
std::string TextOf(const std::vector<std::string>& operations_and_keys) {
  std::string text;
  int seconds = 0;
  for (const std::string& request : operations_and_keys) {
    const size_t blank = request.find(' ');
    absl::StrAppend(&text, seconds++, ",", request.substr(blank + 1),
                    ",0,10,0,", request.substr(0, blank), ",0\n");
  }
  return text;
}

LoadedTrace Requests(const std::vector<std::string>& operations_and_keys) {
  return Load(TextOf(operations_and_keys));
}

TEST(NextReadsTest, WritesAndDeletesComeBetween) {
  EXPECT_THAT(NextReads(Requests({"get a", "get b", "get a"}), true),
              ElementsAre(2, kNoRead, kNoRead));
  EXPECT_THAT(NextReads(Requests({"set a", "set a", "gets a"}), true),
              ElementsAre(kNoRead, 2, kNoRead));
  EXPECT_THAT(NextReads(Requests({"get a", "add a", "get a"}), true),
              ElementsAre(kNoRead, 2, kNoRead));
  EXPECT_THAT(NextReads(Requests({"get a", "delete a", "get a"}), true),
              ElementsAre(kNoRead, kNoRead, kNoRead));
  // They need the value that is there.
  for (const char* operation :
       {"replace", "cas", "append", "prepend", "incr", "decr"}) {
    EXPECT_THAT(
        NextReads(Requests({"get a", absl::StrCat(operation, " a"), "get a"}),
                  true),
        ElementsAre(2, kNoRead, kNoRead))
        << operation;
  }
}

TEST(NextReadsTest, WithoutReadThroughAWriteComesFirst) {
  EXPECT_THAT(
      NextReads(Requests({"get a", "get a", "set a", "get a", "get a"}), false),
      ElementsAre(kNoRead, kNoRead, 3, 4, kNoRead));
}

TEST(MostHitsTest, AgreesWithTheReference) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::vector<uint64_t> keys(300);
    std::vector<std::string> requests;
    const unsigned most = 1 + random() % 60;
    for (uint64_t& key : keys) {
      key = random() % most;
      requests.push_back(absl::StrCat("get ", key));
    }
    const std::vector<uint32_t> next_reads =
        NextReads(Requests(requests), /*read_through=*/true);
    for (const int64_t entries : {1, 2, 7, 20, 1000}) {
      ASSERT_EQ(MostHits(next_reads, entries),
                testing::BeladyHits(keys, entries));
    }
  }
}

TEST(MostHitsByBytesTest, CheapHitsComeFirst) {
  // Overhead of 10: b is 20 for one request, a 20 for three.
  const LoadedTrace trace =
      Requests({"get a", "get b", "get b", "get a", "get c"});
  const std::vector<uint32_t> next_reads = NextReads(trace, true);
  // Five requests have 5 * limit: 20 are needed for b, 60 more for a.
  EXPECT_THAT(MostHitsByBytes(trace, next_reads, {3, 4, 15, 16, 19, 20}, 10),
              ElementsAre(0, 0, 0, 0, 0, 2));
}

TEST(MostHitsByBytesTest, ValueLargerThanTheLimitIsNoHit) {
  const LoadedTrace trace = Load(
      "0,a,0,90,0,get,0\n"
      "0,a,0,90,0,get,0\n"
      "0,b,0,40,0,get,0\n"
      "0,b,0,50,0,get,0\n");
  const std::vector<uint32_t> next_reads = NextReads(trace, true);
  EXPECT_THAT(MostHitsByBytes(trace, next_reads, {39, 49, 50, 100}, 10),
              ElementsAre(0, 0, 1, 2));
}

ReplayOptions ExactOptions() {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  return options;
}

int64_t HitsOf(absl::string_view text, const ReplayOptions& options) {
  TextSource source(text);
  return Replay(source, options).value().counts.hits;
}

TEST(BoundsTest, NoReplayOfAnyTraceExceedsThem) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const std::string text = RandomTrace(random, 1'000);
    const LoadedTrace trace = Load(text);
    const int64_t overhead = 40;  // Less than that of the cache.
    ReplayOptions options = ExactOptions();
    options.read_through = random.OneIn(2);
    const std::vector<uint32_t> next_reads =
        NextReads(trace, options.read_through);
    for (const int64_t entries : {1, 5, 20, 50}) {
      options.max_entries = entries;
      EXPECT_LE(HitsOf(text, options), MostHits(next_reads, entries));
    }
    options.max_entries = kUnlimited;
    for (const int64_t bytes : {200, 1'000, 5'000, 20'000}) {
      options.max_bytes = bytes;
      EXPECT_LE(HitsOf(text, options),
                MostHitsByBytes(trace, next_reads, {bytes}, overhead)[0]);
    }
  }
}

TEST(BoundsTest, NoReplayOfAnyTraceLivesLonger) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const std::string text = RandomTrace(random, 1'000);
    ReplayOptions options = ExactOptions();
    options.read_through = random.OneIn(2);
    options.ttl = absl::Seconds(random.From(1, 60));
    options.max_entries = random.OneIn(2) ? random.From(1, 60) : kUnlimited;
    options.jitter = random.OneIn(2) ? 0.2 : 0;
    EXPECT_LE(HitsOf(text, options),
              MostHitsByTtl(Load(text), {options.ttl, options.jitter,
                                         options.read_through}))
        << "seed " << seed;
  }
}

TEST(MostHitsByTtlTest, AreThoseOfAnUnlimitedCacheWithGetsAndSets) {
  std::mt19937 random(1);
  for (int i = 0; i < 30; ++i) {
    std::vector<std::string> requests;
    for (int request = 0; request < 500; ++request) {
      requests.push_back(
          absl::StrCat(random() % 4 == 0 ? "set " : "get ", random() % 50));
    }
    const std::string text = TextOf(requests);
    ReplayOptions options = ExactOptions();
    options.read_through = i % 2 == 0;
    options.ttl = absl::Seconds(1 + random() % 100);
    EXPECT_EQ(MostHitsByTtl(Load(text), {options.ttl, 0, options.read_through}),
              HitsOf(text, options));
  }
}

// A policy that misses early has the later deadline; but only of the keys whose
// requests name different TTLs is that worth anything.
TEST(MostHitsByTtlTest, KeyWithSeveralTtlsMayBeLoadedEarly) {
  const LoadedTrace uneven = Load(
      "0,a,0,1,0,get,10\n"
      "5,a,0,1,0,get,100\n"
      "50,a,0,1,0,get,100\n");
  EXPECT_EQ(MostHitsByTtl(uneven, {absl::Seconds(10), 0, true}), 2);
  const LoadedTrace even = Load(
      "0,a,0,1,0,get,10\n"
      "0,b,0,1,0,get,100\n"
      "5,a,0,1,0,get,10\n"
      "12,a,0,1,0,get,10\n");
  EXPECT_EQ(MostHitsByTtl(even, {absl::Seconds(10), 0, true}), 1);
}

TEST(MostHitsByTtlTest, JitterMayLengthenALife) {
  const LoadedTrace trace = Load(
      "0,a,0,1,0,set,0\n"
      "14,a,0,1,0,get,0\n"
      "15,a,0,1,0,get,0\n");
  EXPECT_EQ(MostHitsByTtl(trace, {absl::Seconds(10), 0.5, false}), 1);
  EXPECT_EQ(MostHitsByTtl(trace, {absl::Seconds(10), 0.4, false}), 0);
}

TEST(MostHitsByTtlTest, DeletedValueIsNotThere) {
  const LoadedTrace trace = Load(
      "0,a,0,1,0,set,0\n"
      "1,a,0,1,0,delete,0\n"
      "2,a,0,1,0,replace,0\n"
      "3,a,0,1,0,get,0\n");
  EXPECT_EQ(MostHitsByTtl(trace, {absl::Seconds(10), 0, false}), 0);
}

}  // namespace
}  // namespace wheelcache::replay
