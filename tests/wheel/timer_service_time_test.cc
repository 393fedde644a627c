// When timers fire: each case in which a wheel with rounds and a ticker gets
// it wrong, and then all phases, and a model.

#include "absl/time/time.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Fired;
using ::testing::IsEmpty;
using testing::TimerServiceTestBase;

class TimerServiceTimeTest : public TimerServiceTestBase {
 protected:
  void SetUp() override { Start(); }

  // Counts time in nanoseconds, so that every phase can be tried.
  void StartWithInterval(int nanos) {
    Service::Options options = DefaultOptions();
    options.interval = absl::Nanoseconds(nanos);
    Start(std::move(options));
  }
};

// With 300 slots, the hand stands between the new and the old slot.
TEST_F(TimerServiceTimeTest, MoveEarlierPastTheEndOfARevolutionIsNotLate) {
  RunFor(250);
  Set("k", 1, 60);
  Move("k", 20);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 270}));
}

TEST_F(TimerServiceTimeTest, MoveLaterPastTheEndOfARevolutionIsNotEarly) {
  RunFor(200);
  Set("k", 1, 60);
  Move("k", 400);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 600}));
}

TEST_F(TimerServiceTimeTest, OverwritingWithADelayOfOneTickDoesNotFireAtOnce) {
  for (int i = 0; i < 2'000; ++i) {
    RunFor(0.0005);
    const std::string key = std::to_string(i);
    Set(key, 1, 1);
    Set(key, 2, 1);
    clock_.WaitUntilAsleep();
    for (const Fired& fired : TakeFired()) {
      EXPECT_EQ(fired.value, 2);
      EXPECT_GE(fired.at, (std::stoi(fired.key) + 1) * 0.0005 + 1);
    }
  }
}

TEST_F(TimerServiceTimeTest, LostTicksAreCaughtUp) {
  Set("k", 1, 5);
  clock_.Advance(absl::Seconds(3));  // The process was stopped.
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceTimeTest, WhatCameDueDuringAPauseFiresAtItsEndInOrder) {
  Set("a", 1, 5);
  Set("c", 3, 9);
  Set("b", 2, 7);
  clock_.Advance(absl::Hours(24) * 365 * 20);
  clock_.WaitUntilAsleep();
  const double end = now();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"a", 1, end}, Fired{"b", 2, end},
                                       Fired{"c", 3, end}));
}

TEST_F(TimerServiceTimeTest, AFractionOfATickIsNotCutOff) {
  RunFor(0.5);
  Set("k", 1, 9.99);
  RunFor(9.98);
  EXPECT_THAT(TakeFired(), IsEmpty());
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 11}));
}

TEST_F(TimerServiceTimeTest, AnIntervalUnderASecondIsAsExact) {
  Service::Options options = DefaultOptions();
  options.interval = absl::Milliseconds(125);
  Start(std::move(options));
  Set("k", 1, 0.25);
  Set("j", 2, 0.26);
  RunFor(100);
  EXPECT_THAT(TakeFired(),
              ElementsAre(Fired{"k", 1, 0.25}, Fired{"j", 2, 0.375}));
}

TEST_F(TimerServiceTimeTest, DistantDeadlineNeverFiresEarly) {
  const absl::Duration century = absl::Hours(24) * 365 * 100;
  ASSERT_TRUE(service_->Set("century", 1, century).ok());
  ASSERT_TRUE(service_->Set("never", 2, absl::InfiniteDuration()).ok());
  clock_.RunFor(century - absl::Nanoseconds(1));
  EXPECT_THAT(TakeFired(), IsEmpty());
  clock_.RunFor(absl::Nanoseconds(1));
  EXPECT_THAT(TakeFired(),
              ElementsAre(Fired{"century", 1, absl::ToDoubleSeconds(century)}));
  clock_.RunFor(absl::InfiniteDuration());
  EXPECT_THAT(TakeFired(), IsEmpty());
  EXPECT_EQ(service_->size(), 1);
}

TEST_F(TimerServiceTimeTest, NeverEarlyAndAtMostOneIntervalLateAtEveryPhase) {
  constexpr int kInterval = 7;
  StartWithInterval(kInterval);
  for (int phase = 0; phase < kInterval; ++phase) {
    for (int delay = 0; delay <= 10 * kInterval; ++delay) {
      clock_.RunFor(absl::Nanoseconds(1));
      const double due = now() + delay * 1e-9;
      Set("k", 1, delay * 1e-9);
      clock_.RunFor(absl::Nanoseconds(delay + kInterval));
      const std::vector<Fired> fired = TakeFired();
      ASSERT_EQ(fired.size(), 1);
      EXPECT_GE(fired[0].at, due - 1e-12);
      EXPECT_LT(fired[0].at, due + (kInterval - 0.5) * 1e-9);
    }
  }
}

TEST_F(TimerServiceTimeTest, AnIdleMinuteHasNoWakeUps) {
  for (int i = 0; i < 1'000; ++i) Set(std::to_string(i), i, 3'600 + i);
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  RunFor(60);
  EXPECT_EQ(clock_.wake_ups(), before);
  RunFor(3'539);
  EXPECT_EQ(clock_.wake_ups(), before);
  RunFor(1);
  EXPECT_EQ(clock_.wake_ups(), before + 1);
  EXPECT_EQ(TakeFired().size(), 1);
}

TEST_F(TimerServiceTimeTest, TimersOfOneTickShareAWakeUp) {
  for (int i = 0; i < 50; ++i) Set(std::to_string(i), i, 5 + i * 0.01);
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  RunFor(100);
  EXPECT_EQ(clock_.wake_ups(), before + 2);  // At 5 and at 6 seconds.
  EXPECT_EQ(TakeFired().size(), 50);
}

// A broken clock: it can be set back, and wakes its sleepers by the new time.
class SetBackClock : public Clock {
 public:
  explicit SetBackClock(SimulatedClock& base) : base_(base) {}

  int64_t NowNanos() const override { return base_.NowNanos() - back_; }
  void SetBack(absl::Duration by) { back_ += absl::ToInt64Nanoseconds(by); }

  std::unique_ptr<Sleeper> NewSleeper() override {
    return std::make_unique<SetBackSleeper>(*this);
  }

 private:
  class SetBackSleeper : public Sleeper {
   public:
    explicit SetBackSleeper(SetBackClock& clock)
        : clock_(clock), base_(clock.base_.NewSleeper()) {}
    void SleepUntil(int64_t deadline) override {
      const bool never = deadline == kNever;
      base_->SleepUntil(never ? kNever : deadline + clock_.back_);
    }
    void Wake() override { base_->Wake(); }

   private:
    SetBackClock& clock_;
    const std::unique_ptr<Sleeper> base_;
  };

  SimulatedClock& base_;
  std::atomic<int64_t> back_{0};
};

TEST_F(TimerServiceTimeTest, AClockThatIsSetBackDelaysAndLosesNothing) {
  SetBackClock clock(clock_);
  Service::Options options = DefaultOptions();
  options.clock = &clock;
  Start(std::move(options));
  Set("before", 1, 10);
  RunFor(5);
  clock.SetBack(absl::Seconds(20));  // To before the service's start.
  Set("after", 2, 3);
  RunFor(24);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"after", 2, 20}));
  RunFor(1);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"before", 1, 30}));
}

// The same as the service, as plainly as can be: key to value and due tick.
class Model {
 public:
  void Set(const std::string& key, int value, int64_t tick) {
    timers_[key] = {value, tick};
  }
  bool Move(const std::string& key, int64_t tick) {
    if (timers_.count(key) == 0) return false;
    timers_[key].tick = tick;
    return true;
  }
  bool Remove(const std::string& key) { return timers_.erase(key) > 0; }
  size_t Drain() { return std::exchange(timers_, {}).size(); }

  // What fires at `tick`, by key.
  std::map<std::string, int> Fire(int64_t tick) {
    std::map<std::string, int> fired;
    for (auto it = timers_.begin(); it != timers_.end();) {
      const bool due = it->second.tick <= tick;
      if (due) fired[it->first] = it->second.value;
      it = due ? timers_.erase(it) : std::next(it);
    }
    return fired;
  }

 private:
  struct Timer {
    int value;
    int64_t tick;
  };
  std::map<std::string, Timer> timers_;
};

TEST_F(TimerServiceTimeTest, AgreesWithAModelUnderRandomOperations) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % n); };
  StartWithInterval(1);
  const int64_t start = clock_.NowNanos();
  Model model;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t tick = clock_.NowNanos() - start;
    const std::string key = std::to_string(pick(50));
    const int64_t delay = 1 + pick(1 << (1 + pick(14)));
    const absl::Duration after = absl::Nanoseconds(delay);
    const int operation = pick(100);
    if (operation < 40) {
      ASSERT_TRUE(service_->Set(key, i, after).ok());
      model.Set(key, i, tick + delay);
    } else if (operation < 70) {
      ASSERT_EQ(service_->Move(key, after).ok(), model.Move(key, tick + delay));
    } else if (operation < 80) {
      ASSERT_EQ(service_->Remove(key).ok(), model.Remove(key));
    } else if (operation < 81) {
      ASSERT_EQ(*service_->Drain([](const std::string&, int) {}),
                model.Drain());
    } else {
      // A jump: all that came due meanwhile fires at its end.
      const int64_t by = 1 + pick(1 << pick(10));
      clock_.Advance(absl::Nanoseconds(by));
      clock_.WaitUntilAsleep();
      std::map<std::string, int> fired;
      for (const Fired& f : TakeFired()) {
        ASSERT_TRUE(fired.emplace(f.key, f.value).second);
      }
      ASSERT_EQ(fired, model.Fire(tick + by)) << "operation " << i;
    }
  }
}

}  // namespace
}  // namespace wheelcache
