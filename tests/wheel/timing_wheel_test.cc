// The timing wheel: when timers fire, what callbacks may do, and what a budget
// counts. At the end, random calls of it in all its forms are compared with a
// sorted map, and the invariants checked after each; before, each promise
// stands once, in a form to read, and what the map does not see.

#include "wheelcache/wheel/timing_wheel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/numbered_wheels.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/timing_wheel_driver.h"
#include "wheelcache/wheel/basic_timing_wheel.h"

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

// Promise: Timers fire once
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

// Promise: Timers fire once
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

// Promise: Timers fire once
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

// Promise: Timers fire once
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

// Promise: No long pauses
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

TEST(TimingWheelMovesTest, MoveLaterAndBackFiresAtTheLastDeadline) {
  for (const uint64_t later : {11, 64, 100, 5000, 300'000}) {
    for (const uint64_t back : {1, 9, 10, 11, 63, 64, 4999}) {
      TimingWheel wheel(60);
      Timer timer;
      wheel.Schedule(&timer, 60 + 10);
      wheel.Schedule(&timer, 60 + later);
      wheel.Schedule(&timer, 60 + back);
      EXPECT_TRUE(AdvanceTo(wheel, 60 + back - 1).empty()) << later;
      EXPECT_EQ(AdvanceTo(wheel, 60 + back).size(), 1u) << later << back;
      EXPECT_TRUE(AdvanceTo(wheel, 1'000'000).empty()) << "fired twice";
    }
  }
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

struct Session {
  TimerLinks<uint32_t> links;
  uint64_t deadline = 0;
};

struct Sessions {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const { return all[ref].links; }
  uint64_t deadline(Ref ref) const { return all[ref].deadline; }
  Session* all;
};

TEST(BasicTimingWheelTest, DeadlineThatHasGrownIsFoundWithoutACall) {
  Session table[2];
  BasicTimingWheel<Sessions> wheel(Sessions{table}, 0);
  table[1].deadline = 70;
  wheel.Schedule(1);
  table[1].deadline = 5000;
  EXPECT_EQ(wheel.NextWakeup(), 70u);
  wheel.Advance(4999, kNoBudget, [](uint32_t) { FAIL(); });
  EXPECT_EQ(wheel.NextWakeup(), 5000u);
  int fired = 0;
  wheel.Advance(5000, kNoBudget, [&](uint32_t) { ++fired; });
  EXPECT_EQ(fired, 1);
}

// Timers without storage: the wheel has to ask for links and deadlines.
struct ScatteredTimers {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const { return (*all)[ref]; }
  uint64_t deadline(Ref ref) const { return ref % 1000; }
  std::map<Ref, TimerLinks<Ref>>* all;
};

TEST(BasicTimingWheelTest, ReferencesReachUpToTheTagsOfLists) {
  constexpr uint32_t kLargest = 0xffffffff - 2816;
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  BasicTimingWheel<ScatteredTimers> wheel(ScatteredTimers{&links});
  std::set<uint32_t> refs = {1, 703, 704, 2816, 0x7fffffff, 0x80000000};
  for (uint32_t i = 0; i < 20; ++i) refs.insert(kLargest - i * 1000);
  for (const uint32_t ref : refs) wheel.Schedule(ref);
  // The neighbour of a cancelled timer must not be taken for a list.
  for (uint32_t i = 19; i > 0; --i) {
    const uint32_t cancelled = kLargest - i * 1000;
    wheel.Cancel(cancelled);
    refs.erase(cancelled);
    ASSERT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    ASSERT_EQ(wheel.CountTimers(), refs.size());
  }
  std::set<uint32_t> fired;
  wheel.Advance(1000, kNoBudget, [&](uint32_t ref) { fired.insert(ref); });
  EXPECT_EQ(fired, refs);
}

// Timers that note which of them the wheel asks for.
struct ObservedTimers {
  using Ref = uint32_t;
  TimerLinks<Ref>& links(Ref ref) const {
    asked->insert(ref);
    return (*all)[ref];
  }
  uint64_t deadline(Ref) const { return uint64_t{1} << 40; }
  std::map<Ref, TimerLinks<Ref>>* all;
  std::set<Ref>* asked;
};

TEST(BasicTimingWheelTest, WhatCancelWillChangeIsAskedForAhead) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  std::set<uint32_t> asked;
  BasicTimingWheel<ObservedTimers> wheel(ObservedTimers{&links, &asked});
  for (uint32_t ref = 1; ref <= 20; ++ref) wheel.Schedule(ref);
  for (const uint32_t ref : {20, 10, 1, 9, 11, 5, 6, 7, 2, 3, 4, 19, 8}) {
    asked.clear();
    wheel.PrefetchNeighbours(links[ref]);
    std::set<uint32_t> ahead = std::exchange(asked, {});
    ahead.insert(ref);
    wheel.Cancel(ref);
    EXPECT_EQ(ahead, asked) << "neither tags nor null for " << ref;

    asked.clear();
    wheel.PrefetchNeighbours(links[ref]);
    EXPECT_TRUE(asked.empty()) << "it is not scheduled";
  }
}

TEST(BasicTimingWheelTest, NoTimerIsLookedAtWhileNoneIsDue) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  std::set<uint32_t> asked;
  BasicTimingWheel<ObservedTimers> wheel(ObservedTimers{&links, &asked});
  for (uint32_t ref = 1; ref <= 1000; ++ref) wheel.Schedule(ref);
  asked.clear();
  for (const uint64_t tick : {1, 64, 100'000'000}) {
    EXPECT_EQ(wheel.Advance(tick, kNoBudget, [](uint32_t) {}), 0u);
    EXPECT_EQ(wheel.NextWakeup(), uint64_t{1} << 40);
  }
  EXPECT_TRUE(asked.empty());
}

TEST(BasicTimingWheelTest, ResetForgetsAllTimersWithoutTouchingThem) {
  std::map<uint32_t, TimerLinks<uint32_t>> links;
  BasicTimingWheel<ScatteredTimers> wheel(ScatteredTimers{&links});
  for (uint32_t ref = 1; ref < 1000; ++ref) wheel.Schedule(ref);
  wheel.Advance(500, 300, [](uint32_t) {});
  links.clear();
  wheel.Reset();
  EXPECT_TRUE(links.empty());
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.NextWakeup(), std::nullopt);

  wheel.Schedule(600);
  EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  std::vector<uint32_t> fired;
  wheel.Advance(1000, kNoBudget, [&](uint32_t ref) { fired.push_back(ref); });
  EXPECT_EQ(fired, std::vector<uint32_t>{600});
}

TEST(BasicTimingWheelTest, CheckInvariantsFindsABrokenLink) {
  Session table[13];  // Three in each list of a slot.
  BasicTimingWheel<Sessions> wheel(Sessions{table}, 0);
  for (uint32_t ref = 1; ref <= 12; ++ref) {
    table[ref].deadline = 100;
    wheel.Schedule(ref);
  }
  for (uint32_t ref = 1; ref <= 12; ++ref) {
    const TimerLinks<uint32_t> intact = table[ref].links;
    table[ref].links.prev = ref;
    EXPECT_FALSE(wheel.CheckInvariants().ok());
    table[ref].links = intact;
    EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
  }
}

TEST(BasicTimingWheelTest, CheckInvariantsFindsADeadlineThatShrank) {
  for (const uint64_t deadline : {50, 100, 5000, 300'000}) {
    Session table[2];
    BasicTimingWheel<Sessions> wheel(Sessions{table}, 10);
    table[1].deadline = deadline;
    wheel.Schedule(1);
    EXPECT_TRUE(wheel.CheckInvariants().ok()) << wheel.CheckInvariants();
    --table[1].deadline;
    EXPECT_FALSE(wheel.CheckInvariants().ok()) << deadline;
  }
}

// A few hundred calls: few enough to read, when they fail.
constexpr size_t kTapeSize = 4096;

template <typename Wheel>
class TimingWheelModelTest : public ::testing::Test {};

using Wheels =
    ::testing::Types<PointerWheel, IndexWheel<uint32_t>, IndexWheel<uint64_t>>;
TYPED_TEST_SUITE(TimingWheelModelTest, Wheels);

TYPED_TEST(TimingWheelModelTest, AgreesWithASortedMap) {
  uint64_t seed = TestSeed();
  for (uint64_t calls = 0; calls < TestOperations(); ++seed) {
    const std::vector<uint8_t> bytes = RandomBytes(seed, kTapeSize);
    Tape tape(bytes);
    TimingWheelDriver<TypeParam> driver(tape);
    const absl::Status status = driver.Run();
    calls += driver.calls();
    if (status.ok()) continue;

    Tape again(bytes);
    TimingWheelDriver<TypeParam>(again, &std::cerr).Run().IgnoreError();
    FAIL() << status.message() << "; repeat with WHEELCACHE_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace wheelcache
