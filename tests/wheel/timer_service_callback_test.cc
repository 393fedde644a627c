// What callbacks may do, what happens to values, and what Stop waits for.

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Fired;
using ::testing::IsEmpty;
using testing::Notification;
using testing::TimerServiceTestBase;

using TimerServiceCallbackTest = TimerServiceTestBase;

TEST_F(TimerServiceCallbackTest, ACallbackMaySetItsOwnKeyAgain) {
  StartWith([this](const std::string& key, int value) {
    if (value < 3) Set(key, value + 1, 5);
  });
  Set("k", 1, 5);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}, Fired{"k", 2, 10},
                                       Fired{"k", 3, 15}));
}

TEST_F(TimerServiceCallbackTest, ACallbackMayMoveAndRemoveOthers) {
  StartWith([this](const std::string& key, int) {
    if (key != "first") return;
    Move("later", 1);
    Remove("never");
  });
  Set("first", 1, 5);
  Set("never", 2, 6);
  Set("later", 3, 60);
  RunFor(100);
  EXPECT_THAT(TakeFired(),
              ElementsAre(Fired{"first", 1, 5}, Fired{"later", 3, 6}));
}

TEST_F(TimerServiceCallbackTest, ACallbackMayRemoveOneThatIsDueWithIt) {
  StartWith(
      [this](const std::string& key, int) { Remove(key == "a" ? "b" : "a"); });
  Set("a", 1, 5);
  Set("b", 2, 5);
  RunFor(100);
  EXPECT_EQ(TakeFired().size(), 1);
}

TEST_F(TimerServiceCallbackTest, ACallbackFindsItsOwnKeyGone) {
  StartWith([this](const std::string& key, int) {
    EXPECT_TRUE(absl::IsNotFound(service_->Remove(key)));
    EXPECT_TRUE(absl::IsNotFound(service_->Move(key, absl::Seconds(1))));
  });
  Set("k", 1, 5);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceCallbackTest, ACallbackThatKeepsSettingDoesNotStopTime) {
  StartWith([this](const std::string& key, int value) {
    if (value < 1'000) Set(key, value + 1, 0);
  });
  Set("k", 1, 5);
  Set("j", 0, 5);
  RunFor(5);
  EXPECT_EQ(TakeFired().size(), 1'000 + 1'001);
}

TEST_F(TimerServiceCallbackTest, ACallbackMayDrain) {
  StartWith([this](const std::string&, int) {
    EXPECT_EQ(*service_->Drain([this](const std::string& key, int value) {
      Note("drained " + key, value);
    }),
              1);
  });
  Set("a", 1, 5);
  Set("b", 2, 50);
  RunFor(100);
  EXPECT_THAT(TakeFired(),
              ElementsAre(Fired{"a", 1, 5}, Fired{"drained b", 2, 5}));
}

TEST_F(TimerServiceCallbackTest, WhatDrainCallsMayCallTheService) {
  Start();
  Set("k", 1, 5);
  const auto count = service_->Drain([this](const std::string& key, int value) {
    EXPECT_TRUE(absl::IsNotFound(service_->Remove(key)));
    EXPECT_EQ(*service_->Drain([](const std::string&, int) {}), 0);
    Set(key, value + 1, 7);
  });
  EXPECT_EQ(*count, 1);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 2, 7}));
}

TEST_F(TimerServiceCallbackTest, WhatDrainCallsMayStopTheService) {
  Start();
  Set("a", 1, 5);
  Set("b", 2, 5);
  const auto count =
      service_->Drain([this](const std::string&, int) { service_->Stop(); });
  EXPECT_EQ(*count, 2);
  RunFor(100);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceCallbackTest, ACallbackMayStop) {
  StartWith([this](const std::string&, int) {
    service_->Stop();
    service_->Stop();
  });
  Set("a", 1, 5);
  Set("b", 2, 5);
  Set("c", 3, 6);
  RunFor(100);
  EXPECT_EQ(TakeFired().size(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(service_->Remove("c")));
  service_->Stop();
}

TEST_F(TimerServiceCallbackTest, AFunctionOfAfterMayStopAndAnItemNot) {
  Start();
  Set("k", 1, 5);
  ASSERT_TRUE(
      service_->After(absl::Seconds(4), [this] { service_->Stop(); }).ok());
  RunFor(100);
  EXPECT_THAT(TakeFired(), IsEmpty());
}

#ifdef ABSL_HAVE_EXCEPTIONS
TEST_F(TimerServiceCallbackTest, AnExceptionIsCountedAndStopsNoOther) {
  StartWith([](const std::string& key, int) {
    if (key != "good") throw std::runtime_error(key);
  });
  Set("bad", 1, 5);
  Set("good", 2, 5);
  Set("worse", 3, 6);
  ASSERT_TRUE(service_->After(absl::Seconds(7), [] { throw 7; }).ok());
  RunFor(8);
  EXPECT_EQ(TakeFired().size(), 3);
  EXPECT_EQ(service_->exceptions(), 3);
  Set("good", 4, 1);
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"good", 4, 9}));
}

TEST_F(TimerServiceCallbackTest, AnExceptionFromDrainLosesNoItem) {
  Start();
  Set("a", 1, 5);
  Set("b", 2, 5);
  int handed_out = 0;
  const auto count = service_->Drain([&](const std::string&, int) {
    ++handed_out;
    throw 7;
  });
  EXPECT_EQ(*count, 2);
  EXPECT_EQ(handed_out, 2);
  EXPECT_EQ(service_->exceptions(), 2);
}
#endif

// Values that tell when they are destroyed, and call the service from there.
class TimerServiceValueTest : public ::testing::Test {
 protected:
  using Value = std::shared_ptr<void>;
  using Service = TimerService<int, Value>;

  TimerServiceValueTest() {
    Service::Options options;
    options.clock = &clock_;
    options.execute = [this](int, const Value&) { ++fired_; };
    service_ = *Service::Create(std::move(options));
  }

  // Counts its destruction. Would wait for ever there if a lock were held.
  Value MakeValue() {
    return Value(nullptr, [this](void*) {
      service_->size();
      service_->Remove(99).IgnoreError();
      ++destroyed_;
    });
  }

  void Set(int key) {
    EXPECT_TRUE(service_->Set(key, MakeValue(), absl::Seconds(5)).ok());
  }

  SimulatedClock clock_;
  std::atomic<int> fired_{0};
  std::atomic<int> destroyed_{0};
  std::unique_ptr<Service> service_;
};

TEST_F(TimerServiceValueTest, AReplacedValueIsDestroyedAtOnce) {
  Set(1);
  EXPECT_EQ(destroyed_, 0);
  Set(1);
  EXPECT_EQ(destroyed_, 1);
  clock_.RunFor(absl::Seconds(10));
  EXPECT_EQ(destroyed_, 2);
  EXPECT_EQ(fired_, 1);
}

TEST_F(TimerServiceValueTest, ARemovedValueIsDestroyedAtOnce) {
  Set(1);
  ASSERT_TRUE(service_->Remove(1).ok());
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(TimerServiceValueTest, ARefusedValueIsDestroyedAtOnce) {
  EXPECT_FALSE(service_->Set(1, MakeValue(), absl::Seconds(-1)).ok());
  EXPECT_EQ(destroyed_, 1);
  service_->Stop();
  EXPECT_FALSE(service_->Set(1, MakeValue(), absl::Seconds(1)).ok());
  EXPECT_EQ(destroyed_, 2);
}

TEST_F(TimerServiceValueTest, DrainDestroysWhatItsFunctionDoesNotTake) {
  Set(1);
  Set(2);
  Value taken;
  ASSERT_EQ(*service_->Drain([&](int key, Value value) {
    if (key == 1) taken = std::move(value);
  }),
            2);
  EXPECT_EQ(destroyed_, 1);
  taken = nullptr;
  EXPECT_EQ(destroyed_, 2);
}

TEST_F(TimerServiceValueTest, StopDestroysAllValues) {
  for (int key = 0; key < 100; ++key) Set(key);
  service_->Stop();
  EXPECT_EQ(destroyed_, 100);
}

TEST_F(TimerServiceValueTest, NothingStaysBehindOfMovedAndRemovedTimers) {
  for (int i = 0; i < 10'000; ++i) {
    Set(i);
    ASSERT_TRUE(service_->Move(i, absl::Hours(1 + i % 10)).ok());
    ASSERT_TRUE(service_->Remove(i).ok());
  }
  EXPECT_EQ(destroyed_, 10'000);
  EXPECT_EQ(service_->size(), 0);
  clock_.WaitUntilAsleep();
  clock_.RunFor(absl::Seconds(6));  // What was planned for the first Set.
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Hours(100));
  EXPECT_EQ(clock_.wake_ups(), before);
}

TEST_F(TimerServiceCallbackTest, StopWaitsForTheCallbackThatRuns) {
  Notification started;
  std::atomic<bool> ended{false};
  StartWith([&](const std::string& key, int) {
    started.Notify();
    // Until Stop has begun.
    while (!absl::IsFailedPrecondition(service_->Remove(key))) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    ended = true;
  });
  Set("k", 1, 0);
  started.Wait();
  std::thread another([&] {
    service_->Stop();
    EXPECT_TRUE(ended);
  });
  service_->Stop();
  EXPECT_TRUE(ended);
  another.join();
}

TEST_F(TimerServiceCallbackTest, ASetDuringTheCallbackOfTheSameKeyFiresToo) {
  Notification started;
  Notification set;
  StartWith([&](const std::string&, int value) {
    if (value != 1) return;
    started.Notify();
    set.Wait();
  });
  Set("k", 1, 0);
  started.Wait();
  Set("k", 2, 5);
  set.Notify();
  RunFor(100);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 0}, Fired{"k", 2, 5}));
}

}  // namespace
}  // namespace wheelcache
