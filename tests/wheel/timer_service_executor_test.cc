// Timers whose callbacks run on an executor: each race between a due timer and
// a call that comes before its task runs, in a forced order.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/timer_service_test_base.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Fired;
using ::testing::IsEmpty;
using testing::Notification;
using testing::TimerServiceTestBase;

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

TEST_F(TimerServiceExecutorTest, ATaskOfAnOldValueCannotHitANewOne) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  ASSERT_EQ(tasks_.size(), 1);
  Set("k", 2, 10);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
  RunFor(10);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 2, 15}));
}

TEST_F(TimerServiceExecutorTest, MoveWinsAgainstATaskThatHasNotRun) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  Move("k", 10);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
  RunFor(10);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 15}));
}

TEST_F(TimerServiceExecutorTest, RemoveWinsAgainstATaskThatHasNotRun) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  Remove("k");
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceExecutorTest, ItIsTooLateToRemoveWhenTheCallbackHasBegun) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  tasks_.RunAll();
  EXPECT_TRUE(absl::IsNotFound(service_->Remove("k")));
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 1, 5}));
}

TEST_F(TimerServiceExecutorTest, DrainWinsAgainstATaskThatHasNotRun) {
  StartWithTasks();
  Set("k", 1, 5);
  Set("j", 2, 6);
  RunFor(5);
  EXPECT_EQ(*service_->Drain([](const std::string&, int) {}), 2);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
  Set("k", 3, 5);
  RunFor(100);
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"k", 3, 105}));
}

TEST_F(TimerServiceExecutorTest, AFreedTaskServesTheNextOneThatIsDue) {
  StartWithTasks();
  for (const char* key : {"a", "b", "c"}) Set(key, 1, 5);
  RunFor(5);
  Remove("a");
  Remove("b");
  Set("d", 2, 1);
  RunFor(1);
  EXPECT_EQ(tasks_.size(), 3);  // Those of a and b serve c and d.
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), ElementsAre(Fired{"c", 1, 6}, Fired{"d", 2, 6}));
}

TEST_F(TimerServiceExecutorTest, ATaskThatComesAfterStopDoesNothing) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  service_->Stop();
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceExecutorTest, ATaskMayOutliveTheService) {
  StartWithTasks();
  Set("k", 1, 5);
  RunFor(5);
  service_ = nullptr;
  tasks_.RunAll();
  EXPECT_THAT(TakeFired(), IsEmpty());
}

TEST_F(TimerServiceExecutorTest, AnExecutorMayRunTasksOnTheSpot) {
  Service::Options options = DefaultOptions();
  options.executor = [](const std::function<void()>& task) { task(); };
  Start(std::move(options));
  for (int i = 0; i < 200; ++i) Set(std::to_string(i), i, 5);
  RunFor(100);
  EXPECT_EQ(TakeFired().size(), 200);
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

TEST_F(TimerServiceExecutorTest, StopWaitsForTheCallbacksOnAllThreads) {
  Notification a_started, b_started;
  std::atomic<int> ended{0};
  Service::Options options = OptionsWithTasks();
  options.execute = [&](const std::string& key, int) {
    (key == "a" ? a_started : b_started).Notify();
    while (!absl::IsFailedPrecondition(service_->Remove("x"))) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    ++ended;
  };
  Start(std::move(options));
  Set("a", 1, 0);
  Set("b", 2, 0);
  clock_.WaitUntilAsleep();
  std::thread a(tasks_.Take()), b(tasks_.Take());
  a_started.Wait();
  b_started.Wait();
  service_->Stop();
  EXPECT_EQ(ended, 2);
  a.join();
  b.join();
}

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

}  // namespace
}  // namespace wheelcache
