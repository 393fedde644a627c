// The reaper: when it calls its clients, each of its races in a forced order
// and all of them at random for ThreadSanitizer, the child of a fork(), and the
// end of the program.

#include "wheelcache/wheel/reaper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
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
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"
#include "wheelcache/wheel/timer_service.h"

extern "C" {
// The names that the linker gives to what --wrap replaces.
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*main)(void*), void* argument);
}

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HoldsInChild;
using ::testing::IsEmpty;
using testing::kChildMayStartThreads;
using testing::Notification;

constexpr int64_t kNever = Clock::kNever;

using Calls = std::vector<int64_t>;

bool no_threads_left = false;

// A client that notes when it was called, and does what it is told.
class RecordingClient : public Reaper::Client {
 public:
  // What RunDue does and returns, given its own argument.
  using Work = std::function<int64_t(int64_t now_nanos)>;

  RecordingClient() : RecordingClient([](int64_t) { return kNever; }) {}
  explicit RecordingClient(Work work) : work_(std::move(work)) {}

  int64_t RunDue(int64_t now_nanos) override {
    {
      MutexLock lock(&mu_);
      calls_.push_back(now_nanos);
    }
    // A copy: the work may destroy this client.
    const Work work = work_;
    return work(now_nanos);
  }

  Calls calls() const {
    MutexLock lock(&mu_);
    return calls_;
  }

 private:
  const Work work_;
  mutable Mutex mu_;
  Calls calls_ ABSL_GUARDED_BY(mu_);
};

// One that is registered for as long as it lives.
class Registered : public RecordingClient {
 public:
  template <typename... Work>
  explicit Registered(Reaper& reaper, Work&&... work)
      : RecordingClient(std::forward<Work>(work)...), reaper_(reaper) {
    EXPECT_TRUE(reaper_.Register(this).ok());
  }
  ~Registered() override { reaper_.Unregister(this); }

  void WakeAt(int64_t nanos) { reaper_.WakeAt(this, nanos); }

 private:
  Reaper& reaper_;
};

class ReaperTest : public ::testing::Test {
 protected:
  void RunFor(int64_t nanos) { clock_.RunFor(absl::Nanoseconds(nanos)); }

  SimulatedClock clock_;
  Reaper reaper_{clock_};
};

using ReaperRaceTest = ReaperTest;
using ReaperFork = ReaperTest;

TEST_F(ReaperTest, CallsAClientOnceAtTheEarliestTimeItAskedFor) {
  Registered client(reaper_);
  for (const int64_t nanos : {300, 100, 200}) client.WakeAt(nanos);
  RunFor(99);
  EXPECT_THAT(client.calls(), IsEmpty());
  RunFor(1);
  EXPECT_THAT(client.calls(), ElementsAre(100));
  RunFor(1'000);
  EXPECT_THAT(client.calls(), ElementsAre(100));
}

TEST_F(ReaperTest, CallsAClientAgainWhenItSaysSo) {
  Registered client(reaper_,
                    [](int64_t now) { return now < 40 ? now + 10 : kNever; });
  client.WakeAt(15);
  RunFor(1'000);
  EXPECT_THAT(client.calls(), ElementsAre(15, 25, 35, 45));
}

TEST_F(ReaperTest, WhatWasDueDuringAJumpIsCalledAfterIt) {
  Registered client(reaper_);
  client.WakeAt(100);
  clock_.Advance(absl::Nanoseconds(5'000));
  clock_.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(5'000));
}

TEST_F(ReaperTest, AWakeUpInThePastIsDueNow) {
  Registered client(reaper_);
  RunFor(50);
  client.WakeAt(std::numeric_limits<int64_t>::min());
  clock_.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(50));
}

// Promise: Memory comes back by itself
TEST_F(ReaperTest, AnIdleMinuteHasNoWakeUps) {
  const Registered idle(reaper_);
  Registered later(reaper_);
  later.WakeAt(absl::ToInt64Nanoseconds(absl::Seconds(61)));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Minutes(1));
  EXPECT_EQ(clock_.wake_ups(), before);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
}

TEST_F(ReaperTest, AWakeUpThatIsNotEarlierDoesNotDisturbTheThread) {
  Registered a(reaper_), b(reaper_);
  a.WakeAt(100);
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  a.WakeAt(100);
  a.WakeAt(101);
  b.WakeAt(102);
  clock_.WaitUntilAsleep();
  EXPECT_EQ(clock_.wake_ups(), before);
}

TEST_F(ReaperTest, ClientsWithMoreToDoTakeTurns) {
  std::string turns;  // Changed by the reaper's thread.
  const auto take_turn = [&](char name) {
    return [&turns, name](int64_t now) {
      turns += name;
      return turns.size() < 30 ? now : kNever;
    };
  };
  Registered a(reaper_, take_turn('a')), b(reaper_, take_turn('b')),
      c(reaper_, take_turn('c'));
  c.WakeAt(10);
  a.WakeAt(11);
  b.WakeAt(12);
  clock_.Advance(absl::Nanoseconds(100));
  clock_.WaitUntilAsleep();
  EXPECT_EQ(turns.substr(0, 30), "cabcabcabcabcabcabcabcabcabcab");
}

TEST_F(ReaperTest, AClientThatIsAlwaysOverdueDoesNotStarveTheOthers) {
  int greedy_calls = 0;  // Changed by the reaper's thread.
  Registered greedy(reaper_, [&](int64_t) {
    return ++greedy_calls < 1'000 ? std::numeric_limits<int64_t>::min()
                                  : kNever;
  });
  Registered witness(reaper_, [&](int64_t) {
    EXPECT_LE(greedy_calls, 1);
    return kNever;
  });
  greedy.WakeAt(10);
  witness.WakeAt(99);
  clock_.Advance(absl::Nanoseconds(100));
  clock_.WaitUntilAsleep();
  EXPECT_THAT(witness.calls(), ElementsAre(100));
  EXPECT_EQ(greedy_calls, 1'000);
}

TEST_F(ReaperTest, AClientThatIsNotRegisteredMayBeNamedAndIsNotCalled) {
  RecordingClient client;
  reaper_.WakeAt(&client, 10);
  reaper_.Unregister(&client);
  RunFor(100);
  ASSERT_TRUE(reaper_.Register(&client).ok());
  reaper_.WakeAt(&client, 200);
  reaper_.Unregister(&client);
  reaper_.WakeAt(&client, 200);
  reaper_.Unregister(&client);
  RunFor(1'000);
  EXPECT_THAT(client.calls(), IsEmpty());
}

TEST_F(ReaperTest, ItsThreadTakesNoSignals) {
  sigset_t blocked;
  sigemptyset(&blocked);
  Registered client(reaper_, [&](int64_t) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return kNever;
  });
  client.WakeAt(0);
  clock_.WaitUntilAsleep();
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  EXPECT_EQ(sigismember(&blocked, SIGCHLD), 1);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);  // Ours is as it was.
}

#ifdef ABSL_HAVE_EXCEPTIONS
TEST_F(ReaperTest, AnExceptionIsContainedAndTheClientCalledAgainLater) {
  Registered thrower(reaper_, [](int64_t now) -> int64_t {
    if (now < 1'000'000'000) throw std::runtime_error("no luck");
    return kNever;
  });
  Registered other(reaper_);
  const int64_t first = 950'000'000;
  thrower.WakeAt(first);
  other.WakeAt(first + 1);
  clock_.RunFor(absl::Seconds(10));
  const int64_t pause = absl::ToInt64Nanoseconds(Reaper::kPauseAfterException);
  EXPECT_THAT(thrower.calls(), ElementsAre(first, first + pause));
  EXPECT_THAT(other.calls(), ElementsAre(first + 1));
  EXPECT_EQ(reaper_.exceptions(), 1);
}
#endif

TEST_F(ReaperTest, RegisterTellsThatNoThreadCanBeCreated) {
  RecordingClient client;
  no_threads_left = true;
  const absl::Status status = reaper_.Register(&client);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("thread"));
  reaper_.WakeAt(&client, 0);
  clock_.RunFor(absl::Seconds(1));  // No thread is left that it waits for.
  EXPECT_THAT(client.calls(), IsEmpty());
  TimerService<int, int>::Options options;
  options.reaper = &reaper_;
  options.execute = [](int, int) {};
  const auto service = TimerService<int, int>::Create(options);
  EXPECT_TRUE(absl::IsUnavailable(service.status())) << service.status();

  no_threads_left = false;
  ASSERT_TRUE(reaper_.Register(&client).ok());
  reaper_.WakeAt(&client, 0);
  clock_.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(1'000'000'000));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, StartsNoThreadBeforeTheFirstClient) {
  no_threads_left = true;
  { const Reaper reaper(clock_); }
  no_threads_left = false;
}

TEST(Reaper, SharedIsOneAndRunsOnTheRealClock) {
  EXPECT_EQ(&Reaper::Shared(), &Reaper::Shared());
  EXPECT_EQ(&Reaper::Shared().clock(), &Clock::Monotonic());
}

TEST_F(ReaperTest, ForgetsTheClientsThatAreStillRegistered) {
  RecordingClient client;
  {
    Reaper reaper(clock_);
    ASSERT_TRUE(reaper.Register(&client).ok());
    reaper.WakeAt(&client, 10);
  }
  clock_.Advance(absl::Nanoseconds(100));
  EXPECT_THAT(client.calls(), IsEmpty());
  ASSERT_TRUE(reaper_.Register(&client).ok());
  reaper_.Unregister(&client);
}

TEST_F(ReaperRaceTest, UnregisterWaitsForTheCallThatRuns) {
  Notification started;
  std::atomic<bool> unregistering{false};
  std::atomic<bool> ended{false};
  {
    Registered client(reaper_, [&](int64_t) {
      started.Notify();
      while (!unregistering) std::this_thread::yield();
      for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
      ended = true;
      return kNever;
    });
    client.WakeAt(0);
    started.Wait();
    unregistering = true;
  }
  EXPECT_TRUE(ended);
}

TEST_F(ReaperRaceTest, UnregisterDoesNotWaitForTheCallOfAnotherClient) {
  Notification started;
  Notification unregistered;
  Registered slow(reaper_, [&](int64_t) {
    started.Notify();
    unregistered.Wait();
    return kNever;
  });
  slow.WakeAt(0);
  started.Wait();
  {
    Registered other(reaper_);
    other.WakeAt(0);
    reaper_.Unregister(&other);
    EXPECT_THAT(other.calls(), IsEmpty());
  }
  unregistered.Notify();
}

TEST_F(ReaperRaceTest, AWakeUpDuringACallIsNotLost) {
  Notification started;
  Notification woken;
  Registered client(reaper_, [&](int64_t) {
    started.Notify();
    woken.Wait();
    return kNever;  // Decided before the wake-up, told after it.
  });
  client.WakeAt(10);
  clock_.Advance(absl::Nanoseconds(10));
  started.Wait();
  client.WakeAt(25);
  woken.Notify();
  RunFor(100);
  EXPECT_THAT(client.calls(), ElementsAre(10, 25));
}

TEST_F(ReaperRaceTest, AWakeUpFromTheCallItselfIsNotLost) {
  Registered client(reaper_, [&](int64_t now) {
    if (now < 30) client.WakeAt(now + 10);
    return kNever;
  });
  client.WakeAt(10);
  RunFor(100);
  EXPECT_THAT(client.calls(), ElementsAre(10, 20, 30));
}

TEST_F(ReaperRaceTest, ACallMayUnregisterAndDestroyItsOwnClient) {
  std::atomic<bool> done{false};
  Registered* client = nullptr;
  client = new Registered(reaper_, [&](int64_t now) {
    delete client;
    done = true;
    return now + 1;  // Which nobody is left to want.
  });
  client->WakeAt(10);
  RunFor(100);
  EXPECT_TRUE(done);
}

TEST_F(ReaperRaceTest, ACallMayRegisterItsOwnClientAnew) {
  Registered client(reaper_, [&](int64_t now) {
    reaper_.Unregister(&client);
    EXPECT_TRUE(reaper_.Register(&client).ok());
    if (now == 10) client.WakeAt(30);
    return now + 1;  // Of the time before it left.
  });
  client.WakeAt(10);
  RunFor(100);
  EXPECT_THAT(client.calls(), ElementsAre(10, 30));
}

TEST_F(ReaperRaceTest, ACallMayDestroyAndRegisterOthers) {
  auto doomed = std::make_unique<Registered>(reaper_);
  std::optional<Registered> newcomer;
  Registered client(reaper_, [&](int64_t now) {
    doomed = nullptr;
    newcomer.emplace(reaper_);
    newcomer->WakeAt(now + 10);
    return kNever;
  });
  doomed->WakeAt(10);
  client.WakeAt(5);
  RunFor(100);
  EXPECT_THAT(newcomer->calls(), ElementsAre(15));
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
  {
    Reaper reaper(clock_);
    ASSERT_TRUE(reaper.Register(&client).ok());
    reaper.WakeAt(&client, 0);
    started.Wait();
  }
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
    due_.erase(std::remove_if(due_.begin(), due_.end(),
                              [now](int64_t due) { return due <= now; }),
               due_.end());
    return due_.empty() ? kNever : *std::min_element(due_.begin(), due_.end());
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
  RunFor(100);
  EXPECT_EQ(shared.size(), 0);
}

// In the child of a fork() the thread of the parent is gone, and nothing that
// it held or did may be waited for.
TEST_F(ReaperFork, TheClockOfTestsGoesOnInTheChild) {
  const Registered client(reaper_);
  EXPECT_TRUE(HoldsInChild([&] {
    clock_.RunFor(absl::Seconds(5));  // Waits for no thread of the parent.
    return clock_.Now() == absl::Seconds(5);
  }));
  EXPECT_EQ(clock_.Now(), absl::ZeroDuration());
}

TEST_F(ReaperFork, TheChildGetsAThreadAtTheFirstWakeUp) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  Registered client(reaper_,
                    [](int64_t now) { return now < 100 ? 100 : kNever; });
  client.WakeAt(50);
  EXPECT_TRUE(HoldsInChild([&] {
    RunFor(70);
    if (!client.calls().empty()) return false;  // No thread is there.
    client.WakeAt(1'000'000);                   // Later than what was planned.
    RunFor(100);
    return client.calls() == Calls{70, 100};
  }));
  RunFor(100);
  EXPECT_EQ(client.calls(), (Calls{50, 100}));
}

TEST_F(ReaperFork, AForkDoesNotWaitForEverForACall) {
  Notification started, go_on;
  auto reaper = std::make_unique<Reaper>(clock_);
  RecordingClient client([&](int64_t) {
    started.Notify();
    go_on.Wait();
    return kNever;
  });
  ASSERT_TRUE(reaper->Register(&client).ok());
  reaper->WakeAt(&client, 0);
  started.Wait();
  EXPECT_TRUE(HoldsInChild([&] {
    reaper->Unregister(&client);
    reaper = nullptr;
    return true;
  }));
  go_on.Notify();
  reaper->Unregister(&client);
}

TEST_F(ReaperFork, TheChildMayDestroyTheReaper) {
  auto reaper = std::make_unique<Reaper>(clock_);
  auto real = std::make_unique<Reaper>(Clock::Monotonic());
  const Registered client(*reaper), another(*real);
  clock_.WaitUntilAsleep();
  EXPECT_TRUE(HoldsInChild([&] {
    reaper = nullptr;
    real = nullptr;
    return true;
  }));
}

TEST_F(ReaperFork, InTheChildOfACallTheThreadThatForkedGoesOn) {
  int calls_in_child = 0;
  std::atomic<bool> forked{false};
  std::atomic<bool> held{false};
  Reaper reaper(Clock::Monotonic());
  {
    Registered client(reaper, [&](int64_t now) {
      if (calls_in_child > 0) {
        if (++calls_in_child == 3) _exit(0);
        return now + 1'000'000;  // Long enough for a sleep.
      }
      const pid_t child = fork();
      if (child == 0) {
        testing::EndInAMinute();
        calls_in_child = 1;
        return now;
      }
      forked = true;
      held = testing::EndedWell(child);
      return kNever;
    });
    client.WakeAt(0);
    // Without a lock of the client's, which the child would find taken.
    while (!forked) std::this_thread::yield();
  }  // Waits for the call.
  EXPECT_TRUE(held);
}

TEST_F(ReaperFork, AChildWithoutThreadsGoesOnWithoutOne) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  Registered client(reaper_);
  EXPECT_TRUE(HoldsInChild([&] {
    no_threads_left = true;
    client.WakeAt(10);
    RunFor(100);
    if (!client.calls().empty()) return false;
    no_threads_left = false;
    client.WakeAt(5);  // Earlier, so it tries again.
    clock_.WaitUntilAsleep();
    return client.calls() == Calls{100};
  }));
}

class CountingClient : public Reaper::Client {
 public:
  int64_t RunDue(int64_t now) override {
    MutexLock lock(&mu_);
    ++calls_;
    return now + 1'000;
  }

  int calls() const {
    MutexLock lock(&mu_);
    return calls_;
  }

 private:
  mutable Mutex mu_;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
};

// It would wait for a second otherwise.
TEST_F(ReaperFork, AForkWakesTheThread) {
  const Registered client(reaper_);
  clock_.WaitUntilAsleep();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(HoldsInChild([] { return true; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Forks again and again while the thread works: the child finds no lock taken.
TEST_F(ReaperFork, AForkComesBetweenTheCalls) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  Reaper reaper(Clock::Monotonic());
  CountingClient steady;
  ASSERT_TRUE(reaper.Register(&steady).ok());
  reaper.WakeAt(&steady, 0);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(HoldsInChild(
        [&] {
          const int before = steady.calls();
          CountingClient client;
          if (!reaper.Register(&client).ok()) return false;
          reaper.WakeAt(&client, 0);
          while (client.calls() == 0) std::this_thread::yield();
          while (steady.calls() == before) std::this_thread::yield();
          reaper.Unregister(&client);
          return true;
        },
        testing::Others::kRun));
  }
  reaper.Unregister(&steady);
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

extern "C" int __wrap_pthread_create(pthread_t* thread,
                                     const pthread_attr_t* attributes,
                                     void* (*main)(void*), void* argument) {
  if (wheelcache::no_threads_left) return EAGAIN;
  return __real_pthread_create(thread, attributes, main, argument);
}
