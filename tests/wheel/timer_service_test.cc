// What users of a keyed timing wheel know: set, move, remove, drain, stop;
// periodic timers; and when timers fire, at all phases and against a model.

#include "wheelcache/wheel/timer_service.h"

#ifdef __linux__
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Fired;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TimerServiceTestBase;
using ::testing::UnorderedElementsAre;

class TimerServiceTest : public TimerServiceTestBase {
 protected:
  // The message of the error that these options meet, "" if none.
  static std::string ErrorOf(Service::Options options) {
    const auto service = Service::Create(std::move(options));
    if (service.ok()) return "";
    EXPECT_TRUE(absl::IsInvalidArgument(service.status())) << service.status();
    return std::string(service.status().message());
  }
};

TEST_F(TimerServiceTest, CreateNamesTheFieldTheValueAndTheRule) {
  Service::Options options = DefaultOptions();
  options.interval = absl::ZeroDuration();
  EXPECT_EQ(ErrorOf(options), "interval is 0: it must be positive and finite");
  options.interval = absl::Seconds(-2);
  EXPECT_THAT(ErrorOf(options), HasSubstr("interval is -2s"));
  options.interval = absl::Nanoseconds(1) / 4;
  EXPECT_THAT(ErrorOf(options), HasSubstr("interval is 0.25ns"));
  options.interval = absl::InfiniteDuration();
  EXPECT_THAT(ErrorOf(options), HasSubstr("interval is inf"));

  options = DefaultOptions();
  options.execute = nullptr;
  EXPECT_EQ(ErrorOf(options),
            "execute is empty: it must be a function to call");

  options = DefaultOptions();
  Reaper reaper(clock_);
  options.reaper = &reaper;
  EXPECT_THAT(ErrorOf(options), HasSubstr("clock and reaper are both set"));
}

TEST_F(TimerServiceTest, FiresExactlyOnTheTickOfItsDelay) {
  for (const int elapsed : {0, 3, 5}) {
    Start();
    RunFor(elapsed);
    const double set_at = now();
    for (const int delay : {5, 7, 10, 12}) {
      Set(std::to_string(delay), delay, delay);
    }
    RunFor(100);
    EXPECT_THAT(TakeFired(), ElementsAre(Fired{"5", 5, set_at + 5},
                                         Fired{"7", 7, set_at + 7},
                                         Fired{"10", 10, set_at + 10},
                                         Fired{"12", 12, set_at + 12}));
  }
}

TEST_F(TimerServiceTest, ADelayUnderOneIntervalFiresOnTheFirstTick) {
  Start();
  Set("k", 1, 0.5);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 1}));
}

TEST_F(TimerServiceTest, ADelayOfZeroFiresAtOnce) {
  Start();
  RunFor(2.5);
  Set("k", 1, 0);
  clock_.WaitUntilAsleep();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 2.5}));
}

TEST_F(TimerServiceTest, TheSecondSetOfAKeyWinsAndFiresOnce) {
  Start();
  Set("k", 1, 5);
  Set("k", 2, 7);
  Set("j", 1, 9);
  Set("j", 2, 4);
  EXPECT_EQ(service_->size(), 2);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"j", 2, 4}, Fired{"k", 2, 7}));
}

TEST_F(TimerServiceTest, MovedToLessThanOneIntervalItFiresWithoutWaiting) {
  Start();
  Set("k", 1, 60);
  RunFor(10.25);
  Move("k", 0.5);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 10.75}));  // And once.
  EXPECT_EQ(service_->size(), 0);
  EXPECT_TRUE(absl::IsNotFound(service_->Remove("k")));
}

TEST_F(TimerServiceTest, MovedByOneIntervalOrMoreItFiresAtAnEnd) {
  Start();
  Set("k", 1, 60);
  Set("j", 2, 60);
  RunFor(10.25);
  Move("k", 1);
  Move("j", 2.5);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 12}, Fired{"j", 2, 13}));
}

TEST_F(TimerServiceTest, SetIfAbsentLeavesTheTimerThatIsThere) {
  Start();
  ASSERT_TRUE(service_->SetIfAbsent("k", 1, absl::Seconds(5)).ok());
  const absl::Status status = service_->SetIfAbsent("k", 2, absl::Seconds(1));
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_EQ(status.message(), "the key has a timer");
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
  EXPECT_TRUE(service_->SetIfAbsent("k", 3, absl::Seconds(1)).ok());
  RunFor(1);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 3, 101}));
}

TEST_F(TimerServiceTest, AnUnknownKeyIsNotFound) {
  Start();
  EXPECT_TRUE(absl::IsNotFound(service_->Move("k", absl::Seconds(1))));
  EXPECT_TRUE(absl::IsNotFound(service_->Remove("k")));
  EXPECT_TRUE(absl::IsNotFound(service_->Cancel(TimerId{7})));
}

TEST_F(TimerServiceTest, ANegativeDelayIsRefusedAndChangesNothing) {
  Start();
  Set("k", 1, 5);
  const absl::Status status = service_->Set("k", 2, absl::Seconds(-3));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "delay is -3s: it must not be negative");
  EXPECT_TRUE(
      absl::IsInvalidArgument(service_->Move("k", -absl::InfiniteDuration())));
  EXPECT_TRUE(absl::IsInvalidArgument(
      service_->SetIfAbsent("j", 2, absl::Seconds(-3))));
  EXPECT_EQ(service_->size(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      service_->After(absl::Nanoseconds(-1), [] {}).status()));
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceTest, DrainHandsOutEachItemOnceWithItsOwnValue) {
  Start();
  for (int i = 0; i < 3; ++i) Set(std::to_string(i), i, 5 + 100 * i);
  std::vector<std::pair<std::string, int>> drained;
  const auto drain = [&](const std::string& key, int value) {
    drained.emplace_back(key, value);
  };
  absl::StatusOr<size_t> count = service_->Drain(drain);
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 3);
  using Item = std::pair<std::string, int>;
  EXPECT_THAT(drained,
              UnorderedElementsAre(Item("0", 0), Item("1", 1), Item("2", 2)));
  EXPECT_EQ(*service_->Drain(drain), 0);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceTest, ATimerWithoutAKeyCallsItsOwnFunction) {
  Start();
  std::vector<double> called;
  const auto note = [&] { called.push_back(now()); };
  ASSERT_TRUE(service_->After(absl::Seconds(5), note).ok());
  ASSERT_TRUE(service_->After(absl::Seconds(5), note).ok());
  const absl::StatusOr<TimerId> id = service_->After(absl::Seconds(6), note);
  ASSERT_TRUE(id.ok());
  RunFor(1);
  EXPECT_TRUE(service_->Cancel(*id).ok());
  EXPECT_TRUE(absl::IsNotFound(service_->Cancel(*id)));
  RunFor(100);
  EXPECT_THAT(called, ElementsAre(5, 5));
  EXPECT_EQ(service_->size(), 0);
}

TEST_F(TimerServiceTest, AfterAndEveryWantAFunction) {
  Start();
  for (const absl::Status& status :
       {service_->After(absl::Seconds(5), nullptr).status(),
        service_->Every(absl::Seconds(5), nullptr).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("callback is empty"));
  }
}

TEST_F(TimerServiceTest, DrainLeavesTimersWithoutAKeyAlone) {
  Start();
  bool called = false;
  ASSERT_TRUE(service_->After(absl::Seconds(5), [&] { called = true; }).ok());
  EXPECT_EQ(*service_->Drain([](const std::string&, int) {}), 0);
  RunFor(100);
  EXPECT_TRUE(called);
}

TEST_F(TimerServiceTest, AfterStopEveryCallSaysThatItIsClosed) {
  Start();
  Set("k", 1, 5);
  ASSERT_TRUE(service_->After(absl::Seconds(5), [this] { Note("a", 1); }).ok());
  service_->Stop();
  const absl::Status closed =
      absl::FailedPreconditionError("the timer service is closed");
  EXPECT_EQ(service_->Set("k", 1, absl::Seconds(1)), closed);
  EXPECT_EQ(service_->SetIfAbsent("k", 1, absl::Seconds(1)), closed);
  EXPECT_EQ(service_->SetEvery("k", 1, absl::Seconds(1)), closed);
  EXPECT_EQ(service_->Every(absl::Seconds(1), [] {}).status(), closed);
  EXPECT_EQ(service_->Move("k", absl::Seconds(1)), closed);
  EXPECT_EQ(service_->Remove("k"), closed);
  EXPECT_EQ(service_->Drain([](const std::string&, int) {}).status(), closed);
  EXPECT_EQ(service_->After(absl::Seconds(1), [] {}).status(), closed);
  EXPECT_EQ(service_->Cancel(TimerId{1}), closed);
  EXPECT_EQ(service_->size(), 0);
  RunFor(100);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceTest, ServicesMayShareAReaper) {
  Reaper reaper(clock_);
  Service::Options options = DefaultOptions();
  options.clock = nullptr;
  options.reaper = &reaper;
  Start(options);
  auto another = Service::Create(options);
  ASSERT_TRUE(another.ok());
  Set("k", 1, 5);
  ASSERT_TRUE((*another)->Set("k", 2, absl::Seconds(6)).ok());
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}, Fired{"k", 2, 6}));
  service_ = nullptr;
}

TEST_F(TimerServiceTest, ManyDueTimersDoNotHoldUpTheReapersOtherClients) {
  Reaper reaper(clock_);
  Service::Options options = DefaultOptions();
  options.clock = nullptr;
  options.reaper = &reaper;
  Start(options);
  auto another = Service::Create(options);
  ASSERT_TRUE(another.ok());
  for (int i = 0; i < 10'000; ++i) Set(std::to_string(i), i, 5);
  ASSERT_TRUE((*another)->Set("other", 0, absl::Seconds(5)).ok());
  RunFor(5);
  const std::vector<Fired> fired = TakeFired();
  EXPECT_EQ(fired.size(), 10'001);
  const auto other =
      std::find(fired.begin(), fired.end(), Fired{"other", 0, 5});
  EXPECT_LT(other - fired.begin(), 200);
  service_ = nullptr;
}

TEST_F(TimerServiceTest, RunsOnTheRealClockUnlessToldOtherwise) {
  Service::Options options = DefaultOptions();
  options.clock = nullptr;
  options.interval = absl::Milliseconds(1);
  std::atomic<bool> fired{false};
  options.execute = [&](const std::string&, int) { fired = true; };
  Start(options);
  Set("k", 1, 0);
  while (!fired) std::this_thread::yield();
}

// Of any size and alignment; and one whose move may throw.
template <size_t size, size_t alignment>
struct alignas(alignment) Bytes {
  explicit Bytes(char c) { bytes[size - 1] = c; }
  Bytes(Bytes&& other) : Bytes(other.bytes[size - 1]) {
    const auto address = reinterpret_cast<uintptr_t>(this);
    EXPECT_EQ(address % alignment, 0u);
    if (other.bytes[size - 1] == '!' && --moves_left == 0) {
      throw std::runtime_error("cannot be moved");
    }
  }
  char bytes[size] = {};
  static inline int moves_left = 0;
};

template <size_t size, size_t alignment>
void ExpectThatTimersWork() {
  using Value = Bytes<size, alignment>;
  using Service = TimerService<int, Value>;
  SimulatedClock clock;
  typename Service::Options options;
  std::string fired;
  options.execute = [&](int, const Value& value) {
    fired.push_back(value.bytes[size - 1]);
  };
  options.clock = &clock;
  auto service = *Service::Create(std::move(options));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      const auto c = static_cast<char>('a' + i);
      ASSERT_TRUE(service->Set(i, Value(c), absl::Seconds(1 + i)).ok());
    }
    for (int moves = 1; moves <= 3; ++moves) {
      Value::moves_left = moves;
      Value value('!');
      EXPECT_THROW((void)service->Set(moves, std::move(value), {}),
                   std::runtime_error);
    }
    EXPECT_EQ(service->size(), 20u);
    clock.RunFor(absl::Seconds(18));
    EXPECT_EQ(std::exchange(fired, ""), "abcdefghijklmnopqr");
  }
}

TEST(TimerService, ValuesMayHaveAnySizeAndAlignmentAndThrow) {
  ExpectThatTimersWork<1, 1>();
  ExpectThatTimersWork<10, 64>();
  ExpectThatTimersWork<5'000, 4'096>();
  ExpectThatTimersWork<2'000'000, 8>();
}

#if defined(__linux__) && !defined(ABSL_HAVE_ADDRESS_SANITIZER) && \
    !defined(ABSL_HAVE_THREAD_SANITIZER)

int64_t ResidentBytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(TimerService, EmptiedServiceGivesItsMemoryBack) {
  constexpr int kTimers = 300'000;
  constexpr int64_t kSlack = 4 << 20;
  using Service = TimerService<int, int>;
  const std::function<void(Service&, SimulatedClock&)> ways[] = {
      [](Service&, SimulatedClock& clock) { clock.RunFor(absl::Minutes(1)); },
      [](Service& service, SimulatedClock&) {
        for (int i = 0; i < kTimers; ++i) service.Remove(i).IgnoreError();
      },
      [](Service& service, SimulatedClock&) {
        service.Drain([](int, int) {}).IgnoreError();
      }};
  SimulatedClock clock;
  Service::Options options;
  options.execute = [](int, int) {};
  options.clock = &clock;
  const auto service = *Service::Create(std::move(options));
  const int64_t before = ResidentBytes();
  for (const auto& way : ways) {
    for (int i = 0; i < kTimers; ++i) {
      service->Set(i, i, absl::Seconds(i % 50)).IgnoreError();
    }
    EXPECT_GT(ResidentBytes(), before + 4 * kSlack);
    way(*service, clock);
    ASSERT_EQ(service->size(), 0u);
    EXPECT_LT(ResidentBytes(), before + kSlack);
  }
}

#endif

TEST(TimerService, KeysAndValuesNeedOnlyBeMovable) {
  SimulatedClock clock;
  using Service = TimerService<std::unique_ptr<int>, std::unique_ptr<int>>;
  Service::Options options;
  options.clock = &clock;
  std::unique_ptr<int> last;
  options.execute = [&](const std::unique_ptr<int>&,
                        std::unique_ptr<int> value) {
    last = std::move(value);
  };
  auto service = *Service::Create(std::move(options));
  ASSERT_TRUE(
      service->Set(nullptr, std::make_unique<int>(7), absl::Seconds(1)).ok());
  ASSERT_TRUE(
      service->Set(std::make_unique<int>(1), nullptr, absl::Seconds(9)).ok());
  clock.RunFor(absl::Seconds(5));
  EXPECT_EQ(*last, 7);
  EXPECT_EQ(*service->Drain([](const std::unique_ptr<int>& key,
                               std::unique_ptr<int>) { EXPECT_EQ(*key, 1); }),
            1);
}

class TimerServicePeriodTest : public TimerServiceTestBase {
 protected:
  void SetEvery(const std::string& key, int value, double seconds) {
    const absl::Status status =
        service_->SetEvery(key, value, absl::Seconds(seconds));
    EXPECT_TRUE(status.ok()) << status;
  }

  // When the callbacks were since the last call of this.
  std::vector<double> TakeTimes() {
    std::vector<double> times;
    for (const Fired& fired : TakeFired()) times.push_back(fired.at);
    return times;
  }
};

TEST_F(TimerServicePeriodTest, APeriodicTimerFiresWithoutDrift) {
  Start();
  RunFor(0.25);
  SetEvery("k", 7, 2.5);
  ASSERT_TRUE(service_->Every(absl::Seconds(3), [this] { Note("e", 0); }).ok());
  RunFor(10);
  // Due at 2.75, 5.25, 7.75, 10.25; and at 3.25, 6.25, 9.25.
  EXPECT_THAT(TakeFired(),
              UnorderedElementsAre(Fired{"k", 7, 3}, Fired{"e", 0, 4},
                                   Fired{"k", 7, 6}, Fired{"e", 0, 7},
                                   Fired{"k", 7, 8}, Fired{"e", 0, 10}));
  EXPECT_EQ(service_->size(), 1);
  RunFor(1);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 7, 11}));
}

// Promise: Timers fire once
TEST_F(TimerServicePeriodTest, EachTimeIsKeptAtEveryPhaseAndPeriod) {
  constexpr int kInterval = 7;
  for (int phase = 0; phase < kInterval; ++phase) {
    for (int period = 1; period <= 3 * kInterval; ++period) {
      Service::Options options = DefaultOptions();
      options.interval = absl::Nanoseconds(kInterval);
      Start(std::move(options));
      clock_.RunFor(absl::Nanoseconds(phase));
      const double begin = now();
      SetEvery("k", 1, period * 1e-9);
      clock_.RunFor(absl::Nanoseconds(10 * period + kInterval));
      const std::vector<double> times = TakeTimes();
      ASSERT_GE(times.size(), 10u);
      for (size_t i = 0; i < 10; ++i) {
        const double due = static_cast<double>((i + 1) * period) * 1e-9;
        const double late = times[i] - begin - due;
        EXPECT_GE(late, -1e-12);
        EXPECT_LT(late, (kInterval - 0.5) * 1e-9);
      }
    }
  }
}

TEST_F(TimerServicePeriodTest, TimesThatPassDuringAPauseCountAsOne) {
  Start();
  SetEvery("k", 1, 2);
  clock_.Advance(absl::Seconds(9));
  clock_.WaitUntilAsleep();
  EXPECT_THAT(TakeTimes(), ElementsAre(9));
  RunFor(3);
  EXPECT_THAT(TakeTimes(), ElementsAre(10, 12));
}

TEST_F(TimerServicePeriodTest, TimesThatPassDuringACallbackCountAsOne) {
  bool is_slow = true;
  StartWith([&](const std::string&, int) {
    if (std::exchange(is_slow, false)) clock_.Advance(absl::Seconds(5));
  });
  SetEvery("k", 1, 2);
  RunFor(5);  // The callback at 2 ends at 7.
  RunFor(3);
  EXPECT_THAT(TakeTimes(), ElementsAre(2, 7, 8, 10));
}

TEST_F(TimerServicePeriodTest, WhatTheCallbackDoesToItsValueStaysThere) {
  using Service = TimerService<int, std::string>;
  Service::Options options;
  std::vector<std::string> values;
  options.execute = [&](int, std::string value) {
    values.push_back(value);
    value.clear();
  };
  options.clock = &clock_;
  const auto service = *Service::Create(std::move(options));
  ASSERT_TRUE(
      service->SetEvery(1, std::string(50, 'v'), absl::Seconds(1)).ok());
  clock_.RunFor(absl::Seconds(2));
  EXPECT_THAT(values, ElementsAre(std::string(50, 'v'), std::string(50, 'v')));
}

TEST_F(TimerServicePeriodTest, TheFunctionOfEveryKeepsWhatItCounts) {
  Start();
  std::vector<int> counts;
  ASSERT_TRUE(service_
                  ->Every(absl::Seconds(1),
                          [&counts, n = 0]() mutable { counts.push_back(++n); })
                  .ok());
  RunFor(3);
  EXPECT_THAT(counts, ElementsAre(1, 2, 3));
}

TEST_F(TimerServicePeriodTest, ItsOwnCallbackMayEndOrChangeIt) {
  TimerId id{};
  const struct {
    std::string name;
    std::function<void()> change;
    std::vector<double> times;  // With one at 2 before.
  } changes[] = {
      {"Remove", [this] { Remove("k"); }, {}},
      {"Drain",
       [this] {
         EXPECT_EQ(*service_->Drain([](const std::string&, int) {}), 0);
       },
       {}},
      {"Stop", [this] { service_->Stop(); }, {}},
      {"Cancel", [&] { EXPECT_TRUE(service_->Cancel(id).ok()); }, {4, 6, 8}},
      {"Move", [this] { Move("k", 3); }, {5, 7, 9}},
      {"Move to less than an interval",
       [this] { Move("k", .5); },
       {2.5, 5, 7, 9}},
      {"Set", [this] { Set("k", 2, 3); }, {5}},
      {"SetEvery", [this] { SetEvery("k", 2, 3); }, {5, 8}},
      {"SetIfAbsent",
       [this] {
         EXPECT_TRUE(absl::IsAlreadyExists(
             service_->SetIfAbsent("k", 2, absl::Seconds(1))));
       },
       {4, 6, 8}},
  };
  for (const auto& [name, change, expected] : changes) {
    SCOPED_TRACE(name);
    bool is_first = true;
    const double start = now();
    StartWith([&, &change = change](const std::string&, int) {
      if (std::exchange(is_first, false)) change();
    });
    id = *service_->Every(absl::Hours(1), [] {});
    SetEvery("k", 1, 2);
    RunFor(9);
    std::vector<double> times = TakeTimes();
    for (double& time : times) time -= start;
    ASSERT_FALSE(times.empty());
    EXPECT_EQ(times[0], 2);
    times.erase(times.begin());
    EXPECT_EQ(times, expected);
    EXPECT_EQ(service_->size(), expected.size() > 1 ? 1 : 0);
  }
}

TEST_F(TimerServicePeriodTest, ACallOfEveryMayCancelItself) {
  Start();
  int calls = 0;
  TimerId id{};
  id = *service_->Every(absl::Seconds(1), [&] {
    if (++calls < 3) return;
    EXPECT_TRUE(service_->Cancel(id).ok());
  });
  RunFor(10);
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(absl::IsNotFound(service_->Cancel(id)));
}

TEST_F(TimerServicePeriodTest, OtherCallsEndAndChangeItAsAnyTimer) {
  Start();
  SetEvery("removed", 1, 2);
  SetEvery("moved", 2, 5);
  SetEvery("replaced", 3, 2);
  Set("made periodic", 4, 9);
  SetEvery("drained", 5, 50);
  EXPECT_EQ(service_->size(), 5);
  Remove("removed");
  Move("moved", 3);
  Set("replaced", 6, 4);
  SetEvery("made periodic", 7, 6);
  RunFor(12);
  EXPECT_THAT(
      TakeFired(),
      UnorderedElementsAre(Fired{"moved", 2, 3}, Fired{"replaced", 6, 4},
                           Fired{"made periodic", 7, 6}, Fired{"moved", 2, 8},
                           Fired{"made periodic", 7, 12}));
  std::map<std::string, int> drained;
  ASSERT_TRUE(service_
                  ->Drain([&](const std::string& key, int value) {
                    drained[key] = value;
                  })
                  .ok());
  EXPECT_THAT(drained, UnorderedElementsAre(std::pair("drained", 5),
                                            std::pair("moved", 2),
                                            std::pair("made periodic", 7)));
  RunFor(100);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServicePeriodTest, DrainLeavesEveryAlone) {
  Start();
  ASSERT_TRUE(service_->Every(absl::Seconds(1), [this] { Note("e", 1); }).ok());
  EXPECT_EQ(*service_->Drain([](const std::string&, int) {}), 0);
  RunFor(2);
  EXPECT_THAT(TakeTimes(), ElementsAre(1, 2));
}

TEST_F(TimerServicePeriodTest, ABadPeriodIsRefusedAndChangesNothing) {
  Start();
  Set("k", 1, 5);
  for (const absl::Duration period :
       {absl::ZeroDuration(), absl::Seconds(-1), absl::InfiniteDuration(),
        absl::Nanoseconds(1) / 4}) {
    const absl::Status status = service_->SetEvery("k", 2, period);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(status.message(),
              absl::StrCat("period is ", absl::FormatDuration(period),
                           ": it must be positive and finite"));
    EXPECT_EQ(service_->Every(period, [] {}).status(), status);
  }
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServicePeriodTest, APeriodOfManyYearsEndsAtTheEndOfTime) {
  Start();
  const absl::Duration period = absl::Hours(24) * 365 * 200;
  ASSERT_TRUE(service_->SetEvery("k", 1, period).ok());
  clock_.RunFor(period);
  EXPECT_EQ(TakeFired().size(), 1);
  clock_.RunFor(absl::InfiniteDuration());
  EXPECT_THAT(TakeFired(), IsEmpty());
  EXPECT_EQ(service_->size(), 1);
}

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

TEST_F(TimerServiceTimeTest, WhatCameDueDuringAPauseFiresAtItsEndInOrder) {
  // So many that their shards are in another order.
  constexpr int kTimers = 30;
  for (int i = kTimers; i > 0; --i) Set(std::to_string(i), i, 5 * i);
  clock_.Advance(absl::Hours(24) * 365 * 20);
  clock_.WaitUntilAsleep();
  const std::vector<Fired> fired = TakeFired();
  ASSERT_EQ(fired.size(), kTimers);
  for (int i = 1; i <= kTimers; ++i) {
    EXPECT_EQ(fired[i - 1], (Fired{std::to_string(i), i, now()}));
  }
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

// Promise: Timers fire once
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
  void Set(const std::string& key, int value, int64_t tick,
           int64_t period = 0) {
    timers_[key] = {value, tick, period};
  }
  bool Has(const std::string& key) const { return timers_.count(key) > 0; }
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
      Timer& timer = it->second;
      const bool due = timer.tick <= tick;
      if (due) fired[it->first] = timer.value;
      while (timer.period > 0 && timer.tick <= tick) timer.tick += timer.period;
      it = due && timer.period == 0 ? timers_.erase(it) : std::next(it);
    }
    return fired;
  }

 private:
  struct Timer {
    int value;
    int64_t tick;
    int64_t period;
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
    if (operation < 25) {
      ASSERT_TRUE(service_->Set(key, i, after).ok());
      model.Set(key, i, tick + delay);
    } else if (operation < 32) {
      ASSERT_TRUE(service_->SetEvery(key, i, after).ok());
      model.Set(key, i, tick + delay, delay);
    } else if (operation < 40) {
      ASSERT_EQ(service_->SetIfAbsent(key, i, after).ok(), !model.Has(key));
      if (!model.Has(key)) model.Set(key, i, tick + delay);
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
