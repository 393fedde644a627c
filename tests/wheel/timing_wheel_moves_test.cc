// Timers that are moved, set again, taken and removed: what other timing wheels
// are known to get wrong.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache {
namespace {

// A wheel that is advanced tick by tick, as by a ticker.
class Ticked {
 public:
  explicit Ticked(uint64_t now = 0) : wheel_(now) {}

  void Set(Timer& timer, uint64_t delay) {
    wheel_.Schedule(&timer, wheel_.now() + delay);
  }

  // Returns how many timers fired.
  int Tick(uint64_t ticks) {
    int fired = 0;
    for (uint64_t i = 0; i < ticks; ++i) {
      wheel_.Advance(wheel_.now() + 1, kNoBudget, [&](Timer*) { ++fired; });
    }
    return fired;
  }

  TimingWheel& wheel() { return wheel_; }

 private:
  TimingWheel wheel_;
};

constexpr uint64_t kDelays[] = {5, 7, 10, 12};

TEST(TimingWheelMovesTest, FiresExactlyOnItsTick) {
  for (const uint64_t elapsed : {0, 3, 5, 250}) {
    for (const uint64_t delay : kDelays) {
      Ticked ticked;
      Timer timer;
      ticked.Tick(elapsed);
      ticked.Set(timer, delay);
      EXPECT_EQ(ticked.Tick(delay - 1), 0);
      EXPECT_EQ(ticked.Tick(1), 1);
      EXPECT_EQ(ticked.Tick(1000), 0);
    }
  }
}

TEST(TimingWheelMovesTest, MovedTimerFiresExactlyOnItsNewTick) {
  for (const uint64_t elapsed : {0, 3, 5}) {
    for (const uint64_t delay : kDelays) {
      for (const uint64_t first_move : {3, 8, 13}) {
        Ticked ticked;
        Timer timer;
        ticked.Set(timer, 6);
        ticked.Tick(elapsed);
        ticked.Set(timer, first_move);
        ticked.Set(timer, delay);
        EXPECT_EQ(ticked.Tick(delay - 1), 0);
        EXPECT_EQ(ticked.Tick(1), 1);
        EXPECT_EQ(ticked.Tick(1000), 0);
      }
    }
  }
}

TEST(TimingWheelMovesTest, MovedAcrossTheHandFiresNeitherLateNorEarly) {
  const struct {
    uint64_t hand, delay, moved_delay;
  } cases[] = {{250, 60, 20}, {200, 60, 400}, {299, 2, 1}, {1, 299, 300}};
  for (const auto& c : cases) {
    Ticked ticked;
    Timer timer;
    ticked.Tick(c.hand);
    ticked.Set(timer, c.delay);
    ticked.Set(timer, c.moved_delay);
    EXPECT_EQ(ticked.Tick(c.moved_delay - 1), 0);
    EXPECT_EQ(ticked.Tick(1), 1);
    EXPECT_EQ(ticked.Tick(1000), 0);
  }
}

TEST(TimingWheelMovesTest, OneRandomMoveOfManyTimersKeepsEachExact) {
  for (const uint64_t longest : {60, 600, 3600}) {
    std::mt19937_64 random(longest);
    TimingWheel wheel(random() % 300);
    std::vector<Timer> timers(3000);
    for (Timer& timer : timers) {
      wheel.Schedule(&timer, wheel.now() + 1 + random() % longest);
    }
    for (Timer& timer : timers) {
      wheel.Schedule(&timer, wheel.now() + 1 + random() % longest);
    }
    size_t fired = 0;
    while (!wheel.empty()) {
      wheel.Advance(wheel.now() + 1, kNoBudget, [&](Timer* timer) {
        ++fired;
        EXPECT_EQ(timer->deadline(), wheel.now());
      });
    }
    EXPECT_EQ(fired, timers.size());
  }
}

TEST(TimingWheelMovesTest, SettingAgainKeepsAShortTimerAlive) {
  Ticked ticked;
  Timer timer;
  for (int i = 0; i < 1000; ++i) {
    ticked.Set(timer, 1);
    ticked.Set(timer, 2);
    EXPECT_EQ(ticked.Tick(1), 0);
  }
  EXPECT_EQ(ticked.Tick(10), 1);
}

TEST(TimingWheelMovesTest, TimerMovedToNowFiresOnce) {
  Ticked ticked(41);
  Timer timer;
  ticked.Set(timer, 500);
  ticked.Set(timer, 0);
  EXPECT_EQ(ticked.Tick(1), 1);
  EXPECT_EQ(ticked.Tick(1000), 0);
}

TEST(TimingWheelMovesTest, MoveLaterAndBackFiresAtTheLastDeadline) {
  for (const uint64_t later : {11, 64, 100, 5000, 300'000}) {
    for (const uint64_t back : {1, 9, 10, 11, 63, 64, 4999}) {
      Ticked ticked(60);
      Timer timer;
      ticked.Set(timer, 10);
      ticked.Set(timer, later);
      ticked.Set(timer, back);
      EXPECT_EQ(ticked.Tick(back - 1), 0) << later << ", " << back;
      EXPECT_EQ(ticked.Tick(1), 1) << later << ", " << back;
    }
  }
}

TEST(TimingWheelMovesTest, MovedLaterAgainAndAgainFiresOnceAtTheEnd) {
  Ticked ticked;
  Timer timer;
  for (int i = 0; i < 10'000; ++i) {
    ticked.Set(timer, 50);
    ASSERT_EQ(ticked.Tick(7), 0);
    ASSERT_TRUE(ticked.wheel().CheckInvariants().ok());
  }
  EXPECT_EQ(ticked.Tick(42), 0);
  EXPECT_EQ(ticked.Tick(1), 1);
}

TEST(TimingWheelMovesTest, RemovedAfterAMoveNeverFires) {
  Ticked ticked;
  Timer timer;
  ticked.Set(timer, 8);
  EXPECT_EQ(ticked.Tick(6), 0);
  ticked.Set(timer, 7);
  EXPECT_EQ(ticked.Tick(3), 0);
  EXPECT_TRUE(ticked.wheel().Cancel(&timer));
  EXPECT_TRUE(ticked.wheel().empty());
  EXPECT_EQ(ticked.Tick(1000), 0);
}

TEST(TimingWheelMovesTest, TakeAllHandsOutEachTimerOnce) {
  TimingWheel wheel(77);
  std::vector<Timer> timers(500);
  std::set<Timer*> expected;
  for (size_t i = 0; i < timers.size(); ++i) {
    wheel.Schedule(&timers[i], i * i * i);  // Some are in the past.
    expected.insert(&timers[i]);
  }
  std::set<Timer*> taken;
  wheel.TakeAll([&](Timer* timer) {
    EXPECT_FALSE(timer->scheduled());
    EXPECT_TRUE(taken.insert(timer).second);
  });
  EXPECT_EQ(taken, expected);
  EXPECT_TRUE(wheel.empty());
  wheel.TakeAll([](Timer*) { FAIL() << "a second time"; });
}

TEST(TimingWheelMovesTest, TimersScheduledAfterTakeAllFire) {
  TimingWheel wheel;
  Timer timers[3];
  for (Timer& timer : timers) wheel.Schedule(&timer, 100);
  wheel.Advance(100, 1, [](Timer*) {});  // Leaves a cascade half done.
  wheel.TakeAll([](Timer*) {});
  for (Timer& timer : timers) wheel.Schedule(&timer, 200);
  EXPECT_EQ(wheel.NextWakeup(), 200u);
  EXPECT_EQ(wheel.Advance(199, kNoBudget, [](Timer*) { FAIL(); }), 3u);
  EXPECT_EQ(wheel.Advance(200, kNoBudget, [](Timer*) {}), 3u);
}

TEST(TimingWheelMovesTest, TakenMayDestroyAnyTimerAndThrow) {
  TimingWheel wheel;
  std::vector<std::unique_ptr<Timer>> timers;
  for (int i = 0; i < 9; ++i) {
    timers.push_back(std::make_unique<Timer>());
    wheel.Schedule(timers.back().get(), 100);
  }
  wheel.TakeAll([&](Timer* timer) {
    int others = 1;
    for (std::unique_ptr<Timer>& other : timers) {
      if (other == nullptr) continue;
      if (other.get() == timer || (other->scheduled() && others-- > 0)) {
        other.reset();
      }
    }
  });
  EXPECT_EQ(std::count(timers.begin(), timers.end(), nullptr), 9);

  Timer kept[2];
  for (Timer& timer : kept) wheel.Schedule(&timer, 100);
  EXPECT_THROW(wheel.TakeAll([](Timer*) { throw 1; }), int);
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  EXPECT_EQ(wheel.Advance(100, kNoBudget, [](Timer*) {}), 2u);
}

TEST(TimingWheelMovesTest, LostTicksAreCaughtUpInOneAdvance) {
  TimingWheel wheel;
  std::vector<Timer> timers(50);
  for (size_t i = 0; i < timers.size(); ++i) {
    wheel.Schedule(&timers[i], 1 + 100 * i);
  }
  int fired = 0;
  wheel.Advance(1'000'000, kNoBudget, [&](Timer*) { ++fired; });
  EXPECT_EQ(fired, 50);
}

}  // namespace
}  // namespace wheelcache
