// What breaks between a RedisStore, or a near cache on one, and a real server:
// sessions end, leases run out, calls end in time, and all of it comes back.
// That the promise holds throughout is proved by near_redis_promise_test.cc.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/cache/near/redis/near_redis_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::Connections;
using testing::ConnectionsOf;
using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::Others;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisServer;
using testing::Relay;

constexpr absl::Duration kTimeout = absl::Seconds(30);

// Of tests that see a lease run out.
constexpr absl::Duration kShortStaleness = absl::Milliseconds(120);

class RedisFaultTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> server_options = {},
             absl::Duration max_staleness = absl::Seconds(3),
             RedisStoreOptions options = {}) {
    auto server = RedisServer::Start(std::move(server_options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    other_ = std::make_unique<RedisClient>(server_->port());
    options.url = server_->url();
    auto store = RedisStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(store_->Attach("p:", max_staleness, &listener_).ok());
    ASSERT_TRUE(listener_.AwaitLease());
    ASSERT_TRUE(store_->Put({"p:key", "value"}, kTimeout).ok());
    listener_.Await([&] { return listener_.keys.count("p:key") == 1; });
    listener_.Clear();
  }
  void TearDown() override {
    if (store_ != nullptr) store_->Detach(&listener_);
  }

  // Kills connections, and waits until the store has new ones.
  void KillAndAwait(Connections which) {
    const std::vector<std::string> killed = ConnectionsOf(*other_, which);
    EXPECT_FALSE(killed.empty());
    for (const std::string& id : killed) {
      EXPECT_EQ(other_->Run({"CLIENT", "KILL", "ID", id}), "1");
    }
    EXPECT_TRUE(Until(
        [&] { return ConnectionsOf(*other_, which).size() == killed.size(); }));
  }

  // Repeats until the condition holds, generously.
  bool Until(const std::function<bool()>& condition) {
    const int64_t limit = store_->clock().NanosAfter(absl::Seconds(30));
    while (!condition()) {
      if (store_->clock().NowNanos() > limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  absl::Status Fetch(absl::Duration timeout = kTimeout) {
    return store_->Fetch({"p:key"}, timeout)[0].status();
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisClient> other_;
  RecordingListener listener_;
  std::unique_ptr<RedisStore> store_;
};

// Promise: A near cache is never staler than its bound
TEST_F(RedisFaultTest, RestartedServerGetsANewSession) {
  Start();
  const uint64_t session = listener_.Session();
  server_->Kill();
  EXPECT_EQ(listener_.AwaitLoss().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Until([&] { return absl::IsUnavailable(Fetch()); }));
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_TRUE(listener_.AwaitLease(session));
  EXPECT_TRUE(Until([&] { return Fetch().ok(); }));
  EXPECT_EQ(store_->Fetch({"p:key"}, kTimeout)[0]->bytes, std::nullopt);
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisFaultTest, KilledTrackingIsANewSession) {
  Start();
  const uint64_t session = listener_.Session();
  KillAndAwait(Connections::kTracking);
  EXPECT_TRUE(listener_.AwaitLease(session));
  listener_.Clear();
  EXPECT_EQ(other_->Run({"SET", "p:key", "new"}), "OK");
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys.size() == 1; }));
}

TEST_F(RedisFaultTest, KilledDataConnectionsLeaveTheSession) {
  Start();
  const uint64_t session = listener_.Session();
  KillAndAwait(Connections::kOthers);
  EXPECT_TRUE(Fetch().ok());
  EXPECT_TRUE(store_->Put({"p:key", "new"}, kTimeout).ok());
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys.size() == 1; }));
  EXPECT_EQ(listener_.Session(), session);
}

TEST_F(RedisFaultTest, CallThatWaitsForALostConnectionIsUnavailable) {
  Start();
  server_->Stop();
  absl::Status status;
  std::thread caller([&] { status = Fetch(); });
  server_->Kill();
  caller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(RedisFaultTest, StoppedServerLetsTheLeaseRunOut) {
  Start({}, kShortStaleness);
  server_->Stop();
  const int64_t stopped = store_->clock().NowNanos();
  // No answer, no renewal, and then the session is over.
  EXPECT_EQ(listener_.AwaitLoss().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(listener_.Await([&] {
    return listener_.until <= Clock::NanosAfter(stopped, kShortStaleness);
  }));
  server_->Continue();
  EXPECT_TRUE(listener_.AwaitLease());
}

TEST_F(RedisFaultTest, CallsToAStoppedServerEndInTime) {
  Start();
  server_->Stop();
  constexpr absl::Duration kShort = absl::Milliseconds(20);
  const int64_t begin = store_->clock().NowNanos();
  EXPECT_EQ(Fetch(kShort).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(store_->Put({"p:key", "new"}, kShort).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(store_->Remove("p:key", kShort).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(store_->clock().NowNanos(), Clock::NanosAfter(begin, 3 * kShort));
  // Long enough to wait in recv(), and far shorter than unanswered_limit.
  constexpr absl::Duration kLonger = absl::Milliseconds(100);
  const absl::Status longer = Fetch(kLonger);
  EXPECT_EQ(longer.code(), absl::StatusCode::kDeadlineExceeded);
  // The same words whatever the key and the time, so that logs group them.
  EXPECT_EQ(store_->Fetch({"p:another"}, kShort)[0].status(), longer);
  server_->Continue();
  EXPECT_TRUE(Fetch().ok());
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisFaultTest, LateRepliesGoToNobodyElse) {
  Start();
  const std::vector<std::string> before =
      ConnectionsOf(*other_, Connections::kOthers);
  for (int round = 0; round < 3; ++round) {
    other_->Run({"SET", "p:key", absl::StrCat("old", round)});
    server_->Stop();
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Fetch(absl::Milliseconds(2)).code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_EQ(store_->Remove("absent", absl::Milliseconds(2)).status().code(),
                absl::StatusCode::kDeadlineExceeded);
    }
    server_->Continue();
    // Behind the late ones.
    EXPECT_TRUE(store_->Put({"p:new", "value"}, kTimeout).ok());
    EXPECT_TRUE(*store_->Remove("p:new", kTimeout));
    EXPECT_EQ(store_->Fetch({"p:key"}, kTimeout)[0]->bytes,
              absl::StrCat("old", round));
  }
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kOthers), before);
}

TEST_F(RedisFaultTest, CallsBeyondTheLimitInFlightAreRefused) {
  RedisStoreOptions options;
  options.max_in_flight = 10;
  Start({}, absl::Seconds(3), options);
  server_->Stop();
  EXPECT_TRUE(Until(
      [&] { return absl::IsResourceExhausted(Fetch(absl::Milliseconds(1))); }));
  server_->Continue();
  EXPECT_TRUE(Until([&] { return Fetch().ok(); }));
}

TEST_F(RedisFaultTest, CallsBehind64MebibytesThatAreNotReadAreRefused) {
  RedisStoreOptions options;
  options.unanswered_limit = absl::Seconds(60);
  Start({}, absl::Seconds(60), options);
  const std::string large(40 << 20, 'x');
  ASSERT_TRUE(store_->Put({"p:key", large}, kTimeout).ok());
  server_->Stop();
  const auto put = [&] {
    return store_->Put({"p:key", large}, absl::Milliseconds(100));
  };
  // The system takes some of the first ones.
  absl::Status refused;
  EXPECT_TRUE(Until([&] {
    refused = put();
    return !absl::IsDeadlineExceeded(refused);
  }));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(refused.message(), "more than 64 MiB"))
      << refused;
  server_->Continue();
  EXPECT_TRUE(Until([&] {
    return store_->Put({"p:key", large}, absl::Seconds(30)).ok();
  }));
}

TEST_F(RedisFaultTest, ConnectionThatStaysUnansweredIsOpenedAnew) {
  RedisStoreOptions options;
  options.unanswered_limit = absl::Milliseconds(50);
  options.connect_timeout = absl::Milliseconds(50);
  Start({}, kShortStaleness, options);
  server_->Stop();
  EXPECT_TRUE(Until([&] { return absl::IsUnavailable(Fetch()); }));
  server_->Continue();
  EXPECT_TRUE(Until([&] { return Fetch().ok(); }));
  EXPECT_TRUE(listener_.AwaitLease());
}

TEST_F(RedisFaultTest, LoadingServerIsUnavailableAndGivesNoLease) {
  Start({"--key-load-delay", "500", "--loading-process-events-interval-bytes",
         "1024"});
  for (int i = 0; i < 200; ++i) {
    other_->Send({"SET", absl::StrCat("key", i), std::string(100, 'x')});
  }
  for (int i = 0; i < 200; ++i) other_->Receive();
  const uint64_t session = listener_.Session();
  other_->Send({"DEBUG", "RELOAD"});
  absl::Status loading;
  EXPECT_TRUE(Until([&] {
    loading = Fetch();
    return !loading.ok();
  }));
  EXPECT_EQ(loading.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(loading.message(), "LOADING")) << loading;
  EXPECT_EQ(other_->Receive(), "OK");
  EXPECT_TRUE(Until([&] { return Fetch().ok(); }));
  EXPECT_TRUE(listener_.AwaitLease());
  // Whether a PING fell into the loading is a matter of chance.
  EXPECT_GE(listener_.Session(), session);
}

TEST_F(RedisFaultTest, SlowReaderOfInvalidationsLosesItsSession) {
  Start({"--client-output-buffer-limit", "normal 10kb 0 0"});
  const uint64_t session = listener_.Session();
  // One message of more than the limit.
  std::vector<std::string> names;
  std::vector<absl::string_view> command = {"MSET"};
  for (int i = 0; i < 100; ++i) {
    names.push_back(absl::StrCat("p:", i, std::string(1000, 'x')));
  }
  for (const std::string& name : names) {
    command.push_back(name);
    command.push_back("");
  }
  EXPECT_EQ(other_->Run(command), "OK");
  EXPECT_EQ(listener_.AwaitLoss().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(listener_.AwaitLease(session));
}

TEST_F(RedisFaultTest, DeadConnectionRaisesNoSigpipe) {
  Start();
  internal::Endpoint endpoint(*internal::ParseServerUrl(server_->url()));
  const auto connected = internal::Socket::Connect(*endpoint.Address());
  ASSERT_TRUE(connected.ok()) << connected.status();
  internal::Socket* const socket = connected->get();
  EXPECT_TRUE(Until([&] { return *socket->Send("PING\r\n") != 0; }));
  server_->Kill();
  // Bazel ignores it; by default, it would end the test.
  auto* const before = signal(SIGPIPE, SIG_DFL);
  EXPECT_TRUE(Until([&] { return !socket->Send("PING\r\n").ok(); }));
  EXPECT_FALSE(socket->Send("PING\r\n").ok());
  signal(SIGPIPE, before);
}

TEST_F(RedisFaultTest, WhoeverReadsForOthersHandsThatOver) {
  Start();
  server_->Stop();
  std::thread reader([&] {
    EXPECT_EQ(Fetch(absl::Milliseconds(40)).code(),
              absl::StatusCode::kDeadlineExceeded);
  });
  const int64_t later = store_->clock().NanosAfter(absl::Milliseconds(10));
  Until([&] { return store_->clock().NowNanos() > later; });
  std::thread waiter([&] { EXPECT_TRUE(Fetch(absl::Seconds(4)).ok()); });
  reader.join();
  server_->Continue();
  waiter.join();
}

TEST_F(RedisFaultTest, LargeValuesPassInBothDirections) {
  Start();
  const std::string large(8 << 20, 'x');
  ASSERT_TRUE(store_->Put({"p:large", large}, kTimeout).ok());
  const auto fetched = store_->Fetch({"p:large"}, kTimeout);
  ASSERT_TRUE(fetched[0].ok()) << fetched[0].status();
  EXPECT_TRUE(fetched[0]->bytes == large);
}

TEST_F(RedisFaultTest, StoreGoesWhileTheServerStandsStill) {
  Start();
  server_->Stop();
  EXPECT_EQ(Fetch(absl::Milliseconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
  store_->Detach(&listener_);
  store_ = nullptr;
}

// Of a primary, its replica, and a Sentinel that knows both.
TEST(SentinelTest, TellsWhoIsThePrimaryAndIsAskedAgainAfterAFailover) {
  auto primary = RedisServer::Start();
  ASSERT_TRUE(primary.ok()) << primary.status();
  auto replica = RedisServer::Start(
      {"--replicaof", absl::StrCat("127.0.0.1 ", (*primary)->port())});
  ASSERT_TRUE(replica.ok()) << replica.status();
  RedisClient of_replica((*replica)->port());
  while (!absl::StrContains(of_replica.Run({"INFO", "replication"}),
                            "master_link_status:up")) {
    std::this_thread::yield();
  }
  const std::string file =
      absl::StrCat(::testing::TempDir(), "/sentinel", getpid(), ".conf");
  std::ofstream(file) << "sentinel monitor mine 127.0.0.1 "
                      << (*primary)->port() << " 1\n"
                      << "sentinel down-after-milliseconds mine 300\n"
                      << "sentinel failover-timeout mine 2000\n";
  auto sentinel = RedisServer::Start({file, "--sentinel"});
  ASSERT_TRUE(sentinel.ok()) << sentinel.status();
  RedisClient of_sentinel((*sentinel)->port());
  while (!absl::StrContains(of_sentinel.Run({"SENTINEL", "REPLICAS", "mine"}),
                            absl::StrCat((*replica)->port()))) {
    std::this_thread::yield();
  }
  RedisStoreOptions options;
  options.url = absl::StrCat(
      "redis+sentinel://127.0.0.1:1,127.0.0.1:", (*sentinel)->port(), "/mine");
  auto store = RedisStore::Create(options);
  ASSERT_TRUE(store.ok()) << store.status();
  RecordingListener listener;
  ASSERT_TRUE((*store)->Attach("p:", absl::Seconds(3), &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  const uint64_t session = listener.Session();
  EXPECT_TRUE((*store)->Put({"p:key", "value"}, kTimeout).ok());
  EXPECT_EQ(RedisClient((*primary)->port()).Run({"GET", "p:key"}), "value");
  (*primary)->Kill();
  EXPECT_TRUE(listener.AwaitLease(session));
  while (!(*store)->Put({"p:key", "newer"}, absl::Seconds(1)).ok()) {
  }
  EXPECT_EQ(RedisClient((*replica)->port()).Run({"GET", "p:key"}), "newer");
  (*store)->Detach(&listener);
}

TEST(SentinelTest, NameThatItDoesNotKnowIsNamed) {
  const std::string file =
      absl::StrCat(::testing::TempDir(), "/sentinel", getpid(), ".conf");
  std::ofstream(file) << "sentinel monitor mine 127.0.0.1 1 1\n";
  auto sentinel = RedisServer::Start({file, "--sentinel"});
  ASSERT_TRUE(sentinel.ok()) << sentinel.status();
  RedisStoreOptions options;
  options.url = absl::StrCat("redis+sentinel://127.0.0.1:", (*sentinel)->port(),
                             "/other");
  auto store = RedisStore::Create(options);
  ASSERT_TRUE(store.ok()) << store.status();
  const absl::Status why = (*store)->Put({"key", "value"}, kTimeout);
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(why.message(), "other: Sentinel 127.0.0.1:"))
      << why;
  EXPECT_TRUE(absl::StrContains(why.message(), "knows no primary")) << why;
}

// Of a near cache, through a relay.

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

TEST_F(NearRedisTest, ReadsInFlightAreSentOnceMoreWhenTheirConnectionIsLost) {
  Start();
  other_->Run({"SET", "p:key", "value"});
  EXPECT_EQ(Get("other"), "(absent)");  // Makes the connection one for reads.
  for (int i = 0; i < 3; ++i) {
    relay_->Hold(Relay::kReads, Relay::kToServer);
    std::thread reader([this] {
      const auto fetched = store_->Fetch({"p:key"}, kTimeout);
      ASSERT_TRUE(fetched[0].ok()) << fetched[0].status();
      EXPECT_EQ(fetched[0]->bytes, "value");
    });
    ASSERT_TRUE(relay_->AwaitHeld(Relay::kReads, Relay::kToServer, "p:key"));
    relay_->Close(Relay::kReads);
    relay_->ReleaseAll();
    reader.join();
  }
  // A write is not: it may have happened.
  EXPECT_TRUE(store_->Put({"p:new", "value"}, kTimeout).ok());
  relay_->Hold(Relay::kWrites, Relay::kToServer);
  std::thread writer([this] {
    EXPECT_EQ(store_->Put({"p:new", "newer"}, kTimeout).code(),
              absl::StatusCode::kUnavailable);
  });
  ASSERT_TRUE(relay_->AwaitHeld(Relay::kWrites, Relay::kToServer, "newer"));
  relay_->Close(Relay::kWrites);
  relay_->ReleaseAll();
  writer.join();
}

TEST_F(NearRedisTest, RestartedServerShowsNothingOldAndComesBackInTime) {
  Start();
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return Get() == "old"; }));
  server_->Kill();
  ASSERT_TRUE(Until([&] { return near_->stats().losses > 0; }));
  ASSERT_TRUE(server_->Restart().ok());
  const int64_t restarted = store_->clock().NowNanos();
  EXPECT_TRUE(Until([&] { return Get() == "(absent)"; })) << Get();
  EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(6)).ok());
  EXPECT_LT(store_->clock().NowNanos(),
            Clock::NanosAfter(restarted, absl::Seconds(6)));
}

// Promise: A near cache is never staler than its bound
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

// Where the servers do not tell which they are. The reads would stay with the
// first, and the session would tell of what is written to the second.
// Promise: A near cache is never staler than its bound
TEST_F(NearRedisTest, ASessionWithAnUnknownServerMovesTheReads) {
  Start(absl::Seconds(3), {"--rename-command", "INFO", ""});
  other_->Run({"SET", "p:key", "old"});
  ASSERT_TRUE(Until([&] { return Get() == "old"; }));
  auto second = RedisServer::Start({"--rename-command", "INFO", ""});
  ASSERT_TRUE(second.ok()) << second.status();
  RedisClient((*second)->port()).Run({"SET", "p:key", "new"});
  const auto sessions = near_->stats().sessions;
  relay_->SetServer((*second)->port());
  relay_->Close(Relay::kSubscription);
  ASSERT_TRUE(Until([&] { return near_->stats().sessions > sessions; }));
  EXPECT_TRUE(Until([&] { return Get() == "new"; }));
  EXPECT_TRUE(near_->WaitUntilReady(absl::Seconds(30)).ok());
  RedisClient((*second)->port()).Run({"SET", "p:key", "newer"});
  EXPECT_TRUE(Until([&] { return Get() == "newer"; }));
  EXPECT_EQ(near_->stats().sessions, sessions + 1);
  near_ = nullptr;
}

// The write of a load may leave the process, and come late.
// Promise: One load per key
TEST_F(NearRedisTest, ADelFollowsTheWriteOfALoadThatHadNoAnswerInTime) {
  Start(absl::Milliseconds(300));
  relay_->Hold(Relay::kLargeWrites, Relay::kToServer);
  const std::string large(1 << 20, 'x');
  EXPECT_TRUE(near_->GetOrLoad("key", [&] { return large; }).ok());
  ASSERT_TRUE(
      relay_->AwaitHeld(Relay::kLargeWrites, Relay::kToServer, "p:key"));
  EXPECT_TRUE(near_->Del("other").ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(near_->Del("key").status()));
  relay_->Release(Relay::kLargeWrites, Relay::kToServer);
  EXPECT_TRUE(store_->Put({"p:large", large}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"EXISTS", "p:key"}), "0");
  near_ = nullptr;
}

// Why one PONG does not certify what has executed before its PING.

// A PONG may come before the invalidation of a write that was executed before
// its PING was sent: where the write, something slow, and the PING share a turn
// of the server's event loop.
class PongTest : public NearRedisEnvironment,
                 public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr absl::Duration kBound = absl::Milliseconds(600);

  void SetUp() override {
    const bool has_resp3 = GetParam();
    if (has_resp3) {
      Start(kBound);
    } else {
      Start(kBound, {"--rename-command", "HELLO", ""});
      pong_ = "$4\r\npong\r\n$0\r\n\r\n";
    }
    ASSERT_TRUE(store_->Attach("q:", kBound, &listener_).ok());
    first_ = std::make_unique<RedisClient>(server_->port());
    slow_ = std::make_unique<RedisClient>(server_->port());
    for (RedisClient* each : {first_.get(), slow_.get(), other_.get()}) {
      ASSERT_EQ(each->Run({"PING"}), "PONG");
    }
  }
  void TearDown() override {
    relay_->ReleaseAll();
    store_->Detach(&listener_);
  }

  // Brings that about, and holds back all that comes after the PONG. Returns
  // whether the invalidation did: where a thread of the test was late, not.
  bool HoldsBehindThePong() {
    EXPECT_TRUE(listener_.AwaitLease());
    // Right after a PONG, so that the next PING is 100 ms away.
    int leases = -1;
    EXPECT_TRUE(listener_.Await([&] {
      if (leases < 0) leases = listener_.leases;
      return listener_.leases > leases;
    }));
    // During this turn, three things gather for the next one: the write,
    // something slow, and an empty line on the subscription. The server reads
    // the latter when the slow one has ended, with the PING that came behind.
    first_->Send({"DEBUG", "SLEEP", "0.03"});
    before_write_ = store_->clock().NowNanos();
    other_->Send({"SET", "q:key", "new"});
    slow_->Send({"DEBUG", "SLEEP", "0.2"});
    relay_->HoldAfter(Relay::kSubscription, Relay::kToClient, pong_);
    relay_->Inject(Relay::kSubscription, "\r\n");
    for (RedisClient* each : {first_.get(), slow_.get(), other_.get()}) {
      EXPECT_EQ(each->Receive(), "OK");
    }
    bool is_held = false;
    EXPECT_TRUE(Until([&] {
      is_held = relay_->Holds(Relay::kSubscription, Relay::kToClient, "q:key");
      return is_held ||
             listener_.Await([&] { return listener_.keys.count("q:key") != 0; },
                             absl::ZeroDuration());
    }));
    return is_held;
  }

  std::string pong_ = "+PONG\r\n";
  RecordingListener listener_;
  std::unique_ptr<RedisClient> first_;
  std::unique_ptr<RedisClient> slow_;
  int64_t before_write_ = 0;
};
// Promise: A near cache is never staler than its bound
TEST_P(PongTest, PongBeforeAnInvalidationDoesNotCertifyTheWrite) {
  int attempts = 0;
  while (!HoldsBehindThePong()) {
    ASSERT_LT(++attempts, 30);
    relay_->ReleaseAll();
    listener_.Clear();
  }
  // The session ends, since all that follows is held back. Until then, no lease
  // has been longer than the bound allows for the write.
  EXPECT_FALSE(listener_.AwaitLoss().ok());
  EXPECT_TRUE(listener_.Await(
      [&] {
        return listener_.keys.empty() &&
               listener_.until <= Clock::NanosAfter(before_write_, kBound);
      },
      absl::ZeroDuration()));
}

INSTANTIATE_TEST_SUITE_P(Resp3, PongTest, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Resp2, PongTest, ::testing::Values(false));

// In the child of a fork().

class RedisForkTest : public NearRedisEnvironment {};
// Promise: A near cache is never staler than its bound
TEST_F(RedisForkTest, CallsInTheChildFail) {
  Start();
  other_->Run({"SET", "p:key", "value"});
  ASSERT_TRUE(Until([&] { return Get() == "value"; }));
  testing::RecordingListener listener;
  EXPECT_TRUE(HoldsInChild(
      [&] {
        const auto fails = [](const absl::Status& status) {
          return status.code() == absl::StatusCode::kFailedPrecondition;
        };
        constexpr absl::Duration kTimeout = absl::Seconds(30);
        return fails(store_->Fetch({"p:key"}, kTimeout)[0].status()) &&
               fails(store_->Put({"p:key", "new"}, kTimeout)) &&
               fails(store_->Remove("p:key", kTimeout).status()) &&
               fails(store_->Attach("q:", kTimeout, &listener)) &&
               // The local tier may start a thread.
               (!kChildMayStartThreads ||
                (fails(near_->Set("key", "new")) &&
                 // As soon as the parent's lease has run out.
                 Until([&] { return fails(near_->Get("key").status()); })));
      },
      Others::kRun));
  // The parent's connections are whole.
  EXPECT_TRUE(near_->Set("key", "newer").ok());
  EXPECT_EQ(Get(), "newer");
  EXPECT_EQ(near_->stats().losses, 0);
}

TEST_F(RedisForkTest, DestroyingInTheChildLeavesTheParentItsConnections) {
  if (!kChildMayStartThreads) GTEST_SKIP() << "ThreadSanitizer";
  Start();
  EXPECT_TRUE(HoldsInChild(
      [&] {
        near_ = nullptr;
        store_ = nullptr;
        return true;
      },
      Others::kRun));
  EXPECT_TRUE(near_->Set("key", "value").ok());
  EXPECT_EQ(Get(), "value");
  EXPECT_EQ(near_->stats().losses, 0);
}

TEST_F(RedisForkTest, AStoreThatIsMadeInTheChildWorks) {
  if (!kChildMayStartThreads) GTEST_SKIP() << "ThreadSanitizer";
  Start();
  EXPECT_TRUE(HoldsInChild([&] {
    RedisStoreOptions options;
    options.url = server_->url();
    auto store = RedisStore::Create(options);
    return store.ok() &&
           (*store)->Put({"p:key", "child"}, absl::Seconds(30)).ok();
  }));
  EXPECT_TRUE(Until([&] { return Get() == "child"; }));
}

}  // namespace
}  // namespace wheelcache
