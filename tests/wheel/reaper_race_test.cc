// Each race of Reaper in a forced order, and all of them at random for
// ThreadSanitizer.

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/recording_client.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Notification;
using testing::RecordingClient;

constexpr int64_t kNever = Clock::kNever;

class ReaperRaceTest : public ::testing::Test {
 protected:
  void Start(RecordingClient& client, int64_t wake_at) {
    ASSERT_TRUE(reaper_.Register(&client).ok());
    reaper_.WakeAt(&client, wake_at);
  }

  SimulatedClock clock_;
  Reaper reaper_{clock_};
};

TEST_F(ReaperRaceTest, UnregisterWaitsForTheCallThatRuns) {
  Notification started;
  std::atomic<bool> unregistering{false};
  std::atomic<bool> ended{false};
  RecordingClient client([&](int64_t) {
    started.Notify();
    while (!unregistering) std::this_thread::yield();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    ended = true;
    return kNever;
  });
  Start(client, 0);
  started.Wait();
  unregistering = true;
  reaper_.Unregister(&client);
  EXPECT_TRUE(ended);
}

TEST_F(ReaperRaceTest, UnregisterDoesNotWaitForTheCallOfAnotherClient) {
  Notification started;
  Notification unregistered;
  RecordingClient slow([&](int64_t) {
    started.Notify();
    unregistered.Wait();
    return kNever;
  });
  RecordingClient other;
  Start(slow, 0);
  started.Wait();
  Start(other, 0);
  reaper_.Unregister(&other);
  unregistered.Notify();
  reaper_.Unregister(&slow);
  EXPECT_TRUE(other.calls().empty());
}

TEST_F(ReaperRaceTest, AWakeUpDuringACallIsNotLost) {
  Notification started;
  Notification woken;
  RecordingClient client([&](int64_t) {
    started.Notify();
    woken.Wait();
    return kNever;  // Decided before the wake-up, told after it.
  });
  Start(client, 10);
  clock_.Advance(absl::Nanoseconds(10));
  started.Wait();
  reaper_.WakeAt(&client, 25);
  woken.Notify();
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_THAT(client.calls(), ElementsAre(10, 25));
  reaper_.Unregister(&client);
}

TEST_F(ReaperRaceTest, AWakeUpFromTheCallItselfIsNotLost) {
  RecordingClient client([&](int64_t now) {
    if (now < 30) reaper_.WakeAt(&client, now + 10);
    return kNever;
  });
  Start(client, 10);
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_THAT(client.calls(), ElementsAre(10, 20, 30));
  reaper_.Unregister(&client);
}

TEST_F(ReaperRaceTest, ACallMayUnregisterAndDestroyItsOwnClient) {
  RecordingClient* self = nullptr;
  std::atomic<bool> done{false};
  auto client = std::make_unique<RecordingClient>([&](int64_t now) {
    reaper_.Unregister(self);
    delete self;
    done = true;
    return now + 1;  // Which nobody is left to want.
  });
  self = client.release();
  Start(*self, 10);
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_TRUE(done);
}

TEST_F(ReaperRaceTest, ACallMayRegisterItsOwnClientAnew) {
  RecordingClient client([&](int64_t now) {
    reaper_.Unregister(&client);
    EXPECT_TRUE(reaper_.Register(&client).ok());
    if (now == 10) reaper_.WakeAt(&client, 30);
    return now + 1;  // Of the time before it left.
  });
  Start(client, 10);
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_THAT(client.calls(), ElementsAre(10, 30));
  reaper_.Unregister(&client);
}

TEST_F(ReaperRaceTest, ACallMayDestroyAndRegisterOthers) {
  auto doomed = std::make_unique<RecordingClient>();
  RecordingClient newcomer;
  RecordingClient client([&](int64_t now) {
    reaper_.Unregister(doomed.get());
    doomed = nullptr;
    EXPECT_TRUE(reaper_.Register(&newcomer).ok());
    reaper_.WakeAt(&newcomer, now + 10);
    return kNever;
  });
  Start(*doomed, 10);
  Start(client, 5);
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_THAT(newcomer.calls(), ElementsAre(15));
  reaper_.Unregister(&client);
  reaper_.Unregister(&newcomer);
}

TEST_F(ReaperRaceTest, DestructionWaitsForTheCallThatRuns) {
  Notification started;
  std::atomic<bool> ended{false};
  RecordingClient client([&](int64_t) {
    started.Notify();
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    ended = true;
    return kNever;
  });
  auto reaper = std::make_unique<Reaper>(clock_);
  ASSERT_TRUE(reaper->Register(&client).ok());
  reaper->WakeAt(&client, 0);
  started.Wait();
  reaper = nullptr;
  EXPECT_TRUE(ended);
}

// Work that is guarded by a lock of the client, as a cache has it: nothing that
// was added may stay behind when all threads are done.
class Inbox : public Reaper::Client {
 public:
  explicit Inbox(Reaper& reaper) : reaper_(reaper) {
    EXPECT_TRUE(reaper_.Register(this).ok());
  }
  ~Inbox() override { reaper_.Unregister(this); }

  void Add(int64_t due) {
    MutexLock lock(&mu_);
    due_.push_back(due);
    reaper_.WakeAt(this, due);
  }

  int64_t RunDue(int64_t now) override {
    MutexLock lock(&mu_);
    int64_t next = kNever;
    std::vector<int64_t> later;
    for (const int64_t due : due_) {
      if (due <= now) continue;
      later.push_back(due);
      next = std::min(next, due);
    }
    due_ = std::move(later);
    return next;
  }

  size_t size() {
    MutexLock lock(&mu_);
    return due_.size();
  }

 private:
  Reaper& reaper_;
  Mutex mu_;
  std::vector<int64_t> due_ ABSL_GUARDED_BY(mu_);
};

TEST_F(ReaperRaceTest, NothingStaysBehindWhenManyThreadsAddWork) {
  Inbox shared(reaper_);
  std::atomic<bool> stop{false};
  std::thread time([&] {
    while (!stop) clock_.Advance(absl::Nanoseconds(1));
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        Inbox own(reaper_);
        for (int k = 0; k < 10; ++k) {
          own.Add(clock_.NowNanos() + k);
          shared.Add(clock_.NowNanos() + (i * t + k) % 7);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  time.join();
  clock_.RunFor(absl::Nanoseconds(100));
  EXPECT_EQ(shared.size(), 0);
}

// At exit, when all that was built later is gone, is still served.
struct AtExit {
  RecordingClient client{[](int64_t now) { return now + 1'000; }};
  ~AtExit() {
    const size_t before = client.calls().size();
    while (client.calls().size() == before) std::this_thread::yield();
    Reaper::Shared().Unregister(&client);
  }
};

TEST(ReaperExitDeathTest, AClientWithStaticStorageMayUnregisterAtExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        alarm(60);
        static AtExit at_exit;
        if (!Reaper::Shared().Register(&at_exit.client).ok()) exit(1);
        Reaper::Shared().WakeAt(&at_exit.client, 0);
        while (at_exit.client.calls().size() < 3) std::this_thread::yield();
        exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(ReaperExitDeathTest, ACallMayExitAProgramWhoseReaperIsStatic) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static Reaper reaper(Clock::Monotonic());
        static RecordingClient* client =
            new RecordingClient([](int64_t) -> int64_t { exit(7); });
        if (!reaper.Register(client).ok()) exit(1);
        reaper.WakeAt(client, 0);
        Notification().Wait();  // For ever.
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace wheelcache
