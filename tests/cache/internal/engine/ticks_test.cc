// Ticks, against the arithmetic of 128 bits.

#include "wheelcache/cache/internal/engine/ticks.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

using Wide = __int128;

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
constexpr int64_t kLast = Clock::kNever;
constexpr int64_t kTickNanos[] = {1, 2, 3, 1'000'000, int64_t{86'400} << 30};

// The tick that begins at the reading 0.
Wide ZeroOf(const Ticks& ticks) { return ticks.Floor(0); }

// Readings around those where ticks begin and where the range ends.
std::vector<int64_t> Readings(int64_t tick_nanos) {
  std::vector<int64_t> readings = {kFirst, kFirst + 1, kLast - 1, kLast};
  for (const int64_t ticks : {-1000, -2, -1, 0, 1, 2, 1000}) {
    for (const int64_t off : {-1, 0, 1}) {
      readings.push_back(ticks * tick_nanos + off);
    }
  }
  return readings;
}

TEST(TicksTest, ReadingLiesBetweenItsTicks) {
  for (const int64_t tick_nanos : kTickNanos) {
    const Ticks ticks(tick_nanos);
    for (const int64_t nanos : Readings(tick_nanos)) {
      const Wide floor = (ticks.Floor(nanos) - ZeroOf(ticks)) * tick_nanos;
      const Wide ceil = (ticks.Ceil(nanos) - ZeroOf(ticks)) * tick_nanos;
      EXPECT_LE(floor, nanos);
      EXPECT_GT(floor + tick_nanos, nanos);
      EXPECT_GE(ceil, nanos);
      EXPECT_LT(ceil - tick_nanos, nanos);
    }
  }
}

TEST(TicksTest, TicksOfLaterReadingsAreNoLess) {
  for (const int64_t tick_nanos : kTickNanos) {
    const Ticks ticks(tick_nanos);
    for (const int64_t a : Readings(tick_nanos)) {
      for (const int64_t b : Readings(tick_nanos)) {
        if (a > b) continue;
        EXPECT_LE(ticks.Floor(a), ticks.Floor(b));
        EXPECT_LE(ticks.Ceil(a), ticks.Ceil(b));
      }
    }
  }
}

TEST(TicksTest, TickBeginsAtItsReadingOrWhereTheReadingsEnd) {
  for (const int64_t tick_nanos : kTickNanos) {
    const Ticks ticks(tick_nanos);
    for (const int64_t nanos : Readings(tick_nanos)) {
      for (const uint64_t tick : {ticks.Floor(nanos), ticks.Ceil(nanos)}) {
        const Wide begin = (tick - ZeroOf(ticks)) * tick_nanos;
        const Wide expected = begin > kLast    ? kLast
                              : begin < kFirst ? kFirst
                                               : begin;
        EXPECT_EQ(ticks.Nanos(tick), static_cast<int64_t>(expected));
      }
    }
  }
}

}  // namespace
}  // namespace wheelcache::internal
