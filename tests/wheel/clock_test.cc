// The clock of the system and its sleepers, and the clock of tests.

#include "wheelcache/wheel/clock.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/platform.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

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

// A clock whose coarse reading is as late as its bound allows.
class LateClock final : public FixedClock {
 public:
  LateClock(int64_t now, int64_t lag) : FixedClock(now), lag_(lag) {}
  int64_t CoarseNowNanos() const override {
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    const int64_t behind = std::max<int64_t>(lag_ - 1, 0);
    return NowNanos() < kFirst + behind ? kFirst : NowNanos() - behind;
  }
  int64_t coarse_lag_nanos() const override { return lag_; }

 private:
  const int64_t lag_;
};

TEST(CoarseClock, HasReachedADeadlineExactlyWhenTheExactReadingHas) {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  const int64_t times[] = {kFirst,      kFirst + 1, kFirst + 10, -10,   -1,
                           0,           1,          9,           10,    11,
                           kNever - 10, kNever - 9, kNever - 1,  kNever};
  for (const int64_t now : times) {
    for (const int64_t lag : {0, 1, 10}) {
      const LateClock clock(now, lag);
      const CoarseClock coarse_clock(clock);
      for (const int64_t deadline : times) {
        EXPECT_EQ(coarse_clock.HasReached(deadline), deadline <= now)
            << deadline << " at " << now << ", which lags by " << lag;
      }
    }
  }
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

class RealClockTest : public ::testing::TestWithParam<Clock*> {};
INSTANTIATE_TEST_SUITE_P(, RealClockTest,
                         ::testing::Values(&Clock::Monotonic(),
                                           &Clock::SinceBoot()));

// The only real sleep in the tests: of the code that sleeps.
TEST_P(RealClockTest, SleepsUntilTheDeadlineAndNotLess) {
  Clock& clock = *GetParam();
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  const int64_t deadline = clock.NanosAfter(absl::Milliseconds(2));
  sleeper->SleepUntil(deadline);
  EXPECT_GE(clock.NowNanos(), deadline);
}

TEST_P(RealClockTest, DoesNotSleepForADeadlineThatHasCome) {
  Clock& clock = *GetParam();
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  sleeper->SleepUntil(clock.NowNanos());
  sleeper->SleepUntil(std::numeric_limits<int64_t>::min());
}

TEST_P(RealClockTest, WakeEndsASleepWithoutEnd) {
  const std::unique_ptr<Sleeper> sleeper = GetParam()->NewSleeper();
  std::thread thread([&] { sleeper->SleepUntil(kNever); });
  sleeper->Wake();
  thread.join();
}

TEST_P(RealClockTest, WakeBeforeTheSleepIsNotLost) {
  const std::unique_ptr<Sleeper> sleeper = GetParam()->NewSleeper();
  sleeper->Wake();
  sleeper->SleepUntil(kNever);
  sleeper->Wake();
  sleeper->Wake();
  sleeper->SleepUntil(kNever - 1);
}

TEST_P(RealClockTest, ManyWakesEndOneSleep) {
  Clock& clock = *GetParam();
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

#ifdef WHEELCACHE_HAS_LINUX_CALLS

TEST(BootTimeClock, CountsAndWakesByTheClockThatGoesOnInASuspendedComputer) {
  Clock& clock = Clock::SinceBoot();
  timespec before;
  clock_gettime(CLOCK_BOOTTIME, &before);
  const absl::Duration now = clock.Now();
  EXPECT_GE(now, absl::DurationFromTimespec(before));
  EXPECT_LT(now, absl::DurationFromTimespec(before) + absl::Hours(1));
  EXPECT_EQ(clock.coarse_lag_nanos(), 0);
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  const std::string by_this_clock =
      "clockid: " + std::to_string(CLOCK_BOOTTIME);
  bool found = false;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(file.path());
    for (std::string line; std::getline(info, line);) {
      found = found || line == by_this_clock;
    }
  }
  EXPECT_TRUE(found);
}

#endif

// A thread that sleeps for each of its deadlines and notes when it woke.
class SleepingThread {
 public:
  SleepingThread(SimulatedClock& clock, std::vector<int64_t> deadlines)
      : clock_(clock),
        deadlines_(std::move(deadlines)),
        sleeper_(clock.NewSleeper()),
        thread_([this] { Run(); }) {}

  ~SleepingThread() { thread_.join(); }

  void Wake() {
    MutexLock lock(&mu_);
    if (sleeper_ != nullptr) sleeper_->Wake();
  }

  std::vector<int64_t> woke_at() {
    MutexLock lock(&mu_);
    return woke_at_;
  }

 private:
  void Run() {
    for (const int64_t deadline : deadlines_) {
      sleeper_->SleepUntil(deadline);
      // Slow, so that whoever does not wait for it misses it.
      for (int i = 0; i < 20; ++i) std::this_thread::yield();
      MutexLock lock(&mu_);
      woke_at_.push_back(clock_.NowNanos());
    }
    MutexLock lock(&mu_);
    sleeper_ = nullptr;
  }

  SimulatedClock& clock_;
  const std::vector<int64_t> deadlines_;
  Mutex mu_;
  std::unique_ptr<Sleeper> sleeper_;  // Changed under mu_.
  std::vector<int64_t> woke_at_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

TEST(SimulatedClock, StandsStillUntilItIsTold) {
  SimulatedClock clock(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::Seconds(3));
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(clock.Now(), absl::Seconds(5));
  clock.AdvanceTo(absl::Seconds(9));
  EXPECT_EQ(clock.Now(), absl::Seconds(9));
  clock.RunFor(absl::Seconds(1));
  EXPECT_EQ(clock.NowNanos(), 10'000'000'000);
}

TEST(SimulatedClock, NeverGoesBack) {
  SimulatedClock clock(absl::Seconds(3));
  clock.Advance(absl::Seconds(-1));
  EXPECT_EQ(clock.Now(), absl::Seconds(3));
  clock.AdvanceTo(absl::Seconds(2));
  EXPECT_EQ(clock.Now(), absl::Seconds(3));
  clock.RunFor(absl::Seconds(-1));
  EXPECT_EQ(clock.Now(), absl::Seconds(3));
}

TEST(SimulatedClock, DoesNotReachNever) {
  SimulatedClock clock;
  clock.Advance(absl::InfiniteDuration());
  EXPECT_EQ(clock.NowNanos(), Clock::kNever - 1);
  clock.RunFor(absl::InfiniteDuration());
  EXPECT_EQ(clock.NowNanos(), Clock::kNever - 1);
}

TEST(SimulatedClock, CoarseReadingIsTheLastWholeMultipleOfTheLag) {
  SimulatedClock clock(absl::Nanoseconds(-5), absl::Nanoseconds(4));
  EXPECT_EQ(clock.coarse_lag_nanos(), 4);
  EXPECT_EQ(clock.CoarseNowNanos(), -8);
  for (int64_t now = -5; now < 20; ++now) {
    clock.AdvanceTo(absl::Nanoseconds(now));
    EXPECT_LE(clock.CoarseNowNanos(), now);
    EXPECT_GT(clock.CoarseNowNanos(), now - 4);
    EXPECT_EQ(clock.CoarseNowNanos() % 4, 0);
  }
  const SimulatedClock first(-absl::InfiniteDuration(), absl::Milliseconds(4));
  EXPECT_EQ(first.CoarseNowNanos(), first.NowNanos());
}

TEST(SimulatedClock, RunForWakesEachSleeperAtItsDeadlines) {
  SimulatedClock clock;
  SleepingThread a(clock, {10, 20, 30});
  SleepingThread b(clock, {15, 20, 25});
  clock.RunFor(absl::Nanoseconds(22));
  EXPECT_THAT(a.woke_at(), ElementsAre(10, 20));
  EXPECT_THAT(b.woke_at(), ElementsAre(15, 20));
  EXPECT_EQ(clock.NowNanos(), 22);
  clock.RunFor(absl::Nanoseconds(8));
  EXPECT_THAT(a.woke_at(), ElementsAre(10, 20, 30));
  EXPECT_THAT(b.woke_at(), ElementsAre(15, 20, 25));
}

TEST(SimulatedClock, AdvanceJumpsAsIfTheProcessHadBeenStopped) {
  SimulatedClock clock;
  SleepingThread thread(clock, {10, 20, 30});
  clock.WaitUntilAsleep();
  clock.Advance(absl::Nanoseconds(25));
  clock.WaitUntilAsleep();
  EXPECT_THAT(thread.woke_at(), ElementsAre(25, 25));
  clock.Advance(absl::Nanoseconds(5));
}

TEST(SimulatedClock, CountsWakeUps) {
  SimulatedClock clock;
  SleepingThread thread(clock, {10, 20, 1000});
  clock.WaitUntilAsleep();
  EXPECT_EQ(clock.wake_ups(), 0);
  clock.RunFor(absl::Nanoseconds(100));
  EXPECT_EQ(clock.wake_ups(), 2);
  thread.Wake();
  clock.WaitUntilAsleep();
  EXPECT_EQ(clock.wake_ups(), 3);
}

TEST(SimulatedClock, AThreadCountsAsAwakeBeforeItsFirstSleep) {
  SimulatedClock clock;
  std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  std::atomic<bool> slept{false};
  std::thread thread([&] {
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    slept = true;
    sleeper->SleepUntil(10);
    sleeper = nullptr;
  });
  clock.WaitUntilAsleep();
  EXPECT_TRUE(slept);
  clock.Advance(absl::Nanoseconds(10));
  thread.join();
}

TEST(SimulatedClock, AThreadCountsAsAwakeFromTheMomentItIsWoken) {
  SimulatedClock clock;
  for (int i = 0; i < 100; ++i) {
    SleepingThread thread(clock, {clock.NowNanos() + 10});
    clock.WaitUntilAsleep();
    thread.Wake();
    clock.WaitUntilAsleep();  // That is, until it has ended.
    EXPECT_EQ(thread.woke_at().size(), 1);
  }
}

TEST(SimulatedClock, DoesNotSleepForADeadlineThatHasCome) {
  SimulatedClock clock(absl::Seconds(1));
  const std::unique_ptr<Sleeper> sleeper = clock.NewSleeper();
  sleeper->SleepUntil(clock.NowNanos());
  sleeper->Wake();
  sleeper->SleepUntil(Clock::kNever);
  EXPECT_EQ(clock.wake_ups(), 0);
}

}  // namespace
}  // namespace wheelcache
