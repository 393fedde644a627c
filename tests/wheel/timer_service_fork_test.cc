// A timer service in the child of a fork(): its timers go on there, and threads
// and callbacks of the parent are not waited for.

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {
namespace {

using testing::EndInAMinute;
using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::Notification;

using Service = TimerService<int, int>;

TEST(TimerServiceFork, TheTimersGoOnInTheChildWithItsFirstSet) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  std::atomic<int> fired{0};
  Service::Options options;
  options.clock = &clock;
  options.execute = [&](int, int value) { fired += value; };
  auto service = *Service::Create(std::move(options));
  ASSERT_TRUE(service->Set(1, 100, absl::Seconds(5)).ok());
  EXPECT_TRUE(HoldsInChild([&] {
    if (!service->Set(2, 10, absl::Seconds(60)).ok()) return false;
    clock.RunFor(absl::Seconds(5));
    if (fired != 100) return false;
    service = nullptr;
    return true;
  }));
  EXPECT_EQ(fired, 0);
  clock.RunFor(absl::Seconds(60));
  EXPECT_EQ(fired, 100);
}

TEST(TimerServiceFork, TasksThatOnlyTheParentHasAreStartedAnewInTheChild) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  std::atomic<int> fired{0};
  std::vector<std::function<void()>> tasks;
  Service::Options options;
  options.clock = &clock;
  options.execute = [&](int, int value) { fired += value; };
  options.executor = [&](std::function<void()> task) {
    tasks.push_back(std::move(task));
  };
  auto service = *Service::Create(std::move(options));
  ASSERT_TRUE(service->Set(1, 100, absl::ZeroDuration()).ok());
  clock.WaitUntilAsleep();
  ASSERT_EQ(tasks.size(), 1);
  EXPECT_TRUE(HoldsInChild([&] {
    tasks.clear();  // The threads that were to run them are not there.
    if (!service->Set(2, 10, absl::ZeroDuration()).ok()) return false;
    clock.WaitUntilAsleep();
    for (const std::function<void()>& task : tasks) task();
    return fired == 110;
  }));
}

TEST(TimerServiceFork, TheChildDoesNotWaitForACallbackThatOnlyTheParentHas) {
  SimulatedClock clock;
  Notification started, forked;
  Service::Options options;
  options.clock = &clock;
  options.execute = [&](int, int) {
    started.Notify();
    forked.Wait();
  };
  auto service = *Service::Create(std::move(options));
  ASSERT_TRUE(service->Set(1, 1, absl::ZeroDuration()).ok());
  started.Wait();
  EXPECT_TRUE(HoldsInChild([&] {
    service = nullptr;
    return true;
  }));
  forked.Notify();
  service->Stop();
}

TEST(TimerServiceFork, ACallbackMayForkAndTheChildStop) {
  SimulatedClock clock;
  std::atomic<bool> held{false};
  Service* service = nullptr;
  Service::Options options;
  options.clock = &clock;
  options.execute = [&](int, int) {
    held = HoldsInChild([&] {
      service->Stop();
      return !service->Set(2, 2, absl::Seconds(1)).ok();
    });
  };
  auto owner = *Service::Create(std::move(options));
  service = owner.get();
  ASSERT_TRUE(service->Set(1, 1, absl::ZeroDuration()).ok());
  clock.WaitUntilAsleep();
  EXPECT_TRUE(held);
}

// The callback that forked ends in the child, too, and is counted there once.
TEST(TimerServiceFork, StopInTheChildWaitsForTheCallbacksOfTheChild) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  std::atomic<bool> ended{false};
  pid_t child = -1;
  Notification started;
  std::vector<std::function<void()>> tasks;
  Service* service = nullptr;
  Service::Options options;
  options.clock = &clock;
  options.execute = [&](int key, int) {
    if (key == 1) {
      child = fork();
      if (child == 0) EndInAMinute();
      return;
    }
    started.Notify();
    while (!absl::IsFailedPrecondition(service->Remove(3))) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    ended = true;
  };
  options.executor = [&](std::function<void()> task) {
    tasks.push_back(std::move(task));
  };
  auto owner = *Service::Create(std::move(options));
  service = owner.get();
  const auto start = [&](int key) {
    EXPECT_TRUE(service->Set(key, 0, absl::ZeroDuration()).ok());
    clock.WaitUntilAsleep();
    EXPECT_FALSE(tasks.empty());
    return std::exchange(tasks, {}).at(0);
  };
  start(1)();
  if (child == 0) {
    std::thread executor(start(2));
    started.Wait();
    service->Stop();
    const bool holds = ended;
    executor.join();
    _exit(holds ? 0 : 1);
  }
  EXPECT_TRUE(testing::EndedWell(child));
}

}  // namespace
}  // namespace wheelcache
