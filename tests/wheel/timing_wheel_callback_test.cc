// What callbacks of the timing wheel may do, and what budgets count.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache {
namespace {

TEST(TimingWheelCallbackTest, CallbackMayScheduleCancelAndDestroy) {
  TimingWheel wheel;
  std::vector<std::unique_ptr<Timer>> timers(5);
  Timer fresh;
  for (std::unique_ptr<Timer>& timer : timers) {
    timer = std::make_unique<Timer>();
    wheel.Schedule(timer.get(), 100);
  }
  int fired = 0;
  wheel.Advance(100, kNoBudget, [&](Timer* timer) {
    EXPECT_FALSE(timer->scheduled());
    if (++fired > 1) return wheel.Schedule(timer, 200);
    // The first destroys itself and meddles with the others of its tick.
    for (std::unique_ptr<Timer>& other : timers) {
      if (other.get() == timer) other.swap(timers[0]);
    }
    timers[0].reset();
    timers[1].reset();
    EXPECT_TRUE(wheel.Cancel(timers[2].get()));
    wheel.Schedule(timers[3].get(), 150);
    wheel.Schedule(&fresh, 164);
    EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  });
  EXPECT_EQ(fired, 2);
  std::vector<Timer*> later;
  wheel.Advance(200, kNoBudget, [&](Timer* t) { later.push_back(t); });
  EXPECT_EQ(later,
            (std::vector<Timer*>{timers[3].get(), &fresh, timers[4].get()}));
}

TEST(TimingWheelCallbackTest, CallbackThatAlwaysSchedulesAgainLetsAdvanceEnd) {
  for (const uint64_t start : {uint64_t{0}, uint64_t{63}, uint64_t{4095}}) {
    TimingWheel wheel(start);
    Timer timer;
    wheel.Schedule(&timer, start);
    int fired = 0;
    const auto fire_again = [&](Timer* again) {
      ++fired;
      wheel.Schedule(again, 0);
      EXPECT_EQ(wheel.NextWakeup(), wheel.now() + 1);
      EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    };
    wheel.Advance(start, kNoBudget, fire_again);
    EXPECT_EQ(fired, 1);
    wheel.Advance(start + 10, kNoBudget, fire_again);
    EXPECT_EQ(fired, 11);
  }
}

TEST(TimingWheelCallbackTest, CallbackAtTheLastTickSchedulesForNever) {
  TimingWheel wheel(kNoDeadline);
  Timer timer;
  wheel.Schedule(&timer, 0);
  int fired = 0;
  const auto fire_again = [&](Timer* again) {
    ++fired;
    wheel.Schedule(again, 0);
  };
  wheel.Advance(kNoDeadline, kNoBudget, fire_again);
  wheel.Advance(kNoDeadline, kNoBudget, fire_again);
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
}

TEST(TimingWheelCallbackTest, CallbackSeesTheTickThatFires) {
  TimingWheel wheel;
  std::vector<Timer> timers(10);
  for (size_t i = 0; i < timers.size(); ++i) {
    wheel.Schedule(&timers[i], i * i * i);
  }
  wheel.Advance(10'000, kNoBudget, [&](Timer* timer) {
    EXPECT_EQ(wheel.now(), timer->deadline());
  });
  EXPECT_EQ(wheel.now(), 10'000u);
}

TEST(TimingWheelCallbackTest, CallbackMaySetFurtherTimersOfTheSameAdvance) {
  TimingWheel wheel;
  Timer timer;
  wheel.Schedule(&timer, 1);
  std::vector<uint64_t> ticks;
  wheel.Advance(1'000'000, kNoBudget, [&](Timer* again) {
    ticks.push_back(wheel.now());
    wheel.Schedule(again, wheel.now() * 64);
  });
  EXPECT_EQ(ticks, (std::vector<uint64_t>{1, 64, 4096, 262'144}));
}

TEST(TimingWheelCallbackTest, CallbackMayTakeAll) {
  TimingWheel wheel;
  std::vector<Timer> timers(300);
  for (size_t i = 0; i < timers.size(); ++i) wheel.Schedule(&timers[i], i / 3);
  size_t fired = 0;
  size_t taken = 0;
  wheel.Advance(1000, kNoBudget, [&](Timer*) {
    if (++fired == 10) wheel.TakeAll([&](Timer*) { ++taken; });
  });
  EXPECT_EQ(fired, 10u);
  EXPECT_EQ(taken, 290u);
}

TEST(TimingWheelCallbackTest, ThrownExceptionLosesNoTimerAndFiresNoneTwice) {
  TimingWheel wheel;
  std::vector<Timer> timers(100);
  std::vector<int> fired(timers.size());
  for (size_t i = 0; i < timers.size(); ++i) {
    wheel.Schedule(&timers[i], 5000 + i / 7);  // Some share a tick.
  }
  for (size_t i = 0; i < timers.size(); ++i) {
    EXPECT_THROW(wheel.Advance(6000, kNoBudget,
                               [&](Timer* timer) {
                                 ++fired[timer - timers.data()];
                                 throw size_t{i};
                               }),
                 size_t);
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  }
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(fired, std::vector<int>(timers.size(), 1));
}

TEST(TimingWheelCallbackTest, ScheduleAfterAThrowIsNotTakenForACallback) {
  TimingWheel wheel(7);
  Timer timer;
  wheel.Schedule(&timer, 7);
  EXPECT_THROW(wheel.Advance(7, kNoBudget, [](Timer*) { throw 1; }), int);
  wheel.Schedule(&timer, 7);
  EXPECT_EQ(wheel.NextWakeup(), 7u);
  EXPECT_EQ(wheel.Advance(7, kNoBudget, [](Timer*) {}), 1u);
}

TEST(TimingWheelCallbackTest, BudgetResumesWhereItStopped) {
  TimingWheel wheel;
  std::vector<Timer> timers(1000);
  for (size_t i = 0; i < timers.size(); ++i) {
    wheel.Schedule(&timers[i], i * i);
  }
  size_t fired = 0;
  while (wheel.Advance(2'000'000, 1, [&](Timer* timer) {
    EXPECT_EQ(timer, &timers[fired++]);
  }) == 1) {
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    if (fired < timers.size()) {
      EXPECT_EQ(wheel.NextWakeup(), timers[fired].deadline());
    }
  }
  EXPECT_EQ(fired, timers.size());
  EXPECT_EQ(wheel.now(), 2'000'000u);
}

TEST(TimingWheelCallbackTest, BudgetCountsCascadesAsWellAsFiring) {
  TimingWheel wheel;
  std::vector<Timer> timers(100);
  for (Timer& timer : timers) wheel.Schedule(&timer, 65);
  int fired = 0;
  const auto count = [&](Timer*) { ++fired; };
  EXPECT_EQ(wheel.Advance(65, 99, count), 99u);  // Cascades, the last excepted.
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(wheel.Advance(65, 51, count), 51u);
  EXPECT_EQ(fired, 50);
  EXPECT_EQ(wheel.Advance(65, 51, count), 50u);
  EXPECT_EQ(fired, 100);
}

TEST(TimingWheelCallbackTest, BudgetOfNothingDoesNothing) {
  TimingWheel wheel;
  Timer timer;
  wheel.Schedule(&timer, 5);
  EXPECT_EQ(wheel.Advance(9, 0, [](Timer*) { FAIL(); }), 0u);
  EXPECT_TRUE(timer.scheduled());
}

TEST(TimingWheelCallbackTest, TimersMayChangeBetweenTwoStepsOfACascade) {
  TimingWheel wheel;
  std::vector<std::optional<Timer>> timers(10);
  for (std::optional<Timer>& timer : timers) {
    wheel.Schedule(&timer.emplace(), 4096 + 70);
  }
  std::vector<Timer*> fired;
  const auto collect = [&](Timer* timer) { fired.push_back(timer); };
  EXPECT_EQ(wheel.Advance(4096 + 69, 5, collect), 5u);  // Half way down.
  timers[0].reset();
  timers[9].reset();
  wheel.Cancel(&*timers[1]);
  wheel.Schedule(&*timers[2], 4096 + 69);
  wheel.Schedule(&*timers[8], 4096 + 9999);
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  wheel.Advance(4096 + 69, kNoBudget, collect);
  EXPECT_EQ(fired, std::vector<Timer*>{&*timers[2]});
  wheel.Advance(4096 + 70, kNoBudget, collect);
  EXPECT_EQ(fired.size(), 6u);
}

TEST(TimingWheelCallbackTest, WheelEmptiedInMidCascadeAsksForNoWakeup) {
  TimingWheel wheel;
  Timer timers[3];
  for (Timer& timer : timers) wheel.Schedule(&timer, 100);
  EXPECT_EQ(wheel.Advance(100, 1, [](Timer*) {}), 1u);
  EXPECT_EQ(wheel.NextWakeup(), 100u);
  for (Timer& timer : timers) wheel.Cancel(&timer);
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.NextWakeup(), std::nullopt);
}

}  // namespace
}  // namespace wheelcache
