// Which hits note that an entry was used, and whose last entry is oldest.

#include "wheelcache/cache/internal/engine/recency.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

// For how many uses of others an entry stays young where the list does not see
// differences below `resolution`.
int64_t UsesUntilOld(Recency::Order order, uint32_t resolution) {
  UseClock clock(/*shards=*/1);
  Recency recency(&clock, order);
  recency.SetResolution(resolution);
  uint32_t uncounted = 0;
  const Stamp stamp = recency.NextStamp(&uncounted);
  int64_t uses = 0;
  while (recency.IsYoung(stamp, recency.Now())) {
    recency.NextStamp(&uncounted);
    ++uses;
  }
  return uses;
}

TEST(RecencyTest, InExactModeOnlyTheEntryAtTheFrontIsYoung) {
  EXPECT_EQ(UsesUntilOld(Recency::Order::kExact, 1), 1);
  EXPECT_EQ(UsesUntilOld(Recency::Order::kExact, 10'000), 1);
}

// A shard counts sixteen uses at a time.
TEST(RecencyTest, EntryIsYoungForAQuarterOfTheTimeThatTheListSpans) {
  for (const uint32_t resolution : {1, 4, 15, 16, 100, 25'000}) {
    const int64_t uses = UsesUntilOld(Recency::Order::kLazy, resolution);
    EXPECT_GT(uses, int64_t{resolution} * 4 - 16);
    EXPECT_LE(uses, int64_t{resolution} * 4 + 16);
  }
}

TEST(RecencyTest, UsesInOneShardAgeTheEntriesOfAll) {
  UseClock clock(/*shards=*/2);
  Recency one(&clock, Recency::Order::kLazy);
  Recency other(&clock, Recency::Order::kLazy);
  one.SetResolution(10);
  uint32_t uncounted_of_one = 0;
  uint32_t uncounted_of_other = 0;
  const Stamp stamp = one.NextStamp(&uncounted_of_one);
  EXPECT_TRUE(one.IsYoung(stamp, one.Now()));
  for (int i = 0; i < 100; ++i) {
    other.NextStamp(&uncounted_of_other);
  }
  EXPECT_FALSE(one.IsYoung(stamp, one.Now()));
}

// The list sees a sixteenth. The uses that a shard has not counted come to it.
TEST(RecencyTest,
     AnotherShardsEntryIsOlderByASixtyFourthOfTheTimeThatTheListSpans) {
  UseClock clock(/*shards=*/2);
  Recency recency(&clock, Recency::Order::kLazy);
  for (const uint32_t span : {64, 640, 64'000'000}) {
    recency.SetResolution(span / 16);
    EXPECT_EQ(recency.Margin(), span / 64 + 16);
  }
}

TEST(RecencyTest, TailIsShownAnewWhereItDiffersByMoreThanTheSlack) {
  UseClock clock(/*shards=*/2);
  clock.set_tail(1, 1000);
  for (const Stamp near : {992, 1000, 1008}) {
    clock.set_tail(1, near, /*slack=*/8);
    EXPECT_EQ(clock.tail(1), 1000);
  }
  for (const Stamp far : {1009, 1000, 991}) {
    clock.set_tail(1, far, /*slack=*/8);
    EXPECT_EQ(clock.tail(1), far);
  }
  EXPECT_EQ(clock.tail(0), 0);
}

TEST(RecencyTest, StampsAreComparedAcrossTheWrapAround) {
  EXPECT_TRUE(IsOlderBy(Stamp{0} - 10, 10, 19));
  EXPECT_FALSE(IsOlderBy(Stamp{0} - 10, 10, 20));
  EXPECT_FALSE(IsOlderBy(10, Stamp{0} - 10, 0));
}

}  // namespace
}  // namespace wheelcache::internal
