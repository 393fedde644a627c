// Which hits move their entry to the front, and whose last entry is oldest.

#include "wheelcache/cache/internal/recency.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace wheelcache {
namespace internal {
namespace {

// How many moves of others an entry stays young for, in a list of `entries`.
int64_t MovesUntilOld(bool exact, int64_t entries) {
  UseClock clock(/*shards=*/1);
  Recency recency(&clock, exact);
  for (int64_t i = 0; i < 100; ++i) recency.NextStamp(entries);
  const Stamp stamp = recency.NextStamp(entries);
  int64_t moves = 0;
  while (recency.IsYoung(stamp)) {
    recency.NextStamp(entries);
    ++moves;
  }
  return moves;
}

TEST(RecencyTest, InExactModeOnlyTheEntryAtTheFrontIsYoung) {
  EXPECT_EQ(MovesUntilOld(/*exact=*/true, 1), 1);
  EXPECT_EQ(MovesUntilOld(/*exact=*/true, 100'000), 1);
}

// A shard counts sixteen moves at a time.
TEST(RecencyTest, EntryIsYoungUntilHalfTheCacheHasBeenMovedBeforeIt) {
  for (const int64_t half : {1, 2, 15, 16, 100, 25'000}) {
    const int64_t moves = MovesUntilOld(/*exact=*/false, half * 2);
    EXPECT_GT(moves, half - 16);
    EXPECT_LE(moves, half + 16);
  }
}

TEST(RecencyTest, MovesInOneShardAgeTheEntriesOfAll) {
  UseClock clock(/*shards=*/2);
  Recency one(&clock, /*exact=*/false);
  Recency other(&clock, /*exact=*/false);
  const Stamp stamp = one.NextStamp(100);
  EXPECT_TRUE(one.IsYoung(stamp));
  for (int i = 0; i < 100; ++i) other.NextStamp(100);
  EXPECT_FALSE(one.IsYoung(stamp));
}

TEST(RecencyTest, StampsAreComparedAcrossTheWrapAround) {
  EXPECT_TRUE(IsOlderBy(Stamp{0} - 10, 10, 19));
  EXPECT_FALSE(IsOlderBy(Stamp{0} - 10, 10, 20));
  EXPECT_FALSE(IsOlderBy(10, Stamp{0} - 10, 0));
}

}  // namespace
}  // namespace internal
}  // namespace wheelcache
