// Which hits move their entry to the front.

#include "wheelcache/cache/internal/recency.h"

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"

namespace wheelcache {
namespace internal {
namespace {

// How many moves of others an entry stays young for, in a list of `entries`.
int64_t MovesUntilOld(bool exact, size_t entries) {
  Recency recency(exact);
  for (size_t i = 0; i < entries; ++i) recency.NextStamp(entries);
  const uint32_t stamp = recency.NextStamp(entries);
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

// Readers may learn of a move a sixteenth of that late.
TEST(RecencyTest, EntryIsYoungUntilAQuarterOfTheListHasPassedIt) {
  for (const int64_t quarter : {1, 2, 15, 16, 100, 25'000}) {
    const int64_t moves =
        MovesUntilOld(/*exact=*/false, static_cast<size_t>(quarter) * 4);
    EXPECT_GE(moves, quarter);
    EXPECT_LE(moves, quarter + quarter / 16);
  }
}

}  // namespace
}  // namespace internal
}  // namespace wheelcache
