// Replays of real traces have exactly the counts of an LRU list with deadlines,
// as computed by an independent program (an ordered dictionary).
//
// Skipped where the traces or zstd are missing; see real_trace.h.
// replay_model_test.cc needs neither.

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {
namespace {

struct Row {
  const char* trace;
  int64_t capacity;
  int64_t hits_without_ttl;
  int64_t ttl_seconds;
  int64_t hits;
  int64_t evictions;
  int64_t expirations;
};

constexpr Row kRows[] = {
    {"cloudphysics", 1'000, 19'049, 300, 19'049, 93'823, 0},
    {"cloudphysics", 10'000, 34'434, 300, 34'434, 69'438, 0},
    {"cloudphysics", 40'000, 64'878, 300, 64'878, 8'994, 0},
    {"oltp", 1'000, 300'122, 60, 300'025, 613'014, 106},
    {"oltp", 5'000, 490'443, 60, 487'352, 418'016, 3'777},
    {"oltp", 15'000, 590'851, 60, 573'500, 273'780, 51'866},
    {"sprite", 500, 104'922, 20, 104'782, 28'471, 243},
    {"sprite", 2'000, 125'255, 20, 121'215, 3'087, 7'694},
    {"orm_busy", 1'000, 3'938'943, 300, 3'938'943, 1'060'057, 0},
    {"orm_busy", 10'000, 4'474'313, 300, 4'466'621, 508'829, 14'550},
};

void PrintTo(const Row& row, std::ostream* os) {
  *os << row.trace << " at capacity " << row.capacity;
}

// Under a sanitizer, the largest trace takes minutes.
constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

class RealTracesTest : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::string> path = FindRealTrace(GetParam().trace);
    if (!path.ok()) GTEST_SKIP() << path.status().message();
    path_ = *path;
    if (kSanitized && absl::string_view(GetParam().trace) == "orm_busy") {
      GTEST_SKIP() << "five million requests are too many for a sanitizer";
    }
  }

  ReplayResult ReplayTrace(absl::Duration ttl, int shards) const {
    ReplayOptions options;
    options.max_entries = GetParam().capacity;
    options.ttl = ttl;
    options.jitter = 0;
    options.shards = shards;
    DecompressedTrace trace(path_);
    absl::StatusOr<ReplayResult> result = Replay(trace.reader(), options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(ReplayResult());
  }

  std::string path_;
};

TEST_P(RealTracesTest, OneShardIsAnExactLru) {
  const ReplayResult result = ReplayTrace(absl::InfiniteDuration(), 1);
  EXPECT_EQ(result.counts.hits, GetParam().hits_without_ttl);
  EXPECT_EQ(result.evictions, result.counts.misses - GetParam().capacity);
  EXPECT_EQ(result.expirations, 0);
  EXPECT_EQ(result.counts.peak_entries, GetParam().capacity);
}

TEST_P(RealTracesTest, OneShardIsAnExactLruWithDeadlines) {
  const ReplayResult result =
      ReplayTrace(absl::Seconds(GetParam().ttl_seconds), 1);
  EXPECT_EQ(result.counts.hits, GetParam().hits);
  EXPECT_EQ(result.evictions, GetParam().evictions);
  EXPECT_EQ(result.expirations, GetParam().expirations);
}

TEST_P(RealTracesTest, ShardsByDefaultAreWithinHalfAPointOfExactLru) {
  const ReplayResult result = ReplayTrace(absl::InfiniteDuration(), 0);
  const double exact = static_cast<double>(GetParam().hits_without_ttl) /
                       static_cast<double>(result.counts.requests);
  EXPECT_NEAR(result.hit_ratio(), exact, 0.005);
  EXPECT_LE(result.counts.peak_entries, GetParam().capacity);
}

INSTANTIATE_TEST_SUITE_P(Table, RealTracesTest, ::testing::ValuesIn(kRows));

}  // namespace
}  // namespace replay
}  // namespace wheelcache
