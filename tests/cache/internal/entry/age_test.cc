// How old a value is: from steps of the clock, wherever that stands.

#include "wheelcache/cache/internal/entry/age.h"

#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr int64_t kStep = kAgeStepNanos;
constexpr int64_t kDay = int64_t{24} * 3600 * 1'000'000'000;
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

int64_t AgeAfter(int64_t set_nanos, int64_t elapsed) {
  return AgeNanos(CreationTimeAt(set_nanos), set_nanos + elapsed);
}

TEST(AgeTest, StepIs20Milliseconds) {
  EXPECT_EQ(absl::Nanoseconds(kAgeStepNanos), absl::Milliseconds(20));
}

TEST(AgeTest, IsExactWhereWholeStepsHavePassed) {
  for (const int64_t set : {-7 * kStep - 3, int64_t{0}, kStep - 1, kDay + 5}) {
    for (const int64_t steps : {0, 1, 2, 50, 2'000'000'000}) {
      EXPECT_EQ(AgeAfter(set, steps * kStep), steps * kStep) << set;
    }
  }
}

TEST(AgeTest, IsOffByLessThanAStepEitherWay) {
  EXPECT_EQ(AgeAfter(kStep - 1, 1), kStep);
  EXPECT_EQ(AgeAfter(0, 2 * kStep - 1), kStep);
  constexpr int64_t kThird = kStep / 3;
  for (int64_t set = -6 * kThird; set <= 6 * kThird; set += kThird) {
    for (int64_t elapsed = 0; elapsed <= 9 * kThird; elapsed += kThird) {
      const int64_t age = AgeAfter(set, elapsed);
      EXPECT_LT(age, elapsed + kStep) << set;
      EXPECT_GT(age, elapsed - kStep) << set;
      EXPECT_EQ(age % kStep, 0);
    }
  }
}

TEST(AgeTest, StepsAroundTheStartOfTheClockAreAlike) {
  for (int64_t step = -3; step <= 3; ++step) {
    const CreationTime time = CreationTimeAt(step * kStep);
    EXPECT_EQ(CreationTimeAt(step * kStep - 1), time - 1) << step;
    EXPECT_EQ(CreationTimeAt((step + 1) * kStep - 1), time) << step;
  }
}

TEST(AgeTest, IsToldAtBothEndsOfTheClock) {
  for (const int64_t age : {int64_t{0}, kStep, kDay, 460 * kDay}) {
    EXPECT_EQ(AgeAfter(kFirst, age), age);
    EXPECT_EQ(AgeAfter(kLast - age, age), age);
  }
}

// The number of the step begins anew in between.
TEST(AgeTest, ReachesUpTo466DaysWhereverItBegins) {
  constexpr int64_t kReach = 466 * kDay;
  for (const int64_t set : {int64_t{0}, 250 * kDay, 497 * kDay, -2 * kDay}) {
    EXPECT_EQ(AgeAfter(set, kReach), kReach) << set;
    EXPECT_EQ(AgeAfter(set, kReach + kDay), 0) << set;
  }
}

TEST(AgeTest, IsZeroWhereTheClockWasTurnedBackByUpTo31Days) {
  for (const int64_t set : {int64_t{0}, 500 * kDay, -500 * kDay}) {
    for (const int64_t back : {int64_t{1}, kStep, kDay, 31 * kDay}) {
      EXPECT_EQ(AgeAfter(set, -back), 0) << set << " " << back;
    }
  }
}

TEST(AgeTest, MultiplesOf497DaysAreLost) {
  constexpr int64_t kRange = (int64_t{1} << 31) * kStep;
  EXPECT_EQ(AgeAfter(0, kRange + kDay), kDay);
  EXPECT_EQ(AgeAfter(0, 100 * kRange + kDay), kDay);
  EXPECT_EQ(AgeAfter(0, -32 * kDay), kRange - 32 * kDay);
}

}  // namespace
}  // namespace wheelcache::internal
