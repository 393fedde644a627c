#include "wheelcache/wheel/clock.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>  // NOLINT(build/c++11)

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace wheelcache {
namespace {

constexpr int64_t kNever = Clock::kNever;

TEST(MonotonicClock, NeverGoesBack) {
  Clock& clock = Clock::Monotonic();
  int64_t last = clock.NowNanos();
  for (int i = 0; i < 100'000; ++i) {
    const int64_t now = clock.NowNanos();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(MonotonicClock, CoarseReadingIsNeverAheadAndLagsLessThanItsBound) {
  Clock& clock = Clock::Monotonic();
  for (int i = 0; i < 100'000; ++i) {
    const int64_t before = clock.NowNanos();
    const int64_t coarse = clock.CoarseNowNanos();
    const int64_t after = clock.NowNanos();
    ASSERT_LE(coarse, after);
    if (clock.coarse_lag_nanos() == 0) {
      ASSERT_GE(coarse, before);
    } else {
      ASSERT_GT(coarse, before - clock.coarse_lag_nanos());
    }
  }
}

TEST(MonotonicClock, IsOneObject) {
  EXPECT_EQ(&Clock::Monotonic(), &Clock::Monotonic());
}

TEST(MonotonicClock, NowIsTheReadingAsADuration) {
  Clock& clock = Clock::Monotonic();
  const int64_t before = clock.NowNanos();
  const int64_t now = absl::ToInt64Nanoseconds(clock.Now());
  EXPECT_LE(before, now);
  EXPECT_LE(now, clock.NowNanos());
}

// A clock as a user writes one: nothing but a reading.
class FixedClock : public Clock {
 public:
  explicit FixedClock(int64_t now) : now_(now) {}
  int64_t NowNanos() const override { return now_; }

 private:
  const int64_t now_;
};

TEST(Clock, CoarseReadingOfAClockThatHasNoneIsExact) {
  FixedClock clock(7);
  EXPECT_EQ(clock.CoarseNowNanos(), 7);
  EXPECT_EQ(clock.coarse_lag_nanos(), 0);
}

TEST(Clock, NanosAfterIsNeverEarly) {
  FixedClock clock(100);
  EXPECT_EQ(clock.NanosAfter(absl::ZeroDuration()), 100);
  EXPECT_EQ(clock.NanosAfter(absl::Nanoseconds(5)), 105);
  EXPECT_EQ(clock.NanosAfter(absl::Nanoseconds(5) / 2), 103);  // 2.5 ns.
  EXPECT_EQ(clock.NanosAfter(absl::Nanoseconds(-30)), 70);
}

TEST(Clock, NanosAfterSaturates) {
  FixedClock clock(100);
  EXPECT_EQ(clock.NanosAfter(absl::InfiniteDuration()), kNever);
  EXPECT_EQ(clock.NanosAfter(absl::Nanoseconds(kNever - 100)), kNever);
  EXPECT_EQ(clock.NanosAfter(absl::Nanoseconds(kNever - 101)), kNever - 1);
  EXPECT_EQ(clock.NanosAfter(absl::Hours(24) * 365 * 1000), kNever);
  EXPECT_EQ(clock.NanosAfter(-absl::InfiniteDuration()),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Clock::NanosAfter(-100, absl::Nanoseconds(-kNever)),
            std::numeric_limits<int64_t>::min());
}

// The only real sleep in the tests: of the code that sleeps.
TEST(Sleeper, SleepsUntilTheDeadlineAndNotLess) {
  Clock& clock = Clock::Monotonic();
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  const int64_t deadline = clock.NanosAfter(absl::Milliseconds(2));
  sleeper->SleepUntil(deadline);
  EXPECT_GE(clock.NowNanos(), deadline);
}

TEST(Sleeper, DoesNotSleepForADeadlineThatHasCome) {
  Clock& clock = Clock::Monotonic();
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  sleeper->SleepUntil(clock.NowNanos());
  sleeper->SleepUntil(std::numeric_limits<int64_t>::min());
}

TEST(Sleeper, WakeEndsASleepWithoutEnd) {
  const std::unique_ptr<Sleeper> sleeper = Clock::Monotonic().NewSleeper();
  std::thread thread([&] { sleeper->SleepUntil(kNever); });
  sleeper->Wake();
  thread.join();
}

TEST(Sleeper, WakeBeforeTheSleepIsNotLost) {
  const std::unique_ptr<Sleeper> sleeper = Clock::Monotonic().NewSleeper();
  sleeper->Wake();
  sleeper->SleepUntil(kNever);
  sleeper->Wake();
  sleeper->Wake();
  sleeper->SleepUntil(kNever - 1);
}

TEST(Sleeper, ManyWakesEndOneSleep) {
  Clock& clock = Clock::Monotonic();
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  sleeper->Wake();
  sleeper->Wake();
  sleeper->SleepUntil(kNever);
  const int64_t deadline = clock.NanosAfter(absl::Milliseconds(1));
  sleeper->SleepUntil(deadline);
  EXPECT_GE(clock.NowNanos(), deadline);
}

// Goes on by a nanosecond whenever somebody looks.
class ShyClock : public Clock {
 public:
  int64_t NowNanos() const override { return ++now_; }

 private:
  mutable std::atomic<int64_t> now_{0};
};

TEST(Sleeper, SleepsOnTheReadingsOfItsOwnClock) {
  ShyClock clock;
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  sleeper->SleepUntil(100);
  EXPECT_EQ(clock.NowNanos(), 101);
}

}  // namespace
}  // namespace wheelcache
