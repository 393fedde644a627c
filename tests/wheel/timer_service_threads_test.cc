// A timer service and its threads: what callbacks may do, what happens to
// values, callbacks on an executor, what Stop waits for, fork(), and all
// methods from many threads at once.

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::EndInAMinute;
using testing::Fired;
using testing::HoldsInChild;
using ::testing::IsEmpty;
using testing::kChildMayStartThreads;
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

// Promise: Timers fire once
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
  ASSERT_TRUE(service_->Every(absl::Seconds(4), [] { throw 7; }).ok());
  RunFor(8);
  EXPECT_EQ(TakeFired().size(), 3);
  EXPECT_EQ(service_->exceptions(), 5);
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
    options.execute = [](int, const Value&) {};
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
  std::atomic<int> destroyed_{0};
  std::unique_ptr<Service> service_;
};

TEST_F(TimerServiceValueTest, AValueOfNoMoreUseIsDestroyedAtOnce) {
  Set(1);
  Set(1);
  EXPECT_EQ(destroyed_, 1) << "replaced";
  ASSERT_TRUE(service_->Remove(1).ok());
  EXPECT_EQ(destroyed_, 2) << "removed";
  EXPECT_FALSE(service_->Set(1, MakeValue(), absl::Seconds(-1)).ok());
  EXPECT_EQ(destroyed_, 3) << "refused";
  Set(1);
  service_->Stop();
  EXPECT_EQ(destroyed_, 4) << "stopped";
  EXPECT_FALSE(service_->Set(1, MakeValue(), absl::Seconds(1)).ok());
  EXPECT_EQ(destroyed_, 5) << "refused";
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

// As one of the system does where a virtual machine was paused.
class JumpingClock final : public Clock {
 public:
  int64_t NowNanos() const override {
    const int64_t now = Clock::Monotonic().NowNanos() + jumped_.load();
    if (sleeping_.load()) looked_.store(true);
    return now;
  }
  std::unique_ptr<Sleeper> NewSleeper() override {
    return std::make_unique<NotedSleeper>(this, Clock::NewSleeper());
  }

  // When a thread sleeps for as long as it seems to have to.
  void JumpInASleep(absl::Duration by) {
    while (!looked_.load()) std::this_thread::yield();
    jumped_ += absl::ToInt64Nanoseconds(by);
  }

 private:
  class NotedSleeper final : public Sleeper {
   public:
    NotedSleeper(JumpingClock* clock, std::unique_ptr<Sleeper> sleeper)
        : clock_(*clock), sleeper_(std::move(sleeper)) {}
    void SleepUntil(int64_t deadline_nanos) override {
      if (deadline_nanos != kNever) clock_.sleeping_.store(true);
      sleeper_->SleepUntil(deadline_nanos);
    }
    void Wake() override { sleeper_->Wake(); }

   private:
    JumpingClock& clock_;
    const std::unique_ptr<Sleeper> sleeper_;
  };

  std::atomic<int64_t> jumped_{0};
  std::atomic<bool> sleeping_{false};
  mutable std::atomic<bool> looked_{false};
};

TEST(TimerServiceClockTest, TimersFireAfterAJumpAlsoThoseThatAreSetLater) {
  JumpingClock clock;
  Notification fired[2];
  TimerService<int, int>::Options options;
  options.interval = absl::Milliseconds(1);
  options.execute = [&](int key, int) { fired[key].Notify(); };
  options.clock = &clock;
  const auto service = *TimerService<int, int>::Create(std::move(options));
  ASSERT_TRUE(service->Set(0, 0, absl::Minutes(30)).ok());
  clock.JumpInASleep(absl::Hours(1));
  ASSERT_TRUE(service->Set(1, 0, absl::Milliseconds(20)).ok());
  for (Notification& each : fired) each.Wait();
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

// Keeps tasks until it is told to run them.
class TaskQueue {
 public:
  void Add(std::function<void()> task) {
    MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }

  size_t size() {
    MutexLock lock(&mu_);
    return tasks_.size();
  }

  std::function<void()> Take() {
    MutexLock lock(&mu_);
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  void RunAll() {
    while (size() > 0) Take()();
  }

 private:
  Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
};

class TimerServiceExecutorTest : public TimerServiceTestBase {
 protected:
  void StartWithTasks() { Start(OptionsWithTasks()); }

  Service::Options OptionsWithTasks() {
    Service::Options options = DefaultOptions();
    options.executor = [this](std::function<void()> task) {
      tasks_.Add(std::move(task));
    };
    return options;
  }

  TaskQueue tasks_;
};

TEST_F(TimerServiceExecutorTest, EachDueTimerGetsATask) {
  StartWithTasks();
  for (int i = 0; i < 200; ++i) Set(std::to_string(i), i, 5);
  ASSERT_TRUE(service_->After(absl::Seconds(5), [this] { Note("a", 7); }).ok());
  RunFor(5);
  EXPECT_EQ(tasks_.size(), 201);
  EXPECT_THAT(TakeFired(), IsEmpty());
  RunFor(2);
  tasks_.RunAll();
  const std::vector<Fired> fired = TakeFired();
  EXPECT_EQ(fired.size(), 201);
  for (const Fired& f : fired) EXPECT_EQ(f.at, 7);
}

TEST_F(TimerServiceExecutorTest, AChangeWinsAgainstATaskThatHasNotRun) {
  const struct {
    std::string name;
    std::function<void()> change;
    std::vector<Fired> later;
  } changes[] = {
      {"Set", [this] { Set("k", 2, 10); }, {{"k", 2, 15}}},
      {"Move", [this] { Move("k", 10); }, {{"k", 1, 15}}},
      {"Remove", [this] { Remove("k"); }, {}},
      {"Drain",
       [this] { EXPECT_TRUE(service_->Drain([](auto&, int) {}).ok()); },
       {}},
  };
  for (const auto& [name, change, later] : changes) {
    SCOPED_TRACE(name);
    StartWithTasks();
    const double start = now();
    Set("k", 1, 5);
    RunFor(5);
    ASSERT_EQ(tasks_.size(), 1);
    change();
    tasks_.RunAll();
    EXPECT_THAT(TakeFired(), IsEmpty());
    RunFor(10);
    tasks_.RunAll();
    std::vector<Fired> fired = TakeFired();
    for (Fired& f : fired) f.at -= start;
    EXPECT_EQ(fired, later);
  }
}

TEST_F(TimerServiceExecutorTest, AFreedTaskServesTheNextOneThatIsDue) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  Remove("k");
  Set("k", 2, 1);
  RunFor(1);
  EXPECT_EQ(tasks_.size(), 1);  // That of the first serves the second.
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 2, 6}));
}

TEST_F(TimerServiceExecutorTest, APeriodicTimerWaitsForItsTask) {
  StartWithTasks();
  ASSERT_TRUE(service_->SetEvery("k", 1, absl::Seconds(2)).ok());
  RunFor(7);
  EXPECT_EQ(tasks_.size(), 1);
  tasks_.RunAll();
  EXPECT_EQ(tasks_.size(), 0);
  RunFor(1);
  EXPECT_EQ(tasks_.size(), 1);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 7}, Fired{"k", 1, 8}));
}

// While its callback runs on an executor's thread.
TEST_F(TimerServiceExecutorTest, APeriodicTimerThatRunsIsEndedByAnotherThread) {
  const struct {
    std::string name;
    std::function<void()> change;
    std::vector<Fired> later;
  } changes[] = {
      {"Set", [this] { Set("k", 2, 10); }, {{"k", 2, 13}}},
      {"Move", [this] { Move("k", 10); }, {{"k", 1, 13}}},
      {"Remove", [this] { Remove("k"); }, {}},
      {"Drain",
       [this] { EXPECT_EQ(*service_->Drain([](auto&, int) {}), 0); },
       {}},
  };
  for (const auto& [name, change, later] : changes) {
    SCOPED_TRACE(name);
    Notification started, go_on;
    bool is_first = true;
    Service::Options options = OptionsWithTasks();
    options.execute = [&](const std::string& key, int value) {
      if (!std::exchange(is_first, false)) return Note(key, value);
      started.Notify();
      go_on.Wait();
    };
    Start(std::move(options));
    const double start = now();
    ASSERT_TRUE(service_->SetEvery("k", 1, absl::Seconds(2)).ok());
    RunFor(2);
    std::thread executor(tasks_.Take());
    started.Wait();
    change();
    RunFor(3);
    EXPECT_EQ(tasks_.size(), 0);  // Its callbacks do not overlap.
    go_on.Notify();
    executor.join();
    RunFor(8);
    tasks_.RunAll();
    std::vector<Fired> fired = TakeFired();
    for (Fired& f : fired) f.at -= start;
    EXPECT_EQ(fired, later);
  }
}

TEST_F(TimerServiceExecutorTest, ATaskMayOutliveTheService) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  service_ = nullptr;
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceExecutorTest, AnExecutorMayCallTheServiceAndDestroyAnother) {
  auto other = *Service::Create(DefaultOptions());
  Service::Options options = DefaultOptions();
  options.executor = [&](std::function<void()> task) {
    if (std::exchange(other, nullptr) != nullptr) {
      Set("set", 2, 3);
      Move("moved", 5);
    }
    tasks_.Add(std::move(task));
  };
  Start(std::move(options));
  Set("due", 1, 5);
  Set("moved", 3, 6);
  RunFor(7);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"due", 1, 7}));
  RunFor(10);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(),
              ElementsAre(Fired{"set", 2, 17}, Fired{"moved", 3, 17}));
}

#ifdef ABSL_HAVE_EXCEPTIONS
TEST_F(TimerServiceExecutorTest, AnExecutorThatThrowsIsAskedAgain) {
  std::atomic<int> refused{0};
  Service::Options options = DefaultOptions();
  options.executor = [&](std::function<void()> task) {
    if (refused < 3) {
      ++refused;
      throw std::runtime_error("no room");
    }
    tasks_.Add(std::move(task));
  };
  Start(std::move(options));
  Set("k", 1, 5);
  Set("j", 2, 5);
  RunFor(7);
  EXPECT_EQ(tasks_.size(), 0);
  EXPECT_EQ(service_->exceptions(), 3);
  RunFor(1);
  EXPECT_EQ(tasks_.size(), 2);
  tasks_.RunAll();
  EXPECT_EQ(TakeFired().size(), 2);
  EXPECT_EQ(service_->exceptions(), 3);
}

TEST_F(TimerServiceExecutorTest, AnExecutorThatThrowsButRunsTheTaskIsBorne) {
  Service::Options options = DefaultOptions();
  options.executor = [](const std::function<void()>& task) {
    task();
    task();
    throw 7;
  };
  Start(std::move(options));
  for (int i = 0; i < 20; ++i) Set(std::to_string(i), i, 5);
  RunFor(100);
  EXPECT_EQ(TakeFired().size(), 20);
}
#endif

TEST_F(TimerServiceExecutorTest, CallbacksOnTwoThreadsMayStopTheService) {
  std::atomic<int> started{0};
  Service::Options options = OptionsWithTasks();
  const auto stop = [&] {
    ++started;
    while (started < 2) std::this_thread::yield();
    service_->Stop();  // Neither waits for the other.
  };
  options.execute = [&](const std::string&, int) { stop(); };
  Start(std::move(options));
  Set("a", 1, 0);
  ASSERT_TRUE(service_->After(absl::ZeroDuration(), stop).ok());
  clock_.WaitUntilAsleep();
  std::thread a(tasks_.Take()), b(tasks_.Take());
  a.join();
  b.join();
}

TEST_F(TimerServiceExecutorTest, ASlowExecutorDoesNotHoldUpTheCallers) {
  Notification asked, go_on;
  Service::Options options = DefaultOptions();
  options.executor = [&](const std::function<void()>& task) {
    asked.Notify();
    go_on.Wait();
    task();
  };
  Start(std::move(options));
  Set("k", 1, 0);
  asked.Wait();
  Set("k", 2, 0);
  Set("j", 3, 60);
  EXPECT_EQ(service_->size(), 2);
  go_on.Notify();
  RunFor(1);
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 2, 0}));
}

// A key with something that ends with it. The service has the only one.
struct OwningKey {
  friend bool operator==(const OwningKey& a, const OwningKey& b) {
    return a.number == b.number;
  }
  template <typename H>
  friend H AbslHashValue(H hash, const OwningKey& key) {
    return H::combine(std::move(hash), key.number);
  }

  int number;
  std::shared_ptr<void> owned;
};

// A destructor may use what the caller of Stop is about to destroy.
TEST(TimerServiceExecutorKeyTest,
     StopWaitsForTheDestructorsOfACallbackThatRan) {
  using Service = TimerService<OwningKey, int>;
  SimulatedClock clock;
  TaskQueue tasks;
  Notification destroying;
  std::atomic<bool> stopped{false};
  std::atomic<bool> stopped_too_early{false};
  Service::Options options;
  options.clock = &clock;
  options.execute = [](const OwningKey&, int) {};
  options.executor = [&](std::function<void()> task) {
    tasks.Add(std::move(task));
  };
  const auto service = *Service::Create(std::move(options));
  std::shared_ptr<void> owned(nullptr, [&](void*) {
    destroying.Notify();
    // Until Stop has begun, and for as long as it might take to end.
    const OwningKey other{2, nullptr};
    while (!absl::IsFailedPrecondition(service->Remove(other))) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 10'000 && !stopped; ++i) std::this_thread::yield();
    stopped_too_early = stopped.load();
  });
  ASSERT_TRUE(
      service->Set({1, std::move(owned)}, 1, absl::ZeroDuration()).ok());
  clock.WaitUntilAsleep();
  std::thread executor(tasks.Take());
  destroying.Wait();
  service->Stop();
  stopped = true;
  executor.join();
  EXPECT_FALSE(stopped_too_early);
}

// The timers go on in the child of a fork().
class TimerServiceFork : public ::testing::Test {
 protected:
  using Service = TimerService<int, int>;

  void Start(std::function<void(int, int)> execute) {
    options_.clock = &clock_;
    options_.execute = std::move(execute);
    service_ = *Service::Create(options_);
  }
  void StartWithTasks(std::function<void(int, int)> execute) {
    options_.executor = [this](std::function<void()> task) {
      tasks_.push_back(std::move(task));
    };
    Start(std::move(execute));
  }
  bool Set(int key, int value, absl::Duration delay = absl::ZeroDuration()) {
    return service_->Set(key, value, delay).ok();
  }

  SimulatedClock clock_;
  Service::Options options_;
  std::vector<std::function<void()>> tasks_;
  std::atomic<int> fired_{0};
  std::unique_ptr<Service> service_;
};

TEST_F(TimerServiceFork, TheTimersGoOnInTheChildWithItsFirstSet) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  Start([this](int, int value) { fired_ += value; });
  ASSERT_TRUE(Set(1, 100, absl::Seconds(5)));
  EXPECT_TRUE(HoldsInChild([&] {
    if (!Set(2, 10, absl::Seconds(60))) return false;
    clock_.RunFor(absl::Seconds(5));
    if (fired_ != 100) return false;
    service_ = nullptr;
    return true;
  }));
  EXPECT_EQ(fired_, 0);
  clock_.RunFor(absl::Seconds(60));
  EXPECT_EQ(fired_, 100);
}

TEST_F(TimerServiceFork, PeriodicTimersGoOnInTheChild) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  Start([this](int, int value) { fired_ += value; });
  ASSERT_TRUE(service_->SetEvery(1, 100, absl::Seconds(5)).ok());
  EXPECT_TRUE(HoldsInChild([&] {
    if (!Set(2, 10, absl::Seconds(60))) return false;
    clock_.RunFor(absl::Seconds(11));
    if (fired_ != 200) return false;
    service_ = nullptr;
    return true;
  }));
  EXPECT_EQ(fired_, 0);
  clock_.RunFor(absl::Seconds(5));
  EXPECT_EQ(fired_, 100);
}

TEST_F(TimerServiceFork, TasksThatWaitAreTheChildsAsWell) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  StartWithTasks([this](int, int value) { fired_ += value; });
  ASSERT_TRUE(Set(1, 100));
  clock_.WaitUntilAsleep();
  ASSERT_EQ(tasks_.size(), 1);
  EXPECT_TRUE(HoldsInChild([&] {
    if (!Set(2, 10)) return false;
    clock_.WaitUntilAsleep();
    for (const std::function<void()>& task : tasks_) task();
    service_->Stop();
    return fired_ == 110;
  }));
}

TEST_F(TimerServiceFork, ACallbackMayForkAndTheChildStop) {
  std::atomic<bool> held{false};
  Start([&](int, int) {
    held = HoldsInChild([&] {
      service_->Stop();
      return !Set(2, 2, absl::Seconds(1));
    });
  });
  ASSERT_TRUE(Set(1, 1));
  clock_.WaitUntilAsleep();
  EXPECT_TRUE(held);
}

// The callback that forked ends in the child, too, and is counted there once.
TEST_F(TimerServiceFork, StopInTheChildWaitsForTheCallbacksOfTheChild) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  std::atomic<bool> ended{false};
  pid_t child = -1;
  Notification started;
  StartWithTasks([&](int key, int) {
    if (key == 1) {
      child = fork();
      if (child == 0) EndInAMinute();
      return;
    }
    started.Notify();
    while (!absl::IsFailedPrecondition(service_->Remove(3))) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    ended = true;
  });
  const auto start = [&](int key) {
    EXPECT_TRUE(Set(key, 0));
    clock_.WaitUntilAsleep();
    EXPECT_FALSE(tasks_.empty());
    return std::exchange(tasks_, {}).at(0);
  };
  start(1)();
  if (child == 0) {
    std::thread executor(start(2));
    started.Wait();
    service_->Stop();
    const bool holds = ended;
    executor.join();
    _exit(holds ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
}

// All methods from many threads at once, above all for ThreadSanitizer. Each
// value that was set comes to one end, and to one only: fired, replaced,
// removed, drained or dropped by Stop.
constexpr int kThreads = 4;
constexpr int kRounds = 4'000;
constexpr int kKeys = 16;

// Knows its key, and counts that it is there.
class CountedValue {
 public:
  CountedValue(int key, std::atomic<int>& alive) : key_(key), alive_(&alive) {
    ++*alive_;
  }
  CountedValue(const CountedValue& other)
      : CountedValue(other.key_, *other.alive_) {}
  CountedValue(CountedValue&& other) noexcept
      : key_(other.key_), alive_(std::exchange(other.alive_, nullptr)) {}
  CountedValue& operator=(CountedValue&&) = delete;
  ~CountedValue() {
    if (alive_ != nullptr) --*alive_;
  }

  int key() const { return key_; }

 private:
  const int key_;
  std::atomic<int>* alive_;
};

using RacingService = TimerService<int, CountedValue>;

// Hands each task to one of two threads, which end with this.
class ThreadPool {
 public:
  ThreadPool() {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  ~ThreadPool() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(std::function<void()> task) {
    MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }

 private:
  void Work() {
    while (!stop_) {
      std::function<void()> task;
      {
        MutexLock lock(&mu_);
        if (!tasks_.empty()) {
          task = std::move(tasks_.back());
          tasks_.pop_back();
        }
      }
      if (task) task();
      std::this_thread::yield();
    }
  }

  Mutex mu_;
  std::vector<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class TimerServiceRaceTest : public ::testing::TestWithParam<bool> {
 protected:
  TimerServiceRaceTest() {
    RacingService::Options options;
    options.interval = absl::Nanoseconds(1);
    options.clock = &clock_;
    options.execute = [this](int key, const CountedValue& value) {
      EXPECT_EQ(key, value.key());
      ++ended_;
      // A callback is as good a place as any to call the service from.
      if (key == 0) service_->Move(1, absl::Nanoseconds(3)).IgnoreError();
    };
    if (GetParam()) {
      pool_ = std::make_unique<ThreadPool>();
      options.executor = [this](std::function<void()> task) {
        pool_->Run(std::move(task));
      };
    }
    service_ = *RacingService::Create(std::move(options));
  }

  void CallAtRandom(int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const int key = static_cast<int>(random() % kKeys);
      const auto delay = absl::Nanoseconds(random() % 20);
      switch (random() % 10) {
        case 0:
        case 1:
          service_->Set(key, CountedValue(key, alive_), delay).IgnoreError();
          break;
        case 2:
          service_->SetIfAbsent(key, CountedValue(key, alive_), delay)
              .IgnoreError();
          break;
        case 3:
          service_->SetEvery(key, CountedValue(key, alive_), delay)
              .IgnoreError();
          break;
        case 4:
        case 5:
          service_->Move(key, delay).IgnoreError();
          break;
        case 6:
          if (service_->Remove(key).ok()) ++ended_;
          break;
        case 7:
          service_->After(delay, [this] { ++calls_; }).IgnoreError();
          break;
        case 8:
          service_
              ->Drain([this](int drained, const CountedValue& value) {
                EXPECT_EQ(drained, value.key());
                ++ended_;
              })
              .IgnoreError();
          break;
        default:
          clock_.Advance(absl::Nanoseconds(1));
      }
    }
  }

  void RunThreads(const std::function<void()>& meanwhile) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t] { CallAtRandom(t); });
    }
    meanwhile();
    for (std::thread& thread : threads) thread.join();
  }

  SimulatedClock clock_;
  std::atomic<int> alive_{0};
  std::atomic<int> ended_{0};
  std::atomic<int> calls_{0};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<RacingService> service_;
};

TEST_P(TimerServiceRaceTest, AllTimersFireInTheEnd) {
  RunThreads([] {});
  for (int key = 0; key < kKeys; ++key) {
    // Ends the periodic ones; a task may take one that is due before it.
    service_->Set(key, CountedValue(key, alive_), {}).IgnoreError();
  }
  EXPECT_TRUE(
      service_->After(absl::Nanoseconds(50), [this] { ++calls_; }).ok());
  while (service_->size() > 0 || calls_ == 0) {
    clock_.RunFor(absl::Nanoseconds(100));
  }
  service_->Stop();
  EXPECT_EQ(alive_, 0);
  EXPECT_GT(ended_, 0);
  EXPECT_GT(calls_, 0);
}

TEST_P(TimerServiceRaceTest, AfterStopNothingRunsAndNothingIsLeft) {
  std::atomic<int> ended{0};
  RunThreads([&] {
    while (ended_ < 100) std::this_thread::yield();
    service_->Stop();
    // Removals and drained items are counted by the threads themselves.
    EXPECT_TRUE(absl::IsFailedPrecondition(service_->Remove(0)));
    ended = calls_.load();
  });
  EXPECT_EQ(calls_, ended);
  EXPECT_EQ(service_->size(), 0);
  EXPECT_EQ(alive_, 0);
}

// The keys are in different shards, in most cases.
TEST(TimerServiceShards, NoCallSeesAPartOfTheKeysBeforeAndOfOthersAfter) {
  SimulatedClock clock;
  TimerService<int, int>::Options options;
  options.execute = [](int, int) {};
  options.clock = &clock;
  const auto service = *TimerService<int, int>::Create(std::move(options));
  ASSERT_TRUE(service->Set(0, 0, absl::Seconds(1)).ok());
  std::thread setter([&] {
    for (int i = 1;; ++i) {
      // After a call that found the service closed, none finds it open.
      if (!service->Set(i, i, absl::Seconds(1)).ok()) {
        for (int j = 1; j <= 50; ++j) {
          EXPECT_FALSE(service->Set(i + j, i, absl::Seconds(1)).ok());
        }
        return;
      }
      service->Remove(i - 1).IgnoreError();
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const size_t size = service->size();
    EXPECT_TRUE(size == 1 || size == 2) << size;
  }
  for (int i = 0; i < 2'000; ++i) {
    std::vector<int> drained;
    ASSERT_TRUE(
        service->Drain([&](int key, int) { drained.push_back(key); }).ok());
    EXPECT_LE(drained.size(), 2u);
    if (drained.size() == 2) {
      EXPECT_EQ(std::abs(drained[0] - drained[1]), 1);
    }
    std::this_thread::yield();
  }
  service->Stop();
  setter.join();
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutExecutor, TimerServiceRaceTest,
                         ::testing::Bool());

}  // namespace
}  // namespace wheelcache
