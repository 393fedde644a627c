// When timers fire: at every distance, from every phase of the hand, after
// pauses and jumps; and when the wheel asks to be woken.

#include "wheelcache/wheel/timing_wheel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache {
namespace {

// Advances to `now` and returns what fired, in order.
std::vector<Timer*> AdvanceTo(TimingWheel& wheel, uint64_t now) {
  std::vector<Timer*> fired;
  wheel.Advance(now, kNoBudget, [&](Timer* timer) { fired.push_back(timer); });
  return fired;
}

// Every 64^k, and one before and after it.
std::vector<uint64_t> EdgesOfAllLevels() {
  std::vector<uint64_t> edges;
  for (int level = 0; level <= 10; ++level) {
    const uint64_t span = uint64_t{1} << (6 * level);
    edges.insert(edges.end(), {span - 1, span, span + 1});
  }
  return edges;
}

TEST(TimingWheelTest, FiresInTheFirstAdvanceAtOrPastItsDeadline) {
  for (const uint64_t start : EdgesOfAllLevels()) {
    for (const uint64_t delay : EdgesOfAllLevels()) {
      TimingWheel wheel(start);
      Timer timer;
      wheel.Schedule(&timer, start + delay);
      EXPECT_EQ(wheel.NextWakeup(), start + delay);
      if (delay > 0) {
        EXPECT_TRUE(AdvanceTo(wheel, start + delay - 1).empty());
        EXPECT_EQ(wheel.NextWakeup(), start + delay);
      }
      EXPECT_EQ(AdvanceTo(wheel, start + delay).size(), 1u)
          << start << " + " << delay;
      EXPECT_TRUE(wheel.empty());
    }
  }
}

TEST(TimingWheelTest, DistantDeadlineNeverFiresEarly) {
  for (const uint64_t deadline : EdgesOfAllLevels()) {
    TimingWheel wheel;
    Timer timer;
    wheel.Schedule(&timer, deadline);
    // Halves the distance that is left, so that each level cascades.
    while (deadline - wheel.now() > 1) {
      ASSERT_TRUE(
          AdvanceTo(wheel, wheel.now() + (deadline - wheel.now()) / 2).empty());
      ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    }
    EXPECT_EQ(AdvanceTo(wheel, deadline).size(), 1u) << deadline;
  }
}

TEST(TimingWheelTest, FiresExactlyAtEveryPhaseOfTheHand) {
  for (uint64_t phase = 0; phase < 4200; ++phase) {
    TimingWheel wheel(phase);
    Timer timers[6];
    const uint64_t delays[6] = {0, 1, 63, 64, 65, 4096};
    for (int i = 0; i < 6; ++i) wheel.Schedule(&timers[i], phase + delays[i]);
    for (int i = 0; i < 6; ++i) {
      if (i > 0) {
        EXPECT_TRUE(AdvanceTo(wheel, phase + delays[i] - 1).empty());
      }
      EXPECT_EQ(AdvanceTo(wheel, phase + delays[i]),
                std::vector<Timer*>{&timers[i]})
          << phase << " + " << delays[i];
    }
  }
}

TEST(TimingWheelTest, DeadlineInThePastFiresOnce) {
  for (const uint64_t deadline : {0, 1, 63, 64, 99, 100}) {
    TimingWheel wheel(100);
    Timer timer;
    wheel.Schedule(&timer, deadline);
    EXPECT_EQ(wheel.NextWakeup(), 100u);
    EXPECT_EQ(AdvanceTo(wheel, 100).size(), 1u);
    EXPECT_FALSE(timer.scheduled());
    EXPECT_TRUE(AdvanceTo(wheel, 1'000'000).empty());
  }
}

TEST(TimingWheelTest, FiresInTheOrderOfDeadlinesAfterAPauseOfAnyLength) {
  std::mt19937_64 random(1);
  for (int bits = 1; bits <= 63; ++bits) {
    TimingWheel wheel(random() >> (64 - bits));
    std::vector<Timer> timers(100);
    uint64_t last = 0;
    for (Timer& timer : timers) {
      wheel.Schedule(&timer, wheel.now() + (random() >> (64 - bits)));
      last = std::max(last, timer.deadline());
    }
    const std::vector<Timer*> fired = AdvanceTo(wheel, last);
    EXPECT_EQ(fired.size(), timers.size());
    EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end(),
                               [](const Timer* a, const Timer* b) {
                                 return a->deadline() < b->deadline();
                               }));
  }
}

TEST(TimingWheelTest, ManyTimersOnOneTickFireOnceEach) {
  TimingWheel wheel;
  std::vector<Timer> timers(100'000);
  for (Timer& timer : timers) wheel.Schedule(&timer, 300'000);
  EXPECT_TRUE(AdvanceTo(wheel, 299'999).empty());
  const std::vector<Timer*> fired = AdvanceTo(wheel, 300'000);
  EXPECT_EQ(fired.size(), timers.size());
  EXPECT_EQ(std::set<Timer*>(fired.begin(), fired.end()).size(), timers.size());
}

TEST(TimingWheelTest, TimerWithoutDeadlineNeverFires) {
  TimingWheel wheel(5);
  Timer never, last;
  wheel.Schedule(&never, kNoDeadline);
  EXPECT_EQ(wheel.NextWakeup(), std::nullopt);
  EXPECT_FALSE(wheel.empty());
  wheel.Schedule(&last, kNoDeadline - 1);
  EXPECT_EQ(wheel.NextWakeup(), kNoDeadline - 1);
  EXPECT_EQ(AdvanceTo(wheel, kNoDeadline), std::vector<Timer*>{&last});
  EXPECT_EQ(wheel.now(), kNoDeadline - 1);
  EXPECT_TRUE(AdvanceTo(wheel, kNoDeadline).empty());
  EXPECT_TRUE(never.scheduled());
  wheel.Schedule(&never, 0);
  EXPECT_EQ(AdvanceTo(wheel, kNoDeadline), std::vector<Timer*>{&never});
}

TEST(TimingWheelTest, HandMayStartAtTheEndOfTime) {
  TimingWheel wheel(kNoDeadline);
  Timer timer;
  wheel.Schedule(&timer, 7);
  EXPECT_EQ(AdvanceTo(wheel, 0), std::vector<Timer*>{&timer});
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
}

TEST(TimingWheelTest, TimeNeverGoesBack) {
  TimingWheel wheel(1000);
  Timer past, now, future;
  wheel.Schedule(&future, 1001);
  EXPECT_TRUE(AdvanceTo(wheel, 10).empty());
  EXPECT_EQ(wheel.now(), 1000u);
  wheel.Schedule(&past, 10);
  wheel.Schedule(&now, 1000);
  EXPECT_EQ(AdvanceTo(wheel, 0).size(), 2u);
  EXPECT_EQ(wheel.now(), 1000u);
  EXPECT_EQ(AdvanceTo(wheel, 1001), std::vector<Timer*>{&future});
}

TEST(TimingWheelTest, EmptyWheelGoesAnywhereInOneStep) {
  for (const uint64_t tick : EdgesOfAllLevels()) {
    TimingWheel wheel;
    EXPECT_TRUE(wheel.empty());
    EXPECT_EQ(wheel.NextWakeup(), std::nullopt);
    EXPECT_EQ(wheel.Advance(tick, 1, [](Timer*) {}), 0u);
    EXPECT_EQ(wheel.now(), tick);
  }
}

TEST(TimingWheelTest, EraseUnlinksFromTheWheel) {
  TimingWheel wheel;
  // A few in each list of a slot: the first, those in the middle and the last
  // go, and in the end the only ones.
  std::vector<std::optional<Timer>> timers(16);
  for (size_t doomed = 0; doomed < timers.size(); ++doomed) {
    for (std::optional<Timer>& timer : timers) {
      if (!timer.has_value()) wheel.Schedule(&timer.emplace(), 5000);
    }
    timers[doomed].reset();
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  }
  for (std::optional<Timer>& timer : timers) {
    timer.reset();
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  }
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.NextWakeup(), std::nullopt);
  EXPECT_TRUE(AdvanceTo(wheel, 10'000).empty());
}

TEST(TimingWheelTest, CancelTellsWhetherTheTimerWasScheduled) {
  TimingWheel wheel;
  Timer timer;
  EXPECT_FALSE(wheel.Cancel(&timer));
  wheel.Schedule(&timer, 8);
  EXPECT_TRUE(wheel.Cancel(&timer));
  EXPECT_FALSE(wheel.Cancel(&timer));
  EXPECT_TRUE(AdvanceTo(wheel, 100).empty());
  wheel.Schedule(&timer, 108);
  AdvanceTo(wheel, 108);
  EXPECT_FALSE(wheel.Cancel(&timer));
}

TEST(TimingWheelTest, DestroyedWheelLetsItsTimersGo) {
  Timer timer;
  {
    TimingWheel wheel;
    wheel.Schedule(&timer, 1);
  }
  EXPECT_FALSE(timer.scheduled());
  TimingWheel other;
  other.Schedule(&timer, 2);
  EXPECT_EQ(AdvanceTo(other, 2), std::vector<Timer*>{&timer});
}

TEST(TimingWheelTest, WakesUpOnceForEachDistinctDeadline) {
  std::mt19937_64 random(2);
  TimingWheel wheel;
  std::vector<Timer> timers(1000);
  std::set<uint64_t> deadlines;
  for (Timer& timer : timers) {
    wheel.Schedule(&timer, random() >> (1 + random() % 63));
    deadlines.insert(timer.deadline());
  }
  for (const uint64_t deadline : deadlines) {
    ASSERT_EQ(wheel.NextWakeup(), deadline);
    EXPECT_FALSE(AdvanceTo(wheel, deadline).empty());
  }
  EXPECT_TRUE(wheel.empty());
}

TEST(TimingWheelTest, LongTimerIsTouchedAtMostOnceALevel) {
  TimingWheel wheel;
  Timer timer;
  wheel.Schedule(&timer, kNoDeadline - 1);
  uint64_t touched = 0;
  for (int bit = 0; bit < 64; ++bit) {
    touched +=
        wheel.Advance(kNoDeadline << (63 - bit), kNoBudget, [](Timer*) {});
  }
  touched += wheel.Advance(kNoDeadline, kNoBudget, [](Timer*) {});
  EXPECT_FALSE(timer.scheduled());
  EXPECT_LE(touched, 11u);
}

}  // namespace
}  // namespace wheelcache
