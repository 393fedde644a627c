// The reaper, and the clock of its tests, in the child of a fork(): the thread
// of the parent is gone, and nothing that it held or did may be waited for.

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/recording_client.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using testing::EndedWell;
using testing::EndInAMinute;
using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::kOthersMayAllocate;
using testing::Notification;
using testing::Others;
using testing::RecordingClient;

constexpr int64_t kNever = Clock::kNever;

using Calls = std::vector<int64_t>;

TEST(SimulatedClockFork, GoesOnInTheChild) {
  SimulatedClock clock;
  Reaper reaper(clock);
  RecordingClient client;
  ASSERT_TRUE(reaper.Register(&client).ok());
  EXPECT_TRUE(HoldsInChild([&] {
    clock.RunFor(absl::Seconds(5));  // Waits for no thread of the parent.
    return clock.Now() == absl::Seconds(5);
  }));
  EXPECT_EQ(clock.Now(), absl::ZeroDuration());
  reaper.Unregister(&client);
}

TEST(ReaperFork, TheChildGetsAThreadAtTheFirstWakeUp) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  Reaper reaper(clock);
  RecordingClient client([](int64_t now) { return now < 100 ? 100 : kNever; });
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 50);
  EXPECT_TRUE(HoldsInChild([&] {
    clock.RunFor(absl::Nanoseconds(70));
    if (!client.calls().empty()) return false;  // No thread is there.
    reaper.WakeAt(&client, 1'000'000);          // Later than what was planned.
    clock.RunFor(absl::Nanoseconds(100));
    return client.calls() == Calls{70, 100};
  }));
  clock.RunFor(absl::Nanoseconds(100));
  EXPECT_EQ(client.calls(), (Calls{50, 100}));
  reaper.Unregister(&client);
}

TEST(ReaperFork, TheChildGetsAThreadAtTheFirstRegister) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  Reaper reaper(clock);
  RecordingClient client;
  RecordingClient another;
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 50);
  EXPECT_TRUE(HoldsInChild([&] {
    clock.RunFor(absl::Nanoseconds(70));
    if (!reaper.Register(&another).ok()) return false;
    clock.WaitUntilAsleep();
    return client.calls() == Calls{70};
  }));
  reaper.Unregister(&client);
}

TEST(ReaperFork, TheSharedReaperWorksInTheChild) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  RecordingClient client;
  ASSERT_TRUE(Reaper::Shared().Register(&client).ok());
  EXPECT_TRUE(HoldsInChild([&] {
    Reaper::Shared().WakeAt(&client, 0);
    while (client.calls().empty()) std::this_thread::yield();
    Reaper::Shared().Unregister(&client);
    return true;
  }));
  Reaper::Shared().Unregister(&client);
}

TEST(ReaperFork, TheChildDoesNotWaitForACallThatOnlyTheParentHas) {
  SimulatedClock clock;
  Notification started, forked;
  RecordingClient client([&](int64_t) {
    started.Notify();
    forked.Wait();
    return kNever;
  });
  Reaper reaper(clock);
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 0);
  started.Wait();
  EXPECT_TRUE(HoldsInChild([&] {
    reaper.Unregister(&client);
    return true;
  }));
  forked.Notify();
  reaper.Unregister(&client);
}

TEST(ReaperFork, AThreadThatWaitsInTheParentDoesNotStopTheChild) {
  SimulatedClock clock;
  Notification started, go_on;
  RecordingClient client([&](int64_t) {
    started.Notify();
    go_on.Wait();
    return kNever;
  });
  auto reaper = std::make_unique<Reaper>(clock);
  ASSERT_TRUE(reaper->Register(&client).ok());
  reaper->WakeAt(&client, 0);
  started.Wait();
  std::atomic<bool> unregistering{false};
  std::thread waiter([&] {
    unregistering = true;
    reaper->Unregister(&client);
  });
  while (!unregistering) std::this_thread::yield();
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_TRUE(HoldsInChild([&] {
    reaper = nullptr;
    return true;
  }));
  go_on.Notify();
  waiter.join();
}

TEST(ReaperFork, TheChildMayDestroyTheReaper) {
  SimulatedClock clock;
  auto reaper = std::make_unique<Reaper>(clock);
  auto real = std::make_unique<Reaper>(Clock::Monotonic());
  RecordingClient client, another;
  ASSERT_TRUE(reaper->Register(&client).ok());
  ASSERT_TRUE(real->Register(&another).ok());
  clock.WaitUntilAsleep();
  EXPECT_TRUE(HoldsInChild([&] {
    reaper = nullptr;
    real = nullptr;
    return true;
  }));
  reaper->Unregister(&client);
  real->Unregister(&another);
}

TEST(ReaperFork, ACallMayFork) {
  SimulatedClock clock;
  Reaper reaper(clock);
  std::atomic<bool> held{false};
  RecordingClient client([&](int64_t) {
    held = HoldsInChild([&] {
      reaper.Unregister(&client);
      return true;
    });
    return kNever;
  });
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 0);
  clock.WaitUntilAsleep();
  EXPECT_TRUE(held);
  reaper.Unregister(&client);
}

TEST(ReaperFork, InTheChildOfACallTheThreadThatForkedGoesOn) {
  int calls_in_child = 0;
  std::atomic<bool> forked{false};
  std::atomic<bool> held{false};
  RecordingClient client([&](int64_t now) {
    if (calls_in_child > 0) {
      if (++calls_in_child == 3) _exit(0);
      return now + 1'000'000;  // Long enough for a sleep.
    }
    const pid_t child = fork();
    if (child == 0) {
      EndInAMinute();
      calls_in_child = 1;
      return now;
    }
    forked = true;
    held = EndedWell(child);
    return kNever;
  });
  Reaper reaper(Clock::Monotonic());
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 0);
  // Without a lock of the client's, which the child would find taken.
  while (!forked) std::this_thread::yield();
  reaper.Unregister(&client);  // Waits for the call.
  EXPECT_TRUE(held);
}

bool no_threads_left = false;

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                 void* (*main)(void*), void* argument) {
  if (no_threads_left) return EAGAIN;
  return pthread_create(thread, attributes, main, argument);
}

TEST(ReaperFork, AChildWithoutThreadsGoesOnWithoutOne) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  SimulatedClock clock;
  Reaper reaper(clock, &CreateThread);
  RecordingClient client;
  ASSERT_TRUE(reaper.Register(&client).ok());
  EXPECT_TRUE(HoldsInChild([&] {
    no_threads_left = true;
    reaper.WakeAt(&client, 10);
    clock.RunFor(absl::Nanoseconds(100));
    if (!client.calls().empty()) return false;
    no_threads_left = false;
    reaper.WakeAt(&client, 5);  // Earlier, so it tries again.
    clock.WaitUntilAsleep();
    return client.calls() == Calls{100};
  }));
  reaper.Unregister(&client);
}

// Takes no lock in RunDue, as that would not be whole in the child.
class CountingClient : public Reaper::Client {
 public:
  int64_t RunDue(int64_t now) override {
    ++calls;
    return now + 1'000;
  }

  std::atomic<int> calls{0};
};

// Forks again and again while other threads are inside every method: whatever
// lock they hold at that moment, the child must not wait for it.
TEST(ReaperFork, NoLockOfTheParentStopsTheChild) {
  if (!kChildMayStartThreads || !kOthersMayAllocate) GTEST_SKIP();
  Reaper reaper(Clock::Monotonic());
  CountingClient steady;
  ASSERT_TRUE(reaper.Register(&steady).ok());
  reaper.WakeAt(&steady, 0);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      // Not on this stack, which the child does not have.
      const auto client = std::make_unique<CountingClient>();
      EXPECT_TRUE(reaper.Register(client.get()).ok());
      reaper.WakeAt(client.get(),
                    Clock::Monotonic().NowNanos() + 1'000'000'000);
      reaper.WakeAt(client.get(), Clock::Monotonic().NowNanos());
      reaper.Unregister(client.get());
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(HoldsInChild(
        [&] {
          const int before = steady.calls;
          CountingClient client;
          if (!reaper.Register(&client).ok()) return false;
          reaper.WakeAt(&client, 0);
          while (client.calls == 0) std::this_thread::yield();
          while (steady.calls == before) std::this_thread::yield();
          reaper.Unregister(&client);
          return true;
        },
        Others::kRun));
  }
  stop = true;
  busy.join();
  reaper.Unregister(&steady);
}

}  // namespace
}  // namespace wheelcache
