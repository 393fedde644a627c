// Sweeps of random traces: each figure is that of a replay of its own, and no
// figure is above its bound.

#include "wheelcache/tools/trace_replay/sweep.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/tools/trace_replay/random_trace.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

using ::testing::ElementsAre;

void ExpectFiguresOfSingleReplays(const std::string& trace,
                                  const SweepOptions& options,
                                  const Sweep& sweep) {
  ASSERT_EQ(sweep.curves.size(), options.ttls.size() * options.policies.size());
  for (const SweepCurve& curve : sweep.curves) {
    for (size_t i = 0; i < sweep.limits.size(); ++i) {
      ReplayOptions single = options.replay;
      (sweep.by == SweepBy::kBytes ? single.max_bytes : single.max_entries) =
          sweep.limits[i];
      single.policy = curve.policy.policy;
      single.ttl = curve.ttl;
      single.threads = 1;
      TextSource source(trace);
      const ReplayResult result = Replay(source, single).value();
      EXPECT_EQ(curve.hits[i], result.counts.hits);
      EXPECT_DOUBLE_EQ(sweep.hit_ratio(curve.hits[i]), result.hit_ratio());
      EXPECT_EQ(sweep.requests, result.counts.requests);
    }
  }
}

void ExpectWithinBounds(const Sweep& sweep) {
  for (size_t c = 0; c < sweep.curves.size(); ++c) {
    const SweepBound& bound = sweep.bounds[c / sweep.policies()];
    EXPECT_EQ(bound.ttl, sweep.curves[c].ttl);
    for (size_t i = 0; i < sweep.limits.size(); ++i) {
      EXPECT_LE(sweep.curves[c].hits[i], bound.hits[i]);
    }
  }
}

TEST(SweepTest, EachFigureIsThatOfASingleReplay) {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    const std::string trace = RandomTrace(random, 1'500);
    SweepOptions options;
    options.by = random.OneIn(2) ? SweepBy::kBytes : SweepBy::kEntries;
    options.ttls = {absl::Seconds(random.From(1, 60)),
                    absl::InfiniteDuration()};
    options.sizes = 5;
    options.replay.threads = static_cast<int>(random.From(1, 3));
    options.replay.read_through = !random.OneIn(3);
    options.replay.shards = random.OneIn(2) ? 1 : 0;
    TextSource source(trace);
    const absl::StatusOr<Sweep> sweep = RunSweep(source, options);
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    ExpectFiguresOfSingleReplays(trace, options, *sweep);
    ExpectWithinBounds(*sweep);
  }
}

constexpr char kThreeKeys[] =
    "0,a,1,9,0,get,0\n"
    "1,b,1,9,0,get,0\n"
    "2,c,1,9,0,get,0\n"
    "3,a,1,9,0,get,0\n"
    "4,a,1,9,0,set,0\n";

Sweep SweepOf(const std::string& trace, const SweepOptions& options) {
  TextSource source(trace);
  return RunSweep(source, options).value();
}

TEST(SweepTest, LargestLimitHoldsAllKeys) {
  const Sweep sweep = SweepOf(kThreeKeys, SweepOptions());
  EXPECT_EQ(sweep.requests, 5);
  EXPECT_EQ(sweep.reads, 4);
  EXPECT_EQ(sweep.keys, 3);
  EXPECT_THAT(sweep.limits, ElementsAre(1, 2, 3));
  EXPECT_THAT(sweep.curves[0].hits, ElementsAre(0, 0, 1));
  EXPECT_THAT(sweep.bounds[0].hits, ElementsAre(1, 1, 1));
  EXPECT_DOUBLE_EQ(sweep.hit_ratio(1), 0.25);
}

TEST(SweepTest, LargestLimitOfBytesHoldsAllKeys) {
  SweepOptions options;
  options.by = SweepBy::kBytes;
  const Sweep sweep = SweepOf(kThreeKeys, options);
  EXPECT_EQ(sweep.curves[0].hits.back(), 1);
  TextSource source(kThreeKeys);
  EXPECT_EQ(sweep.limits.back(),
            Replay(source, ReplayOptions()).value().counts.peak_bytes);
}

TEST(SweepTest, LimitThatIsGivenIsTheLargest) {
  SweepOptions options;
  options.replay.max_entries = 2;
  EXPECT_THAT(SweepOf(kThreeKeys, options).limits, ElementsAre(1, 2));
}

TEST(SweepTest, OtherLimitHoldsForEveryReplay) {
  SweepOptions options;
  options.by = SweepBy::kEntries;
  options.replay.max_bytes = 1;  // Refuses every value.
  const Sweep sweep = SweepOf(kThreeKeys, options);
  EXPECT_THAT(sweep.limits, ElementsAre(1, 2, 3));
  EXPECT_THAT(sweep.curves[0].hits, ElementsAre(0, 0, 0));
}

TEST(SweepTest, TtlBoundsTheHitsOfAnyPolicy) {
  SweepOptions options;
  options.ttls = {absl::Seconds(1), absl::Seconds(10)};
  options.replay.jitter = 0;
  const Sweep sweep = SweepOf(kThreeKeys, options);
  EXPECT_THAT(sweep.bounds[0].hits, ElementsAre(0, 0, 0));
  EXPECT_THAT(sweep.bounds[1].hits, ElementsAre(1, 1, 1));
}

// So many reads, some of keys that are read often.
std::string TraceOfReads(Random& random, int count) {
  std::string trace;
  for (int i = 0; i < count; ++i) {
    const int64_t below = random.OneIn(3) ? 1'000 : random.From(1, 100);
    absl::StrAppend(&trace, i / 100, ",", random.From(1, below),
                    ",1,9,0,get,0\n");
  }
  return trace;
}

// Small caches are sampled whole.
TEST(SweepTest, SampleIsNearTheExactCurve) {
  Random random(3);
  const std::string trace = TraceOfReads(random, 5'000);
  SweepOptions options;
  options.ttls = {absl::Seconds(20), absl::InfiniteDuration()};
  options.replay.shards = 1;
  options.replay.jitter = 0;
  const Sweep sweep = SweepOf(trace, options);
  ASSERT_EQ(sweep.samples.size(), 2);
  for (const SweepSample& sample : sweep.samples) {
    ASSERT_EQ(sample.hit_ratios.size(), sample.limits.size());
    EXPECT_GE(sample.limits.size(), 4);
    EXPECT_GE(sample.limits.front(), sweep.limits.front());
    EXPECT_LE(sample.limits.back(), sweep.limits.back());
    for (size_t i = 0; i < sample.limits.size(); ++i) {
      EXPECT_GT(sample.limits[i], i == 0 ? 0 : sample.limits[i - 1]);
      ReplayOptions single = options.replay;
      single.max_entries = sample.limits[i];
      single.ttl = sample.ttl;
      TextSource source(trace);
      EXPECT_NEAR(sample.hit_ratios[i],
                  Replay(source, single).value().hit_ratio(), 0.02)
          << "limit " << sample.limits[i];
    }
  }
}

TEST(SweepTest, WithoutLruThereIsNoSampleOfIt) {
  SweepOptions options;
  options.policies = {kPolicies[1]};
  EXPECT_TRUE(SweepOf(kThreeKeys, options).samples.empty());
}

TEST(SweepTest, TraceWithoutRequestsHasNone) {
  const Sweep sweep = SweepOf("", SweepOptions());
  EXPECT_EQ(sweep.requests, 0);
  EXPECT_EQ(sweep.hit_ratio(0), 0);
}

TEST(SweepTest, ErrorsOfTheSourceAndOfTheCacheAreReturned) {
  TextSource bad("0,a,1,9,0,get\n");
  EXPECT_EQ(RunSweep(bad, SweepOptions()).status().code(),
            absl::StatusCode::kInvalidArgument);
  SweepOptions options;
  options.replay.shards = 3;
  TextSource good(kThreeKeys);
  EXPECT_EQ(RunSweep(good, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SweepTest, ProgressRisesToItsEnd) {
  Random random(1);
  TextSource source(RandomTrace(random, 10'000));
  SweepOptions options;
  options.sizes = 3;
  options.replay.threads = 2;
  double done = 0;
  int64_t requests = 0;
  ASSERT_TRUE(
      RunSweep(source, options, [&](std::optional<double> now, int64_t played) {
        EXPECT_GE(now.value_or(0), done);
        EXPECT_GE(played, requests);
        done = now.value_or(0);
        requests = played;
      }).ok());
  EXPECT_NEAR(done, 1, 1e-9);
  // Loaded once, replayed six times, and with advice in two caches.
  EXPECT_EQ(requests, 9 * 10'000);
}

}  // namespace
}  // namespace wheelcache::replay
