#include "wheelcache/tools/trace_replay/sweep_advice.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

constexpr Policy kFirst = {EvictionPolicy::kLru, "first", "First",
                           "Policy::kFirst"};
constexpr Policy kOther = {EvictionPolicy::kScanResistant, "other", "Other",
                           "Policy::kOther"};

// A sweep of a thousand reads by 100, 200, 400 and 800 entries. The curves are
// for each TTL one of each policy.
Sweep SweepWith(const std::vector<absl::Duration>& ttls,
                const std::vector<std::vector<int64_t>>& hits) {
  Sweep sweep;
  sweep.requests = sweep.reads = 1000;
  sweep.limits = {100, 200, 400, 800};
  const size_t policies = hits.size() / ttls.size();
  for (size_t i = 0; i < hits.size(); ++i) {
    const absl::Duration ttl = ttls[i / policies];
    sweep.curves.push_back({i % policies == 0 ? kFirst : kOther, ttl, hits[i]});
    if (i % policies == 0) sweep.bounds.push_back({ttl, hits[i]});
  }
  return sweep;
}

const absl::Duration kNoTtl = absl::InfiniteDuration();

TEST(SweepAdviceTest, KneeIsWhereTheCurveIsHighestAboveTheAverage) {
  const Sweep sweep = SweepWith({kNoTtl}, {{0, 0, 0, 0}});
  EXPECT_EQ(FindKnee(sweep, {500, 700, 750, 800}), 1u);
  EXPECT_EQ(FindKnee(sweep, {100, 200, 700, 800}), 2u);
  EXPECT_EQ(FindKnee(sweep, {800, 800, 800, 800}), 0u);
  EXPECT_EQ(FindKnee(sweep, {0, 0, 0, 800}), 3u);
  EXPECT_EQ(FindKnee(sweep, {0, 0, 0, 0}), 0u);
}

TEST(SweepAdviceTest, OtherPolicyMustGainHalfAPoint) {
  const Sweep little = SweepWith({kNoTtl}, {{450, 600, 650, 700},  //
                                            {454, 604, 650, 700}});
  EXPECT_EQ(Choose(little).curve, 0u);
  const Sweep enough = SweepWith({kNoTtl}, {{450, 600, 650, 700},  //
                                            {450, 605, 650, 700}});
  EXPECT_EQ(Choose(enough).curve, 1u);
}

TEST(SweepAdviceTest, LimitIsAtTheKneeOfTheChosenPolicy) {
  const Sweep sweep = SweepWith({kNoTtl}, {{300, 450, 550, 700},  //
                                           {500, 560, 600, 700}});
  EXPECT_EQ(FindKnee(sweep, sweep.curves[0].hits), 1u);
  EXPECT_EQ(Choose(sweep).curve, 1u);
  EXPECT_EQ(Choose(sweep).limit, 0u);
}

TEST(SweepAdviceTest, ShortestTtlThatHitsAsOftenIsChosen) {
  const std::vector<absl::Duration> ttls = {absl::Minutes(1), absl::Minutes(5),
                                            kNoTtl};
  const Sweep sweep = SweepWith(
      ttls, {{450, 590, 650, 700}, {450, 591, 650, 700}, {450, 600, 650, 700}});
  EXPECT_EQ(Choose(sweep).curve, 1u);
  EXPECT_EQ(Choose(sweep).limit, 1u);
}

TEST(SweepAdviceTest, SentenceTellsWhatToSetAndWhatThatGains) {
  Sweep sweep = SweepWith({absl::Minutes(5)}, {{500, 580, 640, 700},  //
                                               {520, 620, 653, 700}});
  EXPECT_EQ(Advise(sweep, Choose(sweep)),
            "Choose max_entries = 200, Policy::kOther and a TTL of 5 min: 62.0 "
            "% of the reads hit, 4.0 points more than with First; twice as "
            "much would gain 3.3 points.");
  sweep.by = SweepBy::kBytes;
  sweep.bounds[0].ttl = sweep.curves[0].ttl = kNoTtl;
  EXPECT_EQ(Advise(sweep, {0, 3}),
            "Choose max_bytes = 800 (800 bytes), Policy::kFirst and no TTL: "
            "70.0 % of the reads hit; no larger limit was tried.");
}

TEST(SweepAdviceTest, GainOfTwiceTheLimitIsInterpolated) {
  Sweep sweep = SweepWith({kNoTtl}, {{500, 600, 640, 700}});
  sweep.limits = {100, 141, 282, 400};
  EXPECT_EQ(Advise(sweep, {0, 0}),
            "Choose max_entries = 100, Policy::kFirst and no TTL: 50.0 % of "
            "the reads hit; twice as much would gain 12.0 points.");
  EXPECT_EQ(Advise(sweep, {0, 2}),
            "Choose max_entries = 282, Policy::kFirst and no TTL: 64.0 % of "
            "the reads hit; the largest limit would gain 6.0 points.");
}

TEST(SweepAdviceTest, WithoutReadsThereIsNothingToChoose) {
  Sweep sweep = SweepWith({kNoTtl}, {{0, 0, 0, 0}});
  sweep.reads = 0;
  EXPECT_EQ(Advise(sweep, Choose(sweep)),
            "The trace has no reads, so no limit is better than another.");
}

TEST(SweepAdviceTest, OneLimitIsEnough) {
  Sweep sweep = SweepWith({kNoTtl}, {{500}});
  sweep.limits = {1};
  EXPECT_EQ(Choose(sweep).limit, 0u);
  EXPECT_EQ(Advise(sweep, Choose(sweep)),
            "Choose max_entries = 1, Policy::kFirst and no TTL: 50.0 % of the "
            "reads hit; no larger limit was tried.");
}

}  // namespace
}  // namespace wheelcache::replay
