// Near caches to which something happens between two steps of a call, as a
// reader understands it. near_promise_test.cc has all such schedules, but for
// threads that wait for each other and for stale_if_error.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/testing/fake_server.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/tests/cache/near/near_environment.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using testing::Notification;

class NearInterleavingTest : public NearEnvironment {
 protected:
  NearInterleavingTest() {
    internal::SetInterleaving(&testing::Interrupt);
    server_.Set("key", "old");
  }
  ~NearInterleavingTest() override {
    internal::SetInterleaving(nullptr);
    EXPECT_EQ(testing::interruption.point, "") << "nothing came to this point";
    testing::interruption = {};
  }

  static void At(const std::string& point, std::function<void()> action) {
    testing::interruption = {point, std::move(action)};
  }
  // Reads "key" in a thread, which stops between the store's answer and the end
  // of its load, until go_on_. Once a test.
  std::thread LeadUntilAnswered(NearCache<std::string>& near) {
    Once(Step::kExecuted, [this] {
      answered_.Notify();
      go_on_.Wait();
    });
    std::thread leader([&near] { EXPECT_EQ(*near.Get("key"), "old"); });
    answered_.Wait();
    return leader;
  }

  Notification answered_;
  Notification go_on_;

  static constexpr bool kHasPoints =
#ifdef NDEBUG
      false;
#else
      true;
#endif
};
// Promise: A near cache is never staler than its bound
TEST_F(NearInterleavingTest, InvalidationSupersedesAFetchBetweenAnyTwoSteps) {
  for (const Step step : {Step::kSent, Step::kExecuted}) {
    server_.Set("key", "old");
    auto near = New<std::string>();
    Once(step, [&] { server_.Set("key", "new"); });
    EXPECT_TRUE(near->Get("key").ok());
    EXPECT_EQ(*near->Get("key"), "new");
    EXPECT_EQ(near->stats().superseded, 1);
  }
}

// Promise: A near cache is never staler than its bound
// The fetch that was superseded is executed after that of the load which has
// taken its place.
TEST_F(NearInterleavingTest, VersionsDoNotGoBackAfterAFetchThatIsNotKept) {
  for (const bool in_a_batch : {false, true}) {
    server_.Set("key", "old");
    auto near = New<std::string>();
    Once(Step::kSent, [&] {
      server_.Set("key", "newer");
      EXPECT_EQ(*near->Get("key"), "newer");
      store_.HoldMessages();
      server_.Set("key", "newest");
    });
    EXPECT_EQ(in_a_batch ? *near->GetMany({"key"})[0] : *near->Get("key"),
              "newest");
    EXPECT_EQ(*near->Get("key"), "newest");
    store_.ReleaseMessages();
  }
}

// The same, where the fetch had no session, and is not kept for that.
TEST_F(NearInterleavingTest, VersionsDoNotGoBackAfterAFetchWithoutASession) {
  for (const bool stale : {false, true}) {
    server_.Set("key", "old");
    options_.stale_if_error = stale;
    auto near = New<std::string>();
    store_.Disconnect();
    Once(Step::kSent, [&] {
      RunFor(absl::Seconds(1));
      EXPECT_EQ(*near->GetFresh("key"), "old");
      store_.HoldMessages();
      server_.Set("key", "new");
    });
    EXPECT_EQ(*near->Get("key"), "new") << stale;
    EXPECT_EQ(near->stats().sessions, 2);
    EXPECT_EQ(*near->Get("key"), "new") << stale;
    store_.ReleaseMessages();
  }
}

TEST_F(NearInterleavingTest, WhatAnotherCallStoresMeanwhileIsAHit) {
  if (!kHasPoints) GTEST_SKIP();
  auto near = New<std::string>();
  At("near: after the look-up", [&] { EXPECT_TRUE(near->Get("key").ok()); });
  EXPECT_EQ(*near->Get("key"), "old");
  EXPECT_EQ(fetches(), 1);
  EXPECT_EQ(near->stats().joined, 1);
  EXPECT_EQ(near->stats().reads(), 2);
}

TEST_F(NearInterleavingTest, WhatTheSessionOfTheLeaseStoresMeanwhileWillDo) {
  if (!kHasPoints) GTEST_SKIP();
  options_.stale_if_error = true;  // Keeps entries of old sessions.
  auto near = New<std::string>();
  At("near: after the look-up", [&] {
    EXPECT_EQ(*near->Get("key"), "old");
    store_.Disconnect();
    server_.Set("key", "new");  // Nobody is told.
    RunFor(absl::Seconds(1));
  });
  EXPECT_EQ(*near->Get("key"), "old");  // It began before the write.
  EXPECT_EQ(*near->Get("key"), "new");
}

TEST_F(NearInterleavingTest, WhatAnOlderSessionHasStoredIsNotTaken) {
  if (!kHasPoints) GTEST_SKIP();
  options_.stale_if_error = true;
  auto near = New<std::string>();
  EXPECT_EQ(*near->Get("key"), "old");
  store_.Disconnect();
  server_.Set("key", "new");  // Nobody is told.
  RunFor(absl::Seconds(10));
  // A read that has found nothing, as the entry of another session came.
  At("near: after the look-up", [&] { clock_.Advance(absl::Seconds(1)); });
  EXPECT_EQ(*near->Get("key"), "new");
}

// Promise: A near cache is never staler than its bound
// Threads that join the fetch of another one.
TEST_F(NearInterleavingTest, ManyThreadsThatMissFetchOnce) {
  auto near = New<std::string>();
  Notification fetching;
  Notification go_on;
  Once(Step::kSent, [&] {
    fetching.Notify();
    go_on.Wait();
  });
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_EQ(*near->Get("key"), "old"); });
  fetching.Wait();
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(*near->Get("key"), "old"); });
  }
  while (near->stats().local.load_waits < 8) std::this_thread::yield();
  go_on.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetches(), 1);
  EXPECT_EQ(near->stats().joined, 8);
}

// The leader is suspended between the answer and the end of its load. A read
// that joins it much later must not return what it has.
TEST_F(NearInterleavingTest, FetchThatBeganTooLongAgoIsNotJoined) {
  auto near = New<std::string>();
  store_.Disconnect();  // Without a lease.
  std::thread leader = LeadUntilAnswered(*near);
  store_.set_reachable(true);
  server_.Set("key", "new");
  store_.HoldMessages();  // No session comes.
  clock_.Advance(options_.max_staleness);
  std::thread joins([&] { EXPECT_EQ(*near->Get("key"), "new"); });
  while (near->stats().local.load_waits < 1) std::this_thread::yield();
  go_on_.Notify();
  leader.join();
  joins.join();
  EXPECT_EQ(near->stats().joined, 0);
  EXPECT_EQ(fetches(), 2);
}

// Promise: A near cache is never staler than its bound
// The same, where what the leader has fetched would be kept: then the age of
// the entry counts from its storing, and tells nothing of the fetch.
TEST_F(NearInterleavingTest, FetchOfALostSessionIsNotJoinedAfterTheBound) {
  for (const bool stale : {false, true}) {
    for (const bool leader_has_session : {false, true}) {
      server_.Set("key", "old");
      options_.stale_if_error = stale;
      auto near = New<std::string>();
      if (!leader_has_session) store_.set_reachable(false);
      Notification fetched;
      Notification go_on;
      store_.set_reachable(true);
      Once(Step::kExecuted, [&] {
        fetched.Notify();
        go_on.Wait();
      });
      std::thread leader([&] { EXPECT_EQ(*near->Get("key"), "old"); });
      fetched.Wait();
      store_.HoldMessages();  // No other session comes.
      store_.Disconnect();
      server_.Set("key", "new");  // Nobody is told.
      clock_.Advance(options_.max_staleness);
      const auto waits = near->stats().local.load_waits;
      std::thread joins([&] { EXPECT_EQ(*near->Get("key"), "new"); });
      while (near->stats().local.load_waits == waits) {
        std::this_thread::yield();
      }
      go_on.Notify();
      leader.join();
      joins.join();
      EXPECT_EQ(near->stats().joined, 0);
      near.reset();
      store_.ReleaseMessages();
    }
  }
}

// What another call has found since such a read began its own fetch.
TEST_F(NearInterleavingTest, VersionsDoNotGoBackAfterAFetchOnOnesOwn) {
  auto near = New<std::string>();
  store_.Disconnect();  // Without a lease.
  std::thread leader = LeadUntilAnswered(*near);
  clock_.Advance(options_.max_staleness);
  std::thread joins([&] {
    EXPECT_EQ(*near->Get("key"), "newest");
    EXPECT_EQ(*near->Get("key"), "newest");
  });
  while (near->stats().local.load_waits < 1) std::this_thread::yield();
  RunFor(options_.command_timeout / 2);  // A session comes.
  Once(Step::kSent, [&] {
    server_.Set("key", "newer");
    EXPECT_EQ(*near->Get("key"), "newer");
    store_.HoldMessages();
    server_.Set("key", "newest");
  });
  go_on_.Notify();
  leader.join();
  joins.join();
  EXPECT_EQ(near->stats().sessions, 2);
}

TEST_F(NearInterleavingTest, FetchThatBeganLatelyIsJoinedWithoutALease) {
  auto near = New<std::string>();
  store_.Disconnect();
  std::thread leader = LeadUntilAnswered(*near);
  clock_.Advance(options_.max_staleness / 2);
  std::thread joins([&] { EXPECT_EQ(*near->Get("key"), "old"); });
  while (near->stats().local.load_waits < 1) std::this_thread::yield();
  go_on_.Notify();
  leader.join();
  joins.join();
  EXPECT_EQ(near->stats().joined, 1);
}

// Whoever returns late with what is not kept leaves later fetches alone.
TEST_F(NearInterleavingTest, FetchesWithoutALeaseAreJoinedWhileOthersReturn) {
  if (!kHasPoints) GTEST_SKIP();
  auto near = New<std::string>();
  store_.Disconnect();
  Notification fetching;
  Notification go_on;
  std::thread leader;
  At("near: before older versions are forgotten", [&] {
    Once(Step::kSent, [&] {
      fetching.Notify();
      go_on.Wait();
    });
    leader = std::thread([&] { EXPECT_EQ(*near->Get("key"), "old"); });
    fetching.Wait();
  });
  EXPECT_EQ(*near->Get("key"), "old");
  std::thread joins([&] { EXPECT_EQ(*near->Get("key"), "old"); });
  while (near->stats().local.load_waits < 1 && fetches() < 3) {
    std::this_thread::yield();
  }
  go_on.Notify();
  leader.join();
  joins.join();
  EXPECT_EQ(fetches(), 2);
}

TEST_F(NearInterleavingTest, JoinedFailureReachesAll) {
  auto near = New<std::string>();
  Notification fetching;
  Notification go_on;
  Once(Step::kSent, [&] {
    fetching.Notify();
    go_on.Wait();
    store_.set_reachable(false);
  });
  // Kept until both threads have ended: ThreadSanitizer does not see how a
  // prebuilt Abseil counts the references of a Status.
  absl::Status first;
  absl::Status second;
  std::thread leader([&] { first = near->Get("key").status(); });
  fetching.Wait();
  std::thread joins([&] { second = near->Get("key").status(); });
  while (near->stats().local.load_waits < 1) std::this_thread::yield();
  go_on.Notify();
  leader.join();
  joins.join();
  EXPECT_TRUE(absl::IsUnavailable(first));
  EXPECT_TRUE(absl::IsUnavailable(second));
  EXPECT_EQ(near->stats().failed_reads, 2);
}

// Promise: A near cache is never staler than its bound
// A wait for others, and one's own fetch before it, share command_timeout.
TEST_F(NearInterleavingTest, GetManyWaitsForOthersForWhatIsLeftOfItsTime) {
  auto near = New<std::string>();
  Notification fetching;
  Notification go_on;
  Once(Step::kSent, [&] {
    fetching.Notify();
    go_on.Wait();
  });
  std::thread leader([&] { EXPECT_TRUE(near->Get("key").ok()); });
  fetching.Wait();
  // Its own fetch takes the whole time.
  Once(Step::kExecuted, [&] { clock_.Advance(options_.command_timeout); });
  const auto results = near->GetMany({"key", "other"});
  EXPECT_TRUE(absl::IsDeadlineExceeded(results[0].status()));
  EXPECT_TRUE(results[1].ok());
  go_on.Notify();
  leader.join();
}

TEST_F(NearInterleavingTest, OverlappingBatchesInOppositeOrdersEnd) {
  auto near = New<std::string>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 200; ++n) {
        const auto results = i % 2 == 0 ? near->GetMany({"a", "b", "key"})
                                        : near->GetMany({"key", "b", "a"});
        for (const auto& result : results) EXPECT_TRUE(result.ok());
        server_.Set("a", std::to_string(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// For the reaper and the clock of each test.
class NearWaitTest : public NearEnvironment {};

TEST_F(NearWaitTest, WaitUntilReadyWaitsForTheSession) {
  SimulatedClock clock;
  Reaper reaper(clock);
  FakeServer server(&clock, &reaper);
  FakeStore store(&server);
  store.set_reachable(false);
  options_.local.clock = &clock;
  auto near = *NearCache<std::string>::Create(options_, &store);
  absl::Status ready = absl::UnknownError("");
  std::thread waiter([&] { ready = near->WaitUntilReady(absl::Seconds(100)); });
  clock.RunFor(absl::Seconds(3));
  store.set_reachable(true);
  clock.RunFor(absl::Seconds(6));
  waiter.join();
  EXPECT_EQ(ready, absl::OkStatus());
}

TEST_F(NearWaitTest, WaitUntilReadyEndsWithItsTimeout) {
  SimulatedClock clock;
  Reaper reaper(clock);
  FakeServer server(&clock, &reaper);
  FakeStore store(&server);
  store.set_reachable(false);
  options_.local.clock = &clock;
  auto near = *NearCache<std::string>::Create(options_, &store);
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    EXPECT_TRUE(absl::IsUnavailable(near->WaitUntilReady(absl::Seconds(2))));
    done = true;
  });
  while (!done) {
    clock.RunFor(absl::Seconds(1));
    std::this_thread::yield();
  }
  waiter.join();
}

// Between the last look at what was superseded and the write.
// Promise: One load per key
TEST_F(NearInterleavingTest, ADelWaitsForTheWriteOfALoad) {
  auto near = New<std::string>();
  server_.Del("key");
  std::thread deleter;
  Notification deleting;
  Interpose([&](Step step, const Request& request) {
    if (step == Step::kSent && request.command == Request::Command::kPut) {
      deleter = std::thread([&] {
        deleting.Notify();
        EXPECT_EQ(*near->Del("key"), true);
      });
      deleting.Wait();
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(*near->GetOrLoad("key", [] { return "loaded before"; }),
            "loaded before");
  deleter.join();
  EXPECT_EQ(server_.Get("key"), std::nullopt);
  EXPECT_EQ(*near->Get("key"), std::nullopt);
}

TEST_F(NearInterleavingTest, AWriteFromWithinTheWriteOfALoadDoesNotWait) {
  auto near = New<std::string>();
  server_.Del("key");
  Interpose([&](Step step, const Request& request) {
    if (step == Step::kSent && request.command == Request::Command::kPut) {
      EXPECT_EQ(*near->Del("key"), false);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(near->GetOrLoad("key", [] { return "value"; }).ok());
}

// Promise: One load per key
TEST_F(NearInterleavingTest, AWriteBetweenALoaderAndItsWriteBeatsIt) {
  if (!kHasPoints) GTEST_SKIP();
  for (const absl::Duration lock : {absl::ZeroDuration(), absl::Hours(1)}) {
    auto near = New<std::string>();
    server_.Del("key");
    NearLoadOptions options;
    options.load_lock = lock;
    At("near: between a loader and its write",
       [&] { EXPECT_EQ(*near->Del("key"), false); });
    EXPECT_EQ(*near->GetOrLoad("key", options, [] { return "loaded before"; }),
              "loaded before");
    EXPECT_EQ(server_.Get("key"), std::nullopt) << lock;
  }
}

// Promise: One load per key
TEST_F(NearInterleavingTest, WhatAnotherLoadWritesMeanwhileIsNotLoadedAgain) {
  if (!kHasPoints) GTEST_SKIP();
  auto near = New<std::string>();
  server_.Del("key");
  At("near: before a load", [&] {
    EXPECT_EQ(*near->GetOrLoad("key", [] { return "value"; }), "value");
  });
  EXPECT_EQ(*near->GetOrLoad("key", [] { return "again"; }), "value");
  EXPECT_EQ(near->stats().loads, 1);
}

// Of another process, which tells of it by the name of the lock alone.
// Promise: One load per key
TEST_F(NearInterleavingTest,
       WhoeverJoinsALoadThatAForeignDelHasBeatenLooksAgain) {
  if (!kHasPoints) GTEST_SKIP();
  const auto near = New<std::string>();
  const auto elsewhere = NewElsewhere<std::string>();
  NearLoadOptions options;
  options.load_lock = absl::Hours(1);
  // Also if one of this process keeps it from writing.
  for (const bool deletes_here : {false, true}) {
    server_.Del("key");
    Notification joining;
    std::thread joins;
    const auto load = [&] {
      EXPECT_EQ(*elsewhere->Del("key"), false);
      joins = std::thread([&] {
        At("near: before a load",
           [&] { At("load: before it joins", [&] { joining.Notify(); }); });
        EXPECT_EQ(
            *near->GetOrLoad("key", options, [] { return "loaded after"; }),
            "loaded after");
      });
      joining.Wait();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      if (deletes_here) {
        EXPECT_TRUE(near->Del("key").ok());
      }
      return "loaded before";
    };
    EXPECT_EQ(*near->GetOrLoad("key", options, load), "loaded before");
    joins.join();
    EXPECT_EQ(server_.Get("key"), "loaded after");
  }
}

// Promise: One load per key
TEST_F(NearInterleavingTest, ALockWhoseAnswerDidNotComeKeepsNobodyWaiting) {
  const auto near = New<std::string>();
  const auto elsewhere = NewElsewhere<std::string>();
  server_.Del("key");
  NearLoadOptions options;
  options.load_lock = absl::Hours(1);
  Interpose([&](Step step, const Request& request) {
    return step == Step::kExecuted &&
                   request.command == Request::Command::kTakeLock
               ? absl::DeadlineExceededError("no answer")
               : absl::OkStatus();
  });
  EXPECT_EQ(*near->GetOrLoad("key", options, [] { return "value"; }), "value");
  NearLoadOptions impatient = options;
  impatient.wait = absl::ZeroDuration();
  EXPECT_EQ(*elsewhere->GetOrLoad("key", impatient, [] { return "other"; }),
            "other");
  EXPECT_EQ(server_.Get("key"), "other");  // It had the lock.
}

// Promise: One load per key
TEST_F(NearInterleavingTest, AKeyThatIsThereAndCannotBeReadIsLoaded) {
  const auto near = New<std::string>();
  server_.Del("key");
  NearLoadOptions options;
  options.load_lock = absl::Hours(1);
  Interpose([&](Step step, const Request& request) {
    if (request.command == Request::Command::kTakeLock) {
      if (step == Step::kSent) server_.Set("key", "foreign");
      if (step == Step::kExecuted) store_.set_reachable(false);
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(*near->GetOrLoad("key", options, [] { return "value"; }), "value");
}

// Two processes with four threads each.
TEST_F(NearInterleavingTest, OneOfAllProcessesLoads) {
  for (const bool one_fails : {false, true}) {
    server_.Del("key");
    const auto near = New<std::string>();
    const auto elsewhere = NewElsewhere<std::string>();
    NearLoadOptions options;
    options.load_lock = absl::Hours(1);
    std::atomic<int> loads{0};
    Notification all_have_begun;
    std::atomic<int> begun{0};
    const auto load = [&]() -> absl::StatusOr<std::string> {
      all_have_begun.Wait();
      ++loads;
      if (one_fails && loads == 1) return absl::CancelledError("went away");
      return "value";
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        auto& cache = i % 2 == 0 ? near : elsewhere;
        if (++begun == 8) all_have_begun.Notify();
        const auto value = cache->GetOrLoad("key", options, load);
        if (value.ok()) {
          EXPECT_EQ(*value, "value");
        } else {
          EXPECT_TRUE(one_fails && absl::IsCancelled(value.status()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(loads, one_fails ? 2 : 1);
    EXPECT_EQ(server_.Get("key"), "value");
  }
}

// It takes the lock, and is never heard of again.
TEST_F(NearInterleavingTest,
       AProcessThatDiesKeepsTheOthersForTheLifeOfItsLock) {
  // The clock does not wait for the other thread's calls.
  options_.max_staleness = options_.command_timeout = absl::Hours(24);
  const auto near = New<std::string>();
  server_.Del("key");
  NearLoadOptions options;
  options.load_lock = absl::Minutes(1);
  ASSERT_EQ(*other_store_.TakeLock({"key", "of the dead"}, options.load_lock,
                                   absl::Seconds(1)),
            RemoteStore::LockResult::kTaken);
  std::atomic<bool> is_over{false};
  const int64_t begin = clock_.NowNanos();
  std::thread thread([&] {
    EXPECT_EQ(*near->GetOrLoad("key", options, [] { return "value"; }),
              "value");
    is_over = true;
  });
  while (!is_over) clock_.Advance(absl::Milliseconds(1));
  thread.join();
  EXPECT_GE(clock_.NowNanos() - begin,
            absl::ToInt64Nanoseconds(options.load_lock));
  EXPECT_EQ(server_.Get("key"), "value");
}

}  // namespace
}  // namespace wheelcache
