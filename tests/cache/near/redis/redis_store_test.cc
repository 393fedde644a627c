// A RedisStore and a real server: what calls do there, and what a listener
// learns of writes. All of it with both protocols.

#include "wheelcache/cache/near/redis_store.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/cache/near/testing/check_store.h"
#include "wheelcache/tests/testing/awaited_fetch.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/tests/testing/relay.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::AwaitedFetch;
using testing::Connections;
using testing::ConnectionsOf;
using ::testing::IsEmpty;
using testing::Notification;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisServer;
using testing::Relay;

constexpr absl::Duration kTimeout = absl::Seconds(30);

using Results = std::vector<absl::StatusOr<RemoteStore::Fetched>>;

// A server of today's, and one of yesterday's that does not know HELLO.
enum Protocol { kResp3, kResp2, kProtocols };

std::string NameOf(const ::testing::TestParamInfo<Protocol>& info) {
  return info.param == kResp3 ? "Resp3" : "Resp2";
}

class RedisStoreTest : public ::testing::TestWithParam<Protocol> {
 protected:
  static void TearDownTestSuite() { servers_ = {}; }

  void SetUp() override {
    std::unique_ptr<RedisServer>& server = servers_[GetParam()];
    if (server == nullptr) {
      std::vector<std::string> options;
      if (GetParam() == kResp2) options = {"--rename-command", "HELLO", ""};
      auto started = RedisServer::Start(options);
      ASSERT_TRUE(started.ok()) << started.status();
      server = *std::move(started);
    }
    server_ = server.get();
    other_ = std::make_unique<RedisClient>(server_->port());
    other_->Run({"FLUSHALL"});
    store_ = NewStore({});
    ASSERT_NE(store_, nullptr);
  }

  std::unique_ptr<RedisStore> NewStore(RedisStoreOptions options) const {
    if (options.url == RedisStoreOptions().url) options.url = server_->url();
    auto store = RedisStore::Create(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  absl::StatusOr<RemoteStore::Fetched> FetchOne(absl::string_view key) {
    return store_->Fetch({key}, kTimeout)[0];
  }

  static std::array<std::unique_ptr<RedisServer>, kProtocols> servers_;
  RedisServer* server_ = nullptr;
  std::unique_ptr<RedisClient> other_;
  std::unique_ptr<RedisStore> store_;
};

std::array<std::unique_ptr<RedisServer>, kProtocols> RedisStoreTest::servers_;

// The server, and a relay in front of it.
class RedisUnderTest final : public StoreUnderTest {
 public:
  explicit RedisUnderTest(RedisServer* server)
      : server_(*server), relay_(server->port()) {}

  std::unique_ptr<RemoteStore> NewStore() override {
    RedisStoreOptions options;
    options.url = relay_.url();
    return *RedisStore::Create(options);
  }
  void Set(absl::string_view key, absl::string_view bytes,
           absl::Duration ttl) override {
    const std::string millis = absl::StrCat(absl::ToInt64Milliseconds(ttl));
    std::vector<absl::string_view> command = {"SET", key, bytes};
    if (ttl != absl::InfiniteDuration()) {
      command.insert(command.end(), {"PX", millis});
    }
    Run(command);
  }
  void Del(absl::string_view key) override { Run({"DEL", key}); }
  void Hold() override {
    for (int kind = 0; kind < Relay::kKinds; ++kind) {
      relay_.Hold(static_cast<Relay::Kind>(kind), Relay::kToClient);
    }
  }
  void Release() override { relay_.ReleaseAll(); }
  void Cut() override {
    for (int kind = 0; kind < Relay::kKinds; ++kind) {
      relay_.Close(static_cast<Relay::Kind>(kind));
    }
  }
  void Restart() override {
    server_.Kill();
    EXPECT_TRUE(server_.Restart().ok());
  }

 private:
  void Run(const std::vector<absl::string_view>& command) const {
    EXPECT_NE(RedisClient(server_.port()).Run(command), "(closed)");
  }

  RedisServer& server_;
  Relay relay_;
};

// Promise: A near cache is never staler than its bound
TEST_P(RedisStoreTest, KeepsThePromisesOfAStore) {
  RedisUnderTest subject(server_);
  EXPECT_THAT(CheckRemoteStore(subject), IsEmpty());
}

TEST_P(RedisStoreTest, AValueThatIsNoStringIsAnError) {
  other_->Run({"RPUSH", "list", "a"});
  const auto fetched = FetchOne("list");
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(fetched.status().message(), "GET: WRONGTYPE"))
      << fetched.status();
}

TEST_P(RedisStoreTest, LeasesMayCountTheTimeThatTheComputerIsSuspended) {
  RedisStoreOptions store_options;
  store_options.clock = &Clock::SinceBoot();
  const auto store = NewStore(store_options);
  NearCacheOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(
      NearCache<std::string>::Create(options, store.get()).status()));
  options.local.clock = &Clock::SinceBoot();
  options.local.reaper = nullptr;
  const auto near = NearCache<std::string>::Create(options, store.get());
  ASSERT_TRUE(near.ok()) << near.status();
  ASSERT_TRUE((*near)->WaitUntilReady(kTimeout).ok());
  EXPECT_TRUE((*near)->Set("key", "value").ok());
  EXPECT_EQ(*(*near)->Get("key"), "value");
  EXPECT_EQ(*(*near)->Get("key"), "value");
  EXPECT_LE((*near)->stats().lease_left, options.max_staleness);
  store_options.clock = nullptr;
  EXPECT_TRUE(
      absl::IsInvalidArgument(RedisStore::Create(store_options).status()));
}

TEST_P(RedisStoreTest, FetchesThatNobodyWaitsForComeToTheirEnd) {
  constexpr int kKeys = 2000;
  for (int i = 0; i < kKeys; ++i) {
    other_->Run(
        {"SET", absl::StrCat("key", i), absl::StrCat(i), "PX", "60000"});
  }
  // Before there is a connection, too.
  const auto store = NewStore({});
  std::vector<AwaitedFetch> awaited(kKeys);
  for (int i = 0; i < kKeys; ++i) {
    store->BeginFetch(absl::StrCat("key", i), kTimeout, awaited[i].done());
    if (i % 100 == 0) {  // Among those of threads that wait.
      EXPECT_EQ(store->Fetch({"key7"}, kTimeout)[0]->bytes, "7");
    }
  }
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(awaited[i].result().ok()) << awaited[i].result().status();
    EXPECT_EQ(awaited[i].result()->bytes, absl::StrCat(i));
    EXPECT_LT(awaited[i].result()->deadline_nanos, Clock::kNever);
  }
  other_->Run({"RPUSH", "list", "a"});
  AwaitedFetch wrong;
  store->BeginFetch("list", kTimeout, wrong.done());
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.result().status()));
  AwaitedFetch late;
  store->BeginFetch("key1", absl::ZeroDuration(), late.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.result().status()));
}

TEST_P(RedisStoreTest, AFetchThatNobodyWaitsForEndsAtItsDeadline) {
  EXPECT_TRUE(FetchOne("key").ok());
  server_->Stop();
  AwaitedFetch short_one;
  store_->BeginFetch("key", absl::Milliseconds(50), short_one.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(short_one.result().status()));
  AwaitedFetch long_one;
  store_->BeginFetch("key", kTimeout, long_one.done());
  server_->Continue();
  EXPECT_TRUE(long_one.result().ok()) << long_one.result().status();
  // The late reply of the first has gone to nobody.
  other_->Run({"SET", "key", "value"});
  EXPECT_EQ(FetchOne("key")->bytes, "value");
}

TEST_P(RedisStoreTest, AStoreThatEndsTellsWhatHasNotEnded) {
  EXPECT_TRUE(FetchOne("key").ok());
  server_->Stop();
  AwaitedFetch awaited;
  store_->BeginFetch("key", kTimeout, awaited.done());
  store_ = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(awaited.result().status()));
  server_->Continue();
}

TEST_P(RedisStoreTest, WritesOfManyKeysTakeOneRoundTripAndKeepTheirOrder) {
  std::vector<RemoteStore::Write> writes;
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back(absl::StrCat("key", i));
  const std::string large(1 << 20, 'x');
  for (const std::string& name : names) writes.push_back({name, name});
  writes[1500].bytes = large;
  for (const absl::Status& written : store_->PutMany(writes, kTimeout)) {
    EXPECT_TRUE(written.ok()) << written;
  }
  EXPECT_EQ(FetchOne("key2999")->bytes, "key2999");
  EXPECT_EQ(FetchOne("key1500")->bytes, large);
  std::vector<absl::string_view> keys(names.begin(), names.end());
  keys[7] = "absent";
  const auto removed = store_->RemoveMany(keys, kTimeout);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(*removed[i], i != 7);
  EXPECT_EQ(other_->Run({"DBSIZE"}), "1");
  EXPECT_TRUE(store_->PutMany({}, kTimeout).empty());
}

TEST_P(RedisStoreTest, ALockIsHeldByOneTokenUntilItsKeyIsWrittenOrRemoved) {
  using LockResult = RemoteStore::LockResult;
  const absl::Duration life = absl::Minutes(1);
  const auto take = [&](absl::string_view token) {
    return *store_->TakeLock({"key", token}, life, kTimeout);
  };
  const auto put = [&](absl::string_view token, absl::string_view value) {
    return store_->Put({"key", value, absl::Minutes(1), false, token},
                       kTimeout);
  };
  EXPECT_EQ(take("a"), LockResult::kTaken);
  EXPECT_EQ(take("b"), LockResult::kHeld);
  EXPECT_TRUE(store_->EndLock({"key", "b"}, kTimeout).ok());
  EXPECT_EQ(take("b"), LockResult::kHeld);
  EXPECT_TRUE(store_->EndLock({"key", "a"}, kTimeout).ok());
  EXPECT_EQ(take("b"), LockResult::kTaken);
  EXPECT_TRUE(absl::IsAborted(put("a", "stale")));
  EXPECT_EQ(*store_->Remove("key", kTimeout), false);
  EXPECT_TRUE(absl::IsAborted(put("b", "older than the Remove")));
  EXPECT_EQ(take("c"), LockResult::kTaken);
  EXPECT_TRUE(put("c", "value").ok());
  EXPECT_EQ(FetchOne("key")->bytes, "value");
  EXPECT_GT(FetchOne("key")->deadline_nanos, store_->clock().NowNanos());
  EXPECT_EQ(take("d"), LockResult::kKeyIsThere);
  EXPECT_EQ(other_->Run({"DBSIZE"}), "1");

  EXPECT_EQ(*store_->Remove("key", kTimeout), true);
  EXPECT_EQ(take("e"), LockResult::kTaken);
  other_->Run({"SET", "key", "of another client"});
  EXPECT_TRUE(absl::IsAborted(put("e", "loaded before")));
  EXPECT_EQ(FetchOne("key")->bytes, "of another client");
  EXPECT_EQ(*store_->Remove("key", kTimeout), true);
  EXPECT_EQ(other_->Run({"DBSIZE"}), "0");
}

TEST_P(RedisStoreTest, PutRoundsTheTtlUpToMilliseconds) {
  ASSERT_TRUE(
      store_->Put({"key", "value", absl::Nanoseconds(1)}, kTimeout).ok());
  ASSERT_TRUE(store_->Put({"long", "v", absl::Hours(1)}, kTimeout).ok());
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "long"}), &left));
  EXPECT_GT(left, 3'500'000);
  EXPECT_LE(left, 3'600'000);
}

TEST_P(RedisStoreTest, PutTakesTheLongestOfTtls) {
  const absl::Duration almost_infinite =
      absl::InfiniteDuration() - absl::Nanoseconds(1);
  for (const absl::Duration ttl : {absl::Hours(24 * 365) * 300.0,
                                   absl::Seconds(INT64_MAX), almost_infinite}) {
    EXPECT_TRUE(store_->Put({"key", "value", ttl}, kTimeout).ok()) << ttl;
  }
}

TEST_P(RedisStoreTest, FetchesManyKeysInTheirOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 2500; ++i) {
    names.push_back(absl::StrCat("key", i));
    if (i % 3 != 0) other_->Run({"SET", names.back(), absl::StrCat(i)});
  }
  const std::vector<absl::string_view> keys(names.begin(), names.end());
  const Results results = store_->Fetch(keys, kTimeout);
  ASSERT_EQ(results.size(), keys.size());
  for (int i = 0; i < 2500; ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(results[i]->bytes,
              i % 3 == 0 ? std::nullopt : std::optional(absl::StrCat(i)));
  }
}

TEST_P(RedisStoreTest, AValueThatIsNoStringIsAnErrorAmongOthersToo) {
  other_->Run({"RPUSH", "list", "a"});
  other_->Run({"SET", "key", "value"});
  const Results results = store_->Fetch({"key", "list", "absent"}, kTimeout);
  EXPECT_EQ(results[0]->bytes, "value");
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[2]->bytes, std::nullopt);
}

TEST_P(RedisStoreTest, ThreadsShareTheConnections) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = absl::StrCat("key", t);
        const std::string value = absl::StrCat(t, ":", i);
        ASSERT_TRUE(store_->Put({key, value}, kTimeout).ok());
        const auto fetched = FetchOne(key);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        ASSERT_EQ(fetched->bytes, value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // One for reads, one for writes.
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kOthers).size(), 2);
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kTracking).size(), 0);
}

TEST_P(RedisStoreTest, UsesTheSocketAndTheDatabaseOfTheUrl) {
  const std::string path = absl::StrCat("unix://", server_->socket_path());
  for (const std::string& url :
       {absl::StrCat(server_->url(), "/1"), absl::StrCat(path, "?db=1")}) {
    store_ = NewStore({url});
    ASSERT_TRUE(store_->Put({"key", url}, kTimeout).ok());
    other_->Run({"SELECT", "0"});
    EXPECT_EQ(other_->Run({"GET", "key"}), "(nil)");
    other_->Run({"SELECT", "1"});
    EXPECT_EQ(other_->Run({"GET", "key"}), url);
  }
}

TEST_P(RedisStoreTest, ACallWithoutTimeSendsNothing) {
  EXPECT_EQ(store_->Put({"key", "value"}, absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(FetchOne("key")->bytes, std::nullopt);
}

// However many keys, and however few commands.
TEST_P(RedisStoreTest, FetchesWithTheFewestCommandsInFlight) {
  other_->Run({"SET", "key", "value"});
  other_->Run({"RPUSH", "list", "a"});
  for (const int most : {2, 3, 10}) {
    RedisStoreOptions options;
    options.max_in_flight = most;
    store_ = NewStore(options);
    std::vector<absl::string_view> keys(25, "key");
    keys.back() = "list";
    const Results results = store_->Fetch(keys, kTimeout);
    for (size_t i = 0; i + 1 < keys.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      EXPECT_EQ(results[i]->bytes, "value");
    }
    EXPECT_EQ(results.back().status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(RedisStoreTest, ALargeWriteHasAConnectionOfItsOwn) {
  const std::string large(1 << 20, 'x');
  EXPECT_TRUE(store_->Put({"key", "small"}, kTimeout).ok());
  EXPECT_TRUE(FetchOne("key").ok());
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kOthers).size(), 2);
  EXPECT_TRUE(store_->Put({"large", large}, kTimeout).ok());
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kOthers).size(), 3);
  EXPECT_EQ(FetchOne("large")->bytes, large);
}

TEST_P(RedisStoreTest, CreateNamesTheOptionThatIsWrong) {
  const auto message = [](const RedisStoreOptions& options) {
    const auto store = RedisStore::Create(options);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(store.status().message());
  };
  RedisStoreOptions options;
  options.url = "http://127.0.0.1";
  EXPECT_TRUE(absl::StartsWith(message(options), "url: scheme \"http\""));
  options = {};
  options.client_name = "my cache";
  EXPECT_TRUE(absl::StartsWith(message(options), "client_name: \"my cache\""));
  options = {};
  options.connect_timeout = absl::ZeroDuration();
  EXPECT_EQ(message(options), "connect_timeout: 0 is not more than zero");
  options = {};
  options.unanswered_limit = -absl::Seconds(1);
  EXPECT_EQ(message(options), "unanswered_limit: -1s is not more than zero");
  options = {};
  options.max_in_flight = 1;
  EXPECT_TRUE(absl::StartsWith(message(options), "max_in_flight: 1 "));
}

// With a listener of "p:" that has a lease, and a key that is there.
class RedisInvalidationTest : public RedisStoreTest {
 protected:
  void SetUp() override {
    RedisStoreTest::SetUp();
    other_->Run({"CONFIG", "SET", "maxmemory", "0"});
    other_->Run({"SET", "p:key", "value"});
    ASSERT_TRUE(store_->Attach("p:", absl::Seconds(3), &listener_).ok());
    ASSERT_TRUE(listener_.AwaitLease());
    listener_.Clear();
  }
  void TearDown() override {
    if (store_ != nullptr) store_->Detach(&listener_);
  }

  bool AwaitKey(const std::string& key) {
    return listener_.Await([&] { return listener_.keys.count(key) != 0; });
  }

  // Returns whether the listener hears of "p:key" after that command.
  bool Invalidates(const std::vector<absl::string_view>& command) {
    other_->Run(command);
    return AwaitKey("p:key");
  }

  RecordingListener listener_;
};

TEST_P(RedisInvalidationTest, HearsOfEachKindOfWrite) {
  using Commands = std::vector<std::vector<absl::string_view>>;
  for (const Commands& commands : {
           Commands{{"SET", "p:key", "new"}},
           Commands{{"EXPIRE", "p:key", "100"}},
           Commands{{"PERSIST", "p:key"}},
           Commands{
               {"EVAL", "redis.call('SET', KEYS[1], 'new')", "1", "p:key"}},
           Commands{{"MULTI"}, {"APPEND", "p:key", "more"}, {"EXEC"}},
           Commands{{"DEL", "p:key"}},
           Commands{{"SET", "other", "value"}, {"RENAME", "other", "p:key"}},
       }) {
    listener_.Clear();
    for (const auto& command : commands) other_->Run(command);
    EXPECT_TRUE(AwaitKey("p:key")) << commands.back()[0];
  }
}

TEST_P(RedisInvalidationTest, HearsOfEmptiedDatabasesAsOfAllKeys) {
  other_->Run({"FLUSHALL"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
  other_->Run({"SELECT", "5"});
  other_->Run({"FLUSHDB"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 2; }));
}

// Promise: A near cache is never staler than its bound
TEST_P(RedisInvalidationTest, HearsOfAnEviction) {
  other_->Run({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  // Less than the server takes without any key, so that it evicts all.
  other_->Run({"CONFIG", "SET", "maxmemory", "1"});
  other_->Run({"GET", "p:key"});
  other_->Run({"SET", "other", "value"});
  EXPECT_TRUE(AwaitKey("p:key"));
}

TEST_P(RedisInvalidationTest, HearsOfEvictionsThatItsOwnStoreCauses) {
  for (int i = 0; i < 30; ++i) {
    other_->Run({"SET", absl::StrCat("p:", i), std::string(1000, 'x')});
  }
  EXPECT_TRUE(AwaitKey("p:29"));
  listener_.Clear();
  other_->Run({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  other_->Run({"CONFIG", "SET", "maxmemory", "1"});
  // Refused, when all the others have been evicted for it.
  store_->Put({"p:big", "value"}, kTimeout).IgnoreError();
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(AwaitKey(absl::StrCat("p:", i)));
}

TEST_P(RedisInvalidationTest, ManyKeysOfACommandComeWhole) {
  std::vector<std::string> names;
  std::vector<absl::string_view> command = {"MSET"};
  for (int i = 0; i < 5000; ++i) {
    names.push_back(absl::StrCat("p:", i, std::string(50, 'x')));
  }
  for (const std::string& name : names) {
    command.push_back(name);
    command.push_back("value");
  }
  other_->Run(command);
  EXPECT_TRUE(
      listener_.Await([&] { return listener_.keys.size() == names.size(); }));
}

TEST_P(RedisInvalidationTest, WhatIsPublishedOnTheChannelInvalidatesAll) {
  other_->Run({"PUBLISH", "__redis__:invalidate", "p:key"});
  if (GetParam() == kResp3) {
    // It does not listen to the channel.
    EXPECT_TRUE(Invalidates({"DEL", "p:key"}));
    EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 0; }));
  } else {
    EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
  }
}

TEST_P(RedisInvalidationTest, AllListenersShareAConnection) {
  std::array<RecordingListener, 30> more;
  for (size_t i = 0; i < more.size(); ++i) {
    const std::string prefix = absl::StrCat(i, ":");
    ASSERT_TRUE(store_->Attach(prefix, absl::Seconds(3), &more[i]).ok());
  }
  for (size_t i = 0; i < more.size(); ++i) {
    ASSERT_TRUE(more[i].AwaitLease());
    other_->Run({"SET", absl::StrCat(i, ":key"), "value"});
  }
  EXPECT_TRUE(listener_.AwaitLease());
  EXPECT_EQ(ConnectionsOf(*other_, Connections::kTracking).size(), 1);
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
  for (size_t i = 0; i < more.size(); ++i) {
    EXPECT_TRUE(more[i].Await(
        [&] { return more[i].keys.count(absl::StrCat(i, ":key")) == 1; }));
    EXPECT_TRUE(more[i].Await([&] { return more[i].keys.size() == 1; }));
    store_->Detach(&more[i]);
  }
}

// Under RESP3; under RESP2, all begin anew.
TEST_P(RedisInvalidationTest, AttachAndDetachLeaveTheSessionsOfOthers) {
  if (GetParam() == kResp2) GTEST_SKIP() << "RESP2";
  const uint64_t session = listener_.Session();
  for (int i = 0; i < 3; ++i) {
    RecordingListener second;
    ASSERT_TRUE(store_->Attach("q:", absl::Seconds(1), &second).ok());
    ASSERT_TRUE(second.AwaitLease());
    other_->Run({"SET", "q:key", "value"});
    EXPECT_TRUE(second.Await([&] { return second.keys.count("q:key") == 1; }));
    store_->Detach(&second);
    other_->Run({"SET", "q:key", "nobody hears it"});
  }
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
  EXPECT_EQ(listener_.Session(), session);
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys.size() == 1; }));
}

TEST_P(RedisInvalidationTest, APrefixMayOverlapWithOneThatIsGone) {
  RecordingListener second;
  ASSERT_TRUE(store_->Attach("q:", absl::Seconds(3), &second).ok());
  ASSERT_TRUE(second.AwaitLease());
  store_->Detach(&second);
  RecordingListener third;
  ASSERT_TRUE(store_->Attach("q:a:", absl::Seconds(3), &third).ok());
  ASSERT_TRUE(third.AwaitLease());
  other_->Run({"SET", "q:a:key", "value"});
  EXPECT_TRUE(third.Await([&] { return third.keys.count("q:a:key") == 1; }));
  store_->Detach(&third);
  EXPECT_TRUE(listener_.AwaitLease());
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
}

TEST_P(RedisInvalidationTest, RefusesAPrefixThatOverlaps) {
  RecordingListener second;
  for (const absl::string_view prefix : {"p:", "p", "p:a:", ""}) {
    const absl::Status status =
        store_->Attach(prefix, absl::Seconds(3), &second);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << prefix;
    EXPECT_EQ(status.message().substr(0, 13), "key_prefix: \"");
  }
}

// As the destructor of a value may, which a near cache deletes when it is told.
class AttachingListener final : public RecordingListener {
 public:
  AttachingListener(RedisStore* store, Listener* other)
      : store_(*store), other_(*other) {}

  void OnInvalidate(absl::Span<const absl::string_view> keys) override {
    invalidates.Notify();
    detaches.Wait();
    // Meanwhile the other thread comes to wait for this one.
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
    EXPECT_TRUE(store_.Attach("n:", absl::Seconds(3), &other_).ok());
    RecordingListener::OnInvalidate(keys);
  }

  Notification invalidates;
  Notification detaches;

 private:
  RedisStore& store_;
  Listener& other_;
};
TEST_P(RedisInvalidationTest, ListenerMayBeAttachedWhileAnotherIsDetached) {
  RecordingListener late;
  AttachingListener attaching(store_.get(), &late);
  ASSERT_TRUE(store_->Attach("a:", absl::Seconds(3), &attaching).ok());
  ASSERT_TRUE(attaching.AwaitLease());
  other_->Run({"SET", "a:key", "value"});
  attaching.invalidates.Wait();
  attaching.detaches.Notify();
  store_->Detach(&listener_);
  EXPECT_TRUE(late.AwaitLease());
  store_->Detach(&late);
  store_->Detach(&attaching);
}

INSTANTIATE_TEST_SUITE_P(Protocols, RedisStoreTest,
                         ::testing::Values(kResp3, kResp2), NameOf);
INSTANTIATE_TEST_SUITE_P(Protocols, RedisInvalidationTest,
                         ::testing::Values(kResp3, kResp2), NameOf);

}  // namespace
}  // namespace wheelcache
