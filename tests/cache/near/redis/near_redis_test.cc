// Near caches on a real server, with what may go wrong between the two.

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/cache/near/redis/near_redis_environment.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::RedisClient;
using testing::RedisServer;
using testing::Relay;

class NearRedisTest : public NearRedisEnvironment {};

TEST_F(NearRedisTest, ForeignWritesAreSeen) {
  Start();
  other_->Run({"SET", "p:key", "one"});
  ASSERT_TRUE(Until([&] { return near_->stats().invalidations == 1; }));
  EXPECT_EQ(Get(), "one");
  EXPECT_EQ(Get(), "one");
  EXPECT_EQ(near_->stats().local_hits, 1);
  other_->Run({"SET", "p:key", "two"});
  EXPECT_TRUE(Until([&] { return Get() == "two"; }));
  other_->Run({"DEL", "p:key"});
  EXPECT_TRUE(Until([&] { return Get() == "(absent)"; }));
  other_->Run({"SET", "p:key", "three"});
  EXPECT_TRUE(Until([&] { return Get() == "three"; }));
  other_->Run({"FLUSHALL"});
  EXPECT_TRUE(Until([&] { return Get() == "(absent)"; }));
}

TEST_F(NearRedisTest, AKnownAbsenceEndsWithASet) {
  Start();
  EXPECT_EQ(Get(), "(absent)");
  EXPECT_EQ(Get(), "(absent)");
  EXPECT_EQ(near_->stats().local_absences, 1);
  other_->Run({"SET", "p:key", "value"});
  EXPECT_TRUE(Until([&] { return Get() == "value"; }));
}

TEST_F(NearRedisTest, OwnSetIsSeenByEveryThreadAtOnce) {
  Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string key = absl::StrCat("key", t);
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(near_->Set(key, absl::StrCat(i)).ok());
        ASSERT_EQ(Get(key), absl::StrCat(i));
        std::thread([&] { ASSERT_EQ(Get(key), absl::StrCat(i)); }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NearRedisTest, ALocalValueEndsNoLaterThanTheRemoteOne) {
  Start();
  for (int i = 0; i < 5; ++i) {
    const std::string key = absl::StrCat("key", i);
    other_->Run({"SET", "p:" + key, "value", "PX", "30"});
    ASSERT_TRUE(Until([&] { return Get(key) != "value"; }));
    EXPECT_EQ(Get(key), "(absent)");
    EXPECT_EQ(other_->Run({"GET", "p:" + key}), "(nil)");
  }
}

// However long the answer takes.
TEST_F(NearRedisTest, ADeadlineCountsFromTheSending) {
  Start();
  other_->Run({"SET", "p:key", "value", "PX", "60000"});
  EXPECT_EQ(Get("other"), "(absent)");  // Makes the connection one for reads.
  relay_->Hold(Relay::kReads, Relay::kToClient);
  int64_t deadline = Clock::kNever;
  std::thread reader([&] {
    deadline = store_->Fetch({"p:key"}, absl::Seconds(30))[0]->deadline_nanos;
  });
  ASSERT_TRUE(relay_->AwaitHeld(Relay::kReads, Relay::kToClient, "value"));
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "p:key"}), &left));
  // One millisecond for the rounding of PTTL.
  const int64_t at_server =
      store_->clock().NanosAfter(absl::Milliseconds(left + 1));
  const int64_t late = store_->clock().NanosAfter(absl::Milliseconds(20));
  ASSERT_TRUE(Until([&] { return store_->clock().NowNanos() > late; }));
  relay_->Release(Relay::kReads, Relay::kToClient);
  reader.join();
  EXPECT_LE(deadline, at_server);
}

TEST_F(NearRedisTest, ReplyBeforeTheInvalidationIsServedUntilThat) {
  Start();
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return near_->stats().invalidations == 1; }));
  relay_->Hold(Relay::kSubscription, Relay::kToClient);
  EXPECT_EQ(Get(), "old");
  other_->Run({"SET", "p:key", "new"});
  ASSERT_TRUE(
      relay_->AwaitHeld(Relay::kSubscription, Relay::kToClient, "p:key"));
  EXPECT_EQ(Get(), "old");
  relay_->Release(Relay::kSubscription, Relay::kToClient);
  ASSERT_TRUE(Until([&] { return near_->stats().invalidations == 2; }));
  EXPECT_EQ(Get(), "new");
}

TEST_F(NearRedisTest, ReplyAfterTheInvalidationIsNotKept) {
  Start();
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return near_->stats().invalidations == 1; }));
  EXPECT_EQ(Get("other"), "(absent)");  // Makes the connection one for reads.
  relay_->Hold(Relay::kReads, Relay::kToClient);
  std::thread reader([this] { EXPECT_EQ(Get(), "old"); });
  ASSERT_TRUE(relay_->AwaitHeld(Relay::kReads, Relay::kToClient, "old"));
  other_->Run({"SET", "p:key", "new"});
  ASSERT_TRUE(Until([&] { return near_->stats().invalidations == 2; }));
  relay_->Release(Relay::kReads, Relay::kToClient);
  reader.join();
  EXPECT_EQ(Get(), "new");
  EXPECT_EQ(near_->stats().superseded, 1);
}

TEST_F(NearRedisTest, HalfOpenSubscriptionServesNothingOldAfterTheBound) {
  constexpr absl::Duration kBound = absl::Milliseconds(150);
  for (const Relay::Direction direction :
       {Relay::kToClient, Relay::kToServer}) {
    Start(kBound);
    other_->Run({"SET", "p:key", "old"});
    ASSERT_TRUE(Until([&] { return Get() == "old"; }));
    relay_->Drop(Relay::kSubscription, Relay::kToClient);
    if (direction == Relay::kToServer) {
      // Hears of writes, but cannot know that it does.
      relay_->Drop(Relay::kSubscription, Relay::kToServer);
    }
    other_->Run({"SET", "p:key", "new"});
    const int64_t written = store_->clock().NowNanos();
    EXPECT_TRUE(GetsFrom(Clock::NanosAfter(written, kBound), "new"));
    near_ = nullptr;
  }
}

TEST_F(NearRedisTest, StoppedServerServesNothingAfterTheBoundAndComesBack) {
  constexpr absl::Duration kBound = absl::Milliseconds(150);
  Start(kBound);
  other_->Run({"SET", "p:key", "value"});
  ASSERT_TRUE(Until([&] { return Get() == "value"; }));
  server_->Stop();
  const int64_t stopped = store_->clock().NowNanos();
  // When the last Get began that had the value.
  int64_t last = stopped;
  for (int64_t begin = last; Get() == "value";) {
    last = begin;
    begin = store_->clock().NowNanos();
  }
  EXPECT_LT(last, Clock::NanosAfter(stopped, kBound));
  // Each call ends in time.
  const int64_t before = store_->clock().NowNanos();
  EXPECT_FALSE(near_->Get("key").ok());
  EXPECT_LT(store_->clock().NowNanos(),
            Clock::NanosAfter(before, absl::Seconds(10)));
  server_->Continue();
  EXPECT_TRUE(Until([&] { return Get() == "value"; }));
  EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(30)).ok());
}

TEST_F(NearRedisTest, RestartedServerShowsNothingOldAndComesBackInTime) {
  Start();
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return Get() == "old"; }));
  server_->Kill();
  ASSERT_TRUE(Until([&] { return near_->stats().losses > 0; }));
  ASSERT_TRUE(server_->Restart().ok());
  const int64_t restarted = store_->clock().NowNanos();
  EXPECT_TRUE(Until([&] { return Get() == "(absent)"; }));
  EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(6)).ok());
  EXPECT_LT(store_->clock().NowNanos(),
            Clock::NanosAfter(restarted, absl::Seconds(6)));
}

TEST_F(NearRedisTest, LostConnectionsOfAKindAreOpenedAnew) {
  Start();
  for (const Relay::Kind kind :
       {Relay::kReads, Relay::kWrites, Relay::kSubscription}) {
    ASSERT_TRUE(near_->Set("key", "one").ok());
    EXPECT_EQ(Get(), "one");
    relay_->Close(kind);
    EXPECT_TRUE(Until([&] { return near_->Set("key", "two").ok(); }));
    EXPECT_TRUE(Until([&] { return Get() == "two"; }));
    EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(30)).ok());
  }
}

TEST_F(NearRedisTest, ReadsFromAnotherServerEndTheSession) {
  Start();
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return Get() == "old"; }));
  auto second = RedisServer::Start();
  ASSERT_TRUE(second.ok()) << second.status();
  RedisClient((*second)->port()).Run({"SET", "p:key", "new"});
  // The subscription stays with the first server, and would tell of nothing
  // that is written to the second.
  relay_->SetServer((*second)->port());
  relay_->Close(Relay::kReads);
  EXPECT_TRUE(Until([&] { return Get() == "new"; }));
  EXPECT_TRUE(Until([&] { return near_->stats().losses == 1; }));
  EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(30)).ok());
  RedisClient((*second)->port()).Run({"SET", "p:key", "newer"});
  EXPECT_TRUE(Until([&] { return Get() == "newer"; }));
  near_ = nullptr;
}

}  // namespace
}  // namespace wheelcache
