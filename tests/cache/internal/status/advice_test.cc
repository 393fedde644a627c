#include "wheelcache/cache/internal/status/advice.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"

namespace wheelcache::internal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A cache that does well.
CacheStats Good() {
  CacheStats stats;
  stats.max_entries = 100;
  stats.max_bytes = kUnlimited;
  stats.entries = 90;
  stats.hits = 950;
  stats.misses = 50;
  stats.sets = 50;
  return stats;
}

// The same, with evictions in these buckets.
CacheStats Evicting(size_t age, size_t life_left) {
  CacheStats stats = Good();
  stats.evictions = 40;
  stats.eviction_age.counts[age] = 40;
  stats.eviction_life_left.counts[life_left] = 40;
  return stats;
}

TEST(AdviceTest, NothingIsSaidWhereNothingIsToChange) {
  EXPECT_THAT(Advise(Good()), IsEmpty());
  EXPECT_THAT(Advise(CacheStats()), IsEmpty());
}

// Promise: Observable
TEST(AdviceTest, YoungVictimsMeanThatTheCacheIsTooSmall) {
  EXPECT_THAT(Advise(Evicting(5, 9)),
              ElementsAre("Evicted at 20 s with 95.0 % of the TTL left "
                          "(medians): too small for what it is given."));
  EXPECT_THAT(Advise(Evicting(5, 2)),
              ElementsAre(HasSubstr("a larger limit would help a little")));
  EXPECT_THAT(Advise(Evicting(5, 0)),
              ElementsAre(HasSubstr("limit and TTL fit each other")));
}

TEST(AdviceTest, VictimsWithoutATtlHaveAnAge) {
  CacheStats stats = Evicting(5, 9);
  stats.eviction_life_left.counts[9] = 0;
  EXPECT_THAT(Advise(stats),
              ElementsAre(HasSubstr("younger than 20 s and had no TTL")));
}

TEST(AdviceTest, FewEvictionsSayNothing) {
  CacheStats stats = Evicting(5, 9);
  stats.evictions = 19;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, RoomThatWasNeverUsedIsSpare) {
  CacheStats stats = Good();
  stats.entries = 50;
  stats.expirations = 1;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("50.0 % is in use")));
  stats.entries = 51;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, ValuesThatNobodyReadsAreNamed) {
  CacheStats stats = Good();
  stats.sets = 951;
  EXPECT_THAT(Advise(stats),
              ElementsAre("Stored 951 new values for 950 hits: most are never "
                          "read again."));
  stats.replaced = 1;  // A counter: its values are read by the next Update.
  EXPECT_THAT(Advise(stats), IsEmpty());
  stats.hits = stats.misses = 0;
  EXPECT_THAT(Advise(stats), ElementsAre("Nobody has read from it yet."));
}

TEST(AdviceTest, MissesAfterExpiryAreNotTheLimits) {
  CacheStats stats = Good();
  stats.hits = 500;
  stats.misses = 500;
  stats.expirations = 250;
  EXPECT_THAT(Advise(stats),
              ElementsAre(HasSubstr("a longer TTL would raise")));
  stats.expirations = 249;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

// A cache with advice of its own.
CacheStats Advised(const CacheAdvice& advice) {
  CacheStats stats = Good();
  stats.evictions = 1;
  stats.advice = advice;
  return stats;
}

TEST(AdviceTest, SampleTellsWhatOtherLimitsWouldDo) {
  CacheStats stats = Advised({0.90, 0.95, 0.971, 0.98});
  EXPECT_THAT(Advise(stats),
              ElementsAre("Twice the entries would add 2.1 points to the hit "
                          "ratio of 95.0 %, four times 3.0 points. Half of "
                          "them would cost 5.0 points."));
  stats.max_bytes = 1000;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the limits")));
  stats.max_entries = kUnlimited;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the bytes")));
  stats.max_bytes = kUnlimited;
  EXPECT_THAT(Advise(stats), IsEmpty());
}

TEST(AdviceTest, SampleTellsWhereMoreRoomGainsNothing) {
  EXPECT_THAT(Advise(Advised({0.9, 0.95, 0.95, 0.954})),
              ElementsAre("More room would gain nothing: four times the "
                          "entries would leave the hit ratio at 95.0 %. Half "
                          "of them would cost 5.0 points."));
  EXPECT_THAT(Advise(Advised({0.946, 0.95, 0.95, 0.95})),
              ElementsAre(HasSubstr("Half of them would do.")));
  EXPECT_THAT(Advise(Advised({0.94, 0.95, 0.954, 0.96})),
              ElementsAre("Twice the entries would add less than half a point "
                          "to the hit ratio of 95.0 %, four times 1.0 point. "
                          "Half of them would cost 1.0 point."));
}

TEST(AdviceTest, CacheThatIsStillBeingFilledIsNotTooLarge) {
  CacheStats stats = Advised({0.95, 0.95, 0.95, 0.95});
  stats.evictions = 0;
  EXPECT_THAT(Advise(stats), ElementsAre(Not(HasSubstr("Half"))));
  stats.expirations = 1;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Half of them would do")));
}

TEST(AdviceTest, FewReadsAreNoSample) {
  CacheStats stats = Advised({0.9, 0.95, 0.97, 0.98});
  stats.hits = 94;
  stats.misses = 5;
  EXPECT_THAT(Advise(stats), IsEmpty());
  stats.misses = 6;
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice")));
}

// They could contradict it.
TEST(AdviceTest, SampleReplacesTheRulesOfThumb) {
  CacheStats stats = Evicting(5, 9);
  stats.advice = CacheAdvice{0.95, 0.95, 0.95, 0.95};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("gain nothing")));
  stats = Good();
  stats.entries = 10;
  stats.expirations = 1;
  stats.advice = CacheAdvice{0.95, 0.95, 0.95, 0.95};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Half of them would do")));
  stats = Good();
  stats.hits = stats.misses = stats.expirations = 500;
  stats.advice = CacheAdvice{0.4, 0.5, 0.6, 0.7};
  EXPECT_THAT(Advise(stats), ElementsAre(HasSubstr("Twice the entries")));
}

TEST(AdviceTest, SampledMissesTellTheirCause) {
  CacheAdvice advice = {0.9, 0.95, 0.97, 0.98, 60, 20, 20, 19};
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.4 % are first uses, which no limit "
                       "and no TTL saves."));
  advice.first_uses = 40;
  EXPECT_EQ(Advise(Advised(advice)).size(), 1);  // Fewer than 100.
  advice.expired = 80;
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.3 % are of values that had expired: "
                       "a longer TTL would raise the hit ratio."));
  advice.expired = 10;
  advice.deleted = 70;
  EXPECT_THAT(Advise(Advised(advice)),
              Contains("Of the misses, 50.0 % are of values that the program "
                       "had deleted."));
  advice.evicted = 80;
  EXPECT_EQ(Advise(Advised(advice)).size(), 1);
}

TEST(AdviceTest, FailuresAreTold) {
  CacheStats stats = Good();
  stats.refused = 1;
  stats.loads = 8;
  stats.load_errors = 2;
  stats.listener_exceptions = 3;
  EXPECT_THAT(
      Advise(stats),
      ElementsAre(HasSubstr("1 value was refused"), "25.0 % of 8 loads failed.",
                  "The removal listener threw 3 exceptions."));
}

TEST(AdviceTest, UseIsThatOfTheTighterLimit) {
  CacheStats stats = Good();
  EXPECT_EQ(UseOf(stats), 0.9);
  stats.max_bytes = 1000;
  stats.bytes = 950;
  EXPECT_EQ(UseOf(stats), 0.95);
}

}  // namespace
}  // namespace wheelcache::internal
