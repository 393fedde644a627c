#include "wheelcache/wheel/reaper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/testing/recording_client.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RecordingClient;

constexpr int64_t kNever = Clock::kNever;

class ReaperTest : public ::testing::Test {
 protected:
  void Register(RecordingClient& client) {
    ASSERT_TRUE(reaper_.Register(&client).ok());
  }

  void RunFor(int64_t nanos) { clock_.RunFor(absl::Nanoseconds(nanos)); }

  SimulatedClock clock_;
  Reaper reaper_{clock_};
};

TEST_F(ReaperTest, CallsAClientAtTheTimeItAskedFor) {
  RecordingClient client;
  Register(client);
  reaper_.WakeAt(&client, 100);
  RunFor(99);
  EXPECT_THAT(client.calls(), IsEmpty());
  RunFor(1);
  EXPECT_THAT(client.calls(), ElementsAre(100));
  RunFor(1'000);
  EXPECT_THAT(client.calls(), ElementsAre(100));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, TheEarliestOfManyWakeUpsCounts) {
  RecordingClient client;
  Register(client);
  for (const int64_t nanos : {300, 100, 200}) reaper_.WakeAt(&client, nanos);
  RunFor(1'000);
  EXPECT_THAT(client.calls(), ElementsAre(100));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, CallsAClientAgainWhenItSaysSo) {
  RecordingClient client(
      [](int64_t now) { return now < 40 ? now + 10 : kNever; });
  Register(client);
  reaper_.WakeAt(&client, 15);
  RunFor(1'000);
  EXPECT_THAT(client.calls(), ElementsAre(15, 25, 35, 45));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, EachClientIsCalledAtItsOwnTime) {
  RecordingClient a, b, c;
  for (RecordingClient* client : {&a, &b, &c}) Register(*client);
  reaper_.WakeAt(&a, 30);
  reaper_.WakeAt(&b, 10);
  reaper_.WakeAt(&c, 20);
  RunFor(100);
  EXPECT_THAT(a.calls(), ElementsAre(30));
  EXPECT_THAT(b.calls(), ElementsAre(10));
  EXPECT_THAT(c.calls(), ElementsAre(20));
  for (RecordingClient* client : {&a, &b, &c}) reaper_.Unregister(client);
}

TEST_F(ReaperTest, WhatWasDueDuringAJumpIsCalledAfterIt) {
  RecordingClient client;
  Register(client);
  reaper_.WakeAt(&client, 100);
  clock_.Advance(absl::Nanoseconds(5'000));
  clock_.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(5'000));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, AWakeUpInThePastIsDueNow) {
  RecordingClient client;
  Register(client);
  RunFor(50);
  reaper_.WakeAt(&client, std::numeric_limits<int64_t>::min());
  clock_.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(50));
  reaper_.Unregister(&client);
}

TEST_F(ReaperTest, AnIdleMinuteHasNoWakeUps) {
  RecordingClient idle;
  RecordingClient later;
  Register(idle);
  Register(later);
  reaper_.WakeAt(&later, absl::ToInt64Nanoseconds(absl::Seconds(61)));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Minutes(1));
  EXPECT_EQ(clock_.wake_ups(), before);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
  reaper_.Unregister(&idle);
  reaper_.Unregister(&later);
}

TEST_F(ReaperTest, AWakeUpThatIsNotEarlierDoesNotDisturbTheThread) {
  RecordingClient a;
  RecordingClient b;
  Register(a);
  Register(b);
  reaper_.WakeAt(&a, 100);
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  reaper_.WakeAt(&a, 100);
  reaper_.WakeAt(&a, 101);
  reaper_.WakeAt(&b, 102);
  clock_.WaitUntilAsleep();
  EXPECT_EQ(clock_.wake_ups(), before);
  reaper_.Unregister(&a);
  reaper_.Unregister(&b);
}

TEST_F(ReaperTest, ClientsWithMoreToDoTakeTurns) {
  std::string turns;  // Changed by the reaper's thread.
  const auto take_turn = [&](char name) {
    return [&turns, name](int64_t now) {
      turns += name;
      return turns.size() < 30 ? now : kNever;
    };
  };
  RecordingClient a(take_turn('a')), b(take_turn('b')), c(take_turn('c'));
  for (RecordingClient* client : {&a, &b, &c}) Register(*client);
  reaper_.WakeAt(&c, 10);
  reaper_.WakeAt(&a, 11);
  reaper_.WakeAt(&b, 12);
  clock_.Advance(absl::Nanoseconds(100));
  clock_.WaitUntilAsleep();
  EXPECT_EQ(turns.substr(0, 30), "cabcabcabcabcabcabcabcabcabcab");
  for (RecordingClient* client : {&a, &b, &c}) reaper_.Unregister(client);
}

TEST_F(ReaperTest, AClientThatIsAlwaysOverdueDoesNotStarveTheOthers) {
  int greedy_calls = 0;  // Changed by the reaper's thread.
  RecordingClient modest;
  RecordingClient greedy([&](int64_t) {
    return ++greedy_calls < 1'000 ? std::numeric_limits<int64_t>::min()
                                  : kNever;
  });
  RecordingClient witness([&](int64_t) {
    EXPECT_LE(greedy_calls, 1);
    return kNever;
  });
  Register(greedy);
  Register(modest);
  Register(witness);
  reaper_.WakeAt(&greedy, 10);
  reaper_.WakeAt(&witness, 99);
  clock_.Advance(absl::Nanoseconds(100));
  clock_.WaitUntilAsleep();
  EXPECT_THAT(witness.calls(), ElementsAre(100));
  EXPECT_EQ(greedy_calls, 1'000);
  for (RecordingClient* client : {&greedy, &modest, &witness}) {
    reaper_.Unregister(client);
  }
}

TEST_F(ReaperTest, AnUnregisteredClientIsNotCalled) {
  RecordingClient client;
  Register(client);
  reaper_.WakeAt(&client, 10);
  reaper_.Unregister(&client);
  RunFor(100);
  EXPECT_THAT(client.calls(), IsEmpty());
}

TEST_F(ReaperTest, AClientThatIsNotRegisteredMayBeNamed) {
  RecordingClient client;
  reaper_.WakeAt(&client, 10);
  reaper_.Unregister(&client);
  RunFor(100);
  EXPECT_THAT(client.calls(), IsEmpty());
  Register(client);
  reaper_.Unregister(&client);
  reaper_.WakeAt(&client, 200);
  reaper_.Unregister(&client);
  RunFor(1'000);
  EXPECT_THAT(client.calls(), IsEmpty());
}

TEST_F(ReaperTest, AClientMayComeBack) {
  RecordingClient client;
  for (const int64_t nanos : {10, 20}) {
    Register(client);
    reaper_.WakeAt(&client, nanos);
    RunFor(10);
    reaper_.Unregister(&client);
  }
  EXPECT_THAT(client.calls(), ElementsAre(10, 20));
}

TEST_F(ReaperTest, ItsThreadTakesNoSignals) {
  sigset_t blocked;
  sigemptyset(&blocked);
  RecordingClient client([&](int64_t) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return kNever;
  });
  Register(client);
  reaper_.WakeAt(&client, 0);
  clock_.WaitUntilAsleep();
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  EXPECT_EQ(sigismember(&blocked, SIGCHLD), 1);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);  // Ours is as it was.
  reaper_.Unregister(&client);
}

#ifdef ABSL_HAVE_EXCEPTIONS
TEST_F(ReaperTest, AnExceptionIsContainedAndTheClientCalledAgainLater) {
  RecordingClient thrower([](int64_t now) -> int64_t {
    if (now < 1'000'000'000) throw std::runtime_error("no luck");
    return kNever;
  });
  RecordingClient other;
  Register(thrower);
  Register(other);
  const int64_t first = 950'000'000;
  reaper_.WakeAt(&thrower, first);
  reaper_.WakeAt(&other, first + 1);
  clock_.RunFor(absl::Seconds(10));
  const int64_t pause = absl::ToInt64Nanoseconds(Reaper::kPauseAfterException);
  EXPECT_THAT(thrower.calls(), ElementsAre(first, first + pause));
  EXPECT_THAT(other.calls(), ElementsAre(first + 1));
  EXPECT_EQ(reaper_.exceptions(), 1);
  reaper_.Unregister(&thrower);
  reaper_.Unregister(&other);
}
#endif

bool no_threads_left = false;

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes,
                 void* (*main)(void*), void* argument) {
  if (no_threads_left) return EAGAIN;
  return pthread_create(thread, attributes, main, argument);
}

TEST(Reaper, RegisterTellsThatNoThreadCanBeCreated) {
  SimulatedClock clock;
  Reaper reaper(clock, &CreateThread);
  RecordingClient client;
  no_threads_left = true;
  const absl::Status status = reaper.Register(&client);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("thread"));
  reaper.WakeAt(&client, 0);
  clock.RunFor(absl::Seconds(1));  // No thread is left that it waits for.
  EXPECT_THAT(client.calls(), IsEmpty());

  no_threads_left = false;
  ASSERT_TRUE(reaper.Register(&client).ok());
  reaper.WakeAt(&client, 0);
  clock.WaitUntilAsleep();
  EXPECT_THAT(client.calls(), ElementsAre(1'000'000'000));
  reaper.Unregister(&client);
}

TEST(Reaper, StartsNoThreadBeforeTheFirstClient) {
  no_threads_left = true;
  SimulatedClock clock;
  { Reaper reaper(clock, &CreateThread); }
  no_threads_left = false;
}

TEST(Reaper, SharedIsOneAndRunsOnTheRealClock) {
  EXPECT_EQ(&Reaper::Shared(), &Reaper::Shared());
  EXPECT_EQ(&Reaper::Shared().clock(), &Clock::Monotonic());
}

TEST(Reaper, ForgetsTheClientsThatAreStillRegistered) {
  SimulatedClock clock;
  RecordingClient client;
  {
    Reaper reaper(clock);
    ASSERT_TRUE(reaper.Register(&client).ok());
    reaper.WakeAt(&client, 10);
  }
  clock.Advance(absl::Nanoseconds(100));
  EXPECT_THAT(client.calls(), IsEmpty());
  Reaper another(clock);
  ASSERT_TRUE(another.Register(&client).ok());
  another.Unregister(&client);
}

}  // namespace
}  // namespace wheelcache
