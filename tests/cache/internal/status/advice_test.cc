#include "wheelcache/cache/internal/status/advice.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"

namespace wheelcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
              ElementsAre("Stored 951 values for 950 hits: most are never read "
                          "again."));
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
