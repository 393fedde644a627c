// What users of a keyed timing wheel know: set, move, remove, drain, stop.

#include "wheelcache/wheel/timer_service.h"

#include <errno.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
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

TEST_F(TimerServiceTest, FiresExactlyAfterMoves) {
  for (const int elapsed : {0, 3, 5}) {
    for (const int first : {5, 7, 10, 12}) {
      for (const int second : {0, 5, 7, 10, 12}) {  // 0: there is none.
        Start();
        Set("k", 1, 8);
        RunFor(elapsed);
        const double moved_at = now();
        Move("k", first);
        if (second > 0) Move("k", second);
        const int last = second > 0 ? second : first;
        RunFor(100);
        EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, moved_at + last}));
      }
    }
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

TEST_F(TimerServiceTest, MovedToNowItFiresAtOnce) {
  Start();
  Set("k", 1, 60);
  RunFor(10.25);
  Move("k", 0);
  clock_.WaitUntilAsleep();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 10.25}));
}

TEST_F(TimerServiceTest, MovedEarlierItFiresOnce) {
  Start();
  Set("k", 1, 400);
  Move("k", 5);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceTest, ARemovedTimerNeverFires) {
  Start();
  Set("k", 1, 8);
  RunFor(6);
  Move("k", 7);
  RunFor(3);
  Remove("k");
  EXPECT_EQ(service_->size(), 0);
  RunFor(1'000);
  EXPECT_THAT(TakeFired(), IsEmpty());
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
      service_->After(absl::Nanoseconds(-1), [] {}).status()));
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceTest, FiftyTimersOfOneTickFireOnceEachWithTheirOwnValues) {
  Start();
  for (int i = 0; i < 50; ++i) Set(std::to_string(i), i, 5);
  RunFor(100);
  std::vector<Fired> fired = TakeFired();
  std::sort(fired.begin(), fired.end(),
            [](const Fired& a, const Fired& b) { return a.value < b.value; });
  ASSERT_EQ(fired.size(), 50);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(fired[i], (Fired{std::to_string(i), i, 5}));
  }
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

TEST_F(TimerServiceTest, ATimerThatIsSetAfterDrainFires) {
  Start();
  Set("k", 1, 5);
  ASSERT_TRUE(service_->Drain([](const std::string&, int) {}).ok());
  Set("k", 2, 5);
  Set("j", 3, 6);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 2, 5}, Fired{"j", 3, 6}));
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

TEST_F(TimerServiceTest, AfterWantsAFunction) {
  Start();
  const absl::Status status =
      service_->After(absl::Seconds(5), nullptr).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("callback is empty"));
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
  EXPECT_EQ(service_->Move("k", absl::Seconds(1)), closed);
  EXPECT_EQ(service_->Remove("k"), closed);
  EXPECT_EQ(service_->Drain([](const std::string&, int) {}).status(), closed);
  EXPECT_EQ(service_->After(absl::Seconds(1), [] {}).status(), closed);
  EXPECT_EQ(service_->Cancel(TimerId{1}), closed);
  EXPECT_EQ(service_->size(), 0);
  RunFor(100);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceTest, StopMayBeCalledAnyNumberOfTimes) {
  Start();
  service_->Stop();
  service_->Stop();
}

TEST_F(TimerServiceTest, CreateTellsThatNoThreadCanBeCreated) {
  Reaper reaper(clock_, [](pthread_t*, const pthread_attr_t*, void* (*)(void*),
                           void*) { return EAGAIN; });
  Service::Options options = DefaultOptions();
  options.clock = nullptr;
  options.reaper = &reaper;
  EXPECT_TRUE(absl::IsUnavailable(Service::Create(options).status()));
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

}  // namespace
}  // namespace wheelcache
