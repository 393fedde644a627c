// A RedisStore and a real server: what calls do there, what a listener learns
// of writes, and what the store says where the server refuses it.

#include "wheelcache/cache/near/redis_store.h"

#include <algorithm>
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
#include "gtest/gtest.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using testing::FreePort;
using testing::Notification;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisServer;

constexpr absl::Duration kTimeout = absl::Seconds(30);

using Results = std::vector<absl::StatusOr<RemoteStore::Fetched>>;

class RedisStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto server = RedisServer::Start();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    other_ = std::make_unique<RedisClient>(server_->port());
    other_->Run({"FLUSHALL"});
    store_ = NewStore({});
    ASSERT_NE(store_, nullptr);
  }

  static std::unique_ptr<RedisStore> NewStore(RedisStoreOptions options) {
    if (options.url == RedisStoreOptions().url) options.url = server_->url();
    auto store = RedisStore::Create(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  absl::StatusOr<RemoteStore::Fetched> FetchOne(absl::string_view key) {
    return store_->Fetch({key}, kTimeout)[0];
  }

  static RedisServer* server_;
  std::unique_ptr<RedisClient> other_;
  std::unique_ptr<RedisStore> store_;
};

RedisServer* RedisStoreTest::server_ = nullptr;

TEST_F(RedisStoreTest, AbsentKeysAndEmptyOnesAreToldApart) {
  EXPECT_TRUE(store_->Put({"", ""}, kTimeout).ok());
  const Results results = store_->Fetch({"", "absent", ""}, kTimeout);
  EXPECT_EQ(results[0]->bytes, "");
  EXPECT_EQ(results[1]->bytes, std::nullopt);
  EXPECT_EQ(results[1]->deadline_nanos, Clock::kNever);
  EXPECT_EQ(results[2]->bytes, "");
  EXPECT_EQ(FetchOne("absent")->bytes, std::nullopt);
  EXPECT_TRUE(store_->Fetch({}, kTimeout).empty());
}

TEST_F(RedisStoreTest, AValueThatIsNoStringIsAnError) {
  other_->Run({"RPUSH", "list", "a"});
  const auto fetched = FetchOne("list");
  EXPECT_EQ(fetched.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(fetched.status().message(), "GET: WRONGTYPE"))
      << fetched.status();
}

TEST_F(RedisStoreTest, KeysAndValuesMayHaveAnyBytes) {
  const std::string key("a\0 \r\n$\xff", 7);
  std::string value;
  for (int i = 0; i < 1000; ++i) value.push_back(static_cast<char>(i));
  EXPECT_TRUE(store_->Put({key, value}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"GET", key}), value);
  EXPECT_EQ(FetchOne(key)->bytes, value);
  EXPECT_EQ(*store_->Remove(key, kTimeout), true);
}

TEST_F(RedisStoreTest, TheDeadlineIsNeverLaterThanAtTheServer) {
  other_->Run({"SET", "key", "value", "PX", "60000"});
  const int64_t before = store_->clock().NowNanos();
  const auto fetched = FetchOne("key");
  ASSERT_TRUE(fetched.ok());
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "key"}), &left));
  const int64_t after = store_->clock().NowNanos();
  EXPECT_GT(fetched->deadline_nanos, before);
  // One millisecond for the rounding of PTTL.
  EXPECT_LE(fetched->deadline_nanos,
            Clock::NanosAfter(after, absl::Milliseconds(left + 1)));
}

TEST_F(RedisStoreTest, PutRoundsTheTtlUpToMilliseconds) {
  ASSERT_TRUE(
      store_->Put({"key", "value", absl::Nanoseconds(1)}, kTimeout).ok());
  ASSERT_TRUE(store_->Put({"long", "v", absl::Hours(1)}, kTimeout).ok());
  int64_t left = 0;
  ASSERT_TRUE(absl::SimpleAtoi(other_->Run({"PTTL", "long"}), &left));
  EXPECT_GT(left, 3'500'000);
  EXPECT_LE(left, 3'600'000);
}

TEST_F(RedisStoreTest, PutTakesTheLongestOfTtls) {
  const absl::Duration almost_infinite =
      absl::InfiniteDuration() - absl::Nanoseconds(1);
  for (const absl::Duration ttl : {absl::Hours(24 * 365) * 300.0,
                                   absl::Seconds(INT64_MAX), almost_infinite}) {
    EXPECT_TRUE(store_->Put({"key", "value", ttl}, kTimeout).ok()) << ttl;
  }
}

TEST_F(RedisStoreTest, PutWithoutATtlEndsTheOldOne) {
  other_->Run({"SET", "key", "old", "PX", "60000"});
  ASSERT_TRUE(store_->Put({"key", "new"}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"PTTL", "key"}), "-1");
}

TEST_F(RedisStoreTest, RemoveTellsWhetherTheKeyWasThere) {
  other_->Run({"SET", "key", "value"});
  EXPECT_EQ(*store_->Remove("key", kTimeout), true);
  EXPECT_EQ(*store_->Remove("key", kTimeout), false);
  EXPECT_EQ(other_->Run({"GET", "key"}), "(nil)");
}

TEST_F(RedisStoreTest, FetchesManyKeysInTheirOrder) {
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

TEST_F(RedisStoreTest, AValueThatIsNoStringIsAnErrorAmongOthersToo) {
  other_->Run({"RPUSH", "list", "a"});
  other_->Run({"SET", "key", "value"});
  const Results results = store_->Fetch({"key", "list", "absent"}, kTimeout);
  EXPECT_EQ(results[0]->bytes, "value");
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[2]->bytes, std::nullopt);
}

TEST_F(RedisStoreTest, ThreadsShareTheConnections) {
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
  const std::string clients = other_->Run({"CLIENT", "LIST"});
  EXPECT_TRUE(absl::StrContains(clients, "name=wheelcache"));
  // With the other client: one for reads, one for writes.
  EXPECT_EQ(std::count(clients.begin(), clients.end(), '\n'), 3) << clients;
}

TEST_F(RedisStoreTest, UsesTheSocketAndTheDatabaseOfTheUrl) {
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

TEST_F(RedisStoreTest, ACallWithoutTimeSendsNothing) {
  EXPECT_EQ(store_->Put({"key", "value"}, absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(FetchOne("key")->bytes, std::nullopt);
}

TEST_F(RedisStoreTest, RefusesMoreCommandsThanMayBeInFlight) {
  RedisStoreOptions options;
  options.max_in_flight = 10;
  store_ = NewStore(options);
  const std::vector<absl::string_view> keys(10, "key");
  const Results results = store_->Fetch(keys, kTimeout);
  EXPECT_EQ(results[9].status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(FetchOne("key").ok());
}

TEST_F(RedisStoreTest, CreateNamesTheOptionThatIsWrong) {
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

TEST_F(RedisInvalidationTest, HearsOfEachKindOfWrite) {
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

TEST_F(RedisInvalidationTest, HearsOfItsOwnWrites) {
  const std::string key("p:\0\r\n\xff", 6);
  ASSERT_TRUE(store_->Put({key, "new"}, kTimeout).ok());
  EXPECT_TRUE(AwaitKey(key));
  listener_.Clear();
  ASSERT_TRUE(store_->Remove(key, kTimeout).ok());
  EXPECT_TRUE(AwaitKey(key));
}

TEST_F(RedisInvalidationTest, HearsOfEmptiedDatabasesAsOfAllKeys) {
  other_->Run({"FLUSHALL"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
  other_->Run({"SELECT", "5"});
  other_->Run({"FLUSHDB"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 2; }));
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisInvalidationTest, HearsOfAnExpiry) {
  other_->Run({"SET", "p:short", "value", "PX", "20"});
  EXPECT_TRUE(AwaitKey("p:short"));
  // Once for the SET, and once for the expiry.
  EXPECT_TRUE(listener_.Await([&] { return listener_.keys["p:short"] == 2; }));
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisInvalidationTest, HearsOfAnEviction) {
  other_->Run({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  // Less than the server takes without any key, so that it evicts all.
  other_->Run({"CONFIG", "SET", "maxmemory", "1"});
  other_->Run({"GET", "p:key"});
  other_->Run({"SET", "other", "value"});
  EXPECT_TRUE(AwaitKey("p:key"));
}

TEST_F(RedisInvalidationTest, HearsOfEvictionsThatItsOwnStoreCauses) {
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

TEST_F(RedisInvalidationTest, ManyKeysOfACommandComeWhole) {
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

TEST_F(RedisInvalidationTest, WhatIsPublishedOnTheChannelInvalidatesAll) {
  other_->Run({"PUBLISH", "__redis__:invalidate", "p:key"});
  EXPECT_TRUE(listener_.Await([&] { return listener_.flushes == 1; }));
}

TEST_F(RedisInvalidationTest, LeasesNeverGoBackAndTheSessionStays) {
  RecordingListener short_one;
  ASSERT_TRUE(store_->Attach("s:", absl::Milliseconds(60), &short_one).ok());
  EXPECT_TRUE(short_one.Await([&] { return short_one.leases >= 12; }));
  EXPECT_TRUE(short_one.Await(
      [&] { return !short_one.went_back && short_one.losses.empty(); }));
  store_->Detach(&short_one);
}

TEST_F(RedisInvalidationTest, EachListenerHearsOfItsOwnPrefix) {
  RecordingListener second;
  ASSERT_TRUE(store_->Attach("q:", absl::Seconds(3), &second).ok());
  ASSERT_TRUE(second.AwaitLease());
  EXPECT_NE(second.Session(), listener_.Session());
  other_->Run({"SET", "q:key", "value"});
  EXPECT_TRUE(Invalidates({"SET", "p:key", "value"}));
  EXPECT_TRUE(second.Await([&] { return second.keys.count("q:key") == 1; }));
  EXPECT_TRUE(second.Await([&] { return second.keys.size() == 1; }));
  store_->Detach(&second);
}

TEST_F(RedisInvalidationTest, RefusesAPrefixThatOverlaps) {
  RecordingListener second;
  for (const absl::string_view prefix : {"p:", "p", "p:a:", ""}) {
    const absl::Status status =
        store_->Attach(prefix, absl::Seconds(3), &second);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << prefix;
    EXPECT_EQ(status.message().substr(0, 13), "key_prefix: \"");
  }
}

TEST_F(RedisInvalidationTest, APrefixIsFreeAfterDetach) {
  store_->Detach(&listener_);
  store_->Detach(&listener_);  // Does nothing.
  EXPECT_TRUE(store_->Attach("", absl::Seconds(3), &listener_).ok());
  EXPECT_TRUE(listener_.AwaitLease(listener_.Session()));
  other_->Run({"SET", "any", "value"});
  EXPECT_TRUE(AwaitKey("any"));
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
TEST_F(RedisInvalidationTest, ListenerMayBeAttachedWhileAnotherIsDetached) {
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

constexpr absl::Duration kStaleness = absl::Seconds(3);

std::unique_ptr<RedisServer> StartServer(
    std::vector<std::string> options = {}) {
  auto server = RedisServer::Start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

std::unique_ptr<RedisStore> NewStore(const std::string& url) {
  RedisStoreOptions options;
  options.url = url;
  auto store = RedisStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

// Why a listener gets no session at this URL.
absl::Status WhyThereIsNoSession(const std::string& url) {
  const std::unique_ptr<RedisStore> store = NewStore(url);
  RecordingListener listener;
  EXPECT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  const absl::Status why = listener.AwaitLoss();
  store->Detach(&listener);
  return why;
}

// Why a call fails at this URL.
absl::Status WhyACallFails(const std::string& url) {
  return NewStore(url)->Put({"p:key", "value"}, kTimeout);
}

void ExpectMessage(const absl::Status& status,
                   const std::vector<absl::string_view>& parts) {
  for (const absl::string_view part : parts) {
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  }
}

// The URL of a server with a user in it.
std::string UrlOf(const RedisServer& server, absl::string_view user) {
  return absl::StrCat("redis://", user, "@127.0.0.1:", server.port());
}
TEST(RedisLoginTest, ServerWithAPasswordAsksForIt) {
  const auto server = StartServer({"--requirepass", "secret"});
  ASSERT_NE(server, nullptr);
  for (const absl::Status& why :
       {WhyThereIsNoSession(server->url()), WhyACallFails(server->url())}) {
    EXPECT_EQ(why.code(), absl::StatusCode::kUnauthenticated);
    ExpectMessage(why, {absl::StrCat("127.0.0.1:", server->port()),
                        "INFO: NOAUTH", "give user and password in the URL"});
  }
}

TEST(RedisLoginTest, PasswordInTheUrlLogsIn) {
  const auto server = StartServer({"--requirepass", "s@cret"});
  ASSERT_NE(server, nullptr);
  for (const absl::string_view user : {":s%40cret", "default:s@cret"}) {
    EXPECT_TRUE(WhyACallFails(UrlOf(*server, user)).ok()) << user;
  }
}

TEST(RedisLoginTest, WrongPasswordIsNotShown) {
  const auto server = StartServer({"--requirepass", "secret"});
  ASSERT_NE(server, nullptr);
  const absl::Status why = WhyACallFails(UrlOf(*server, "default:guess"));
  EXPECT_EQ(why.code(), absl::StatusCode::kUnauthenticated);
  ExpectMessage(why, {"AUTH: WRONGPASS", "correct user and password"});
  EXPECT_FALSE(absl::StrContains(why.message(), "guess"));
}

TEST(RedisLoginTest, PasswordForAServerWithoutOneIsAnError) {
  const auto server = StartServer();
  ASSERT_NE(server, nullptr);
  const absl::Status why = WhyACallFails(UrlOf(*server, ":secret"));
  EXPECT_EQ(why.code(), absl::StatusCode::kUnauthenticated);
  ExpectMessage(why, {"AUTH: ERR AUTH", "leave it out of the URL"});
}

class RedisRightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = StartServer();
    ASSERT_NE(server_, nullptr);
    other_ = std::make_unique<RedisClient>(server_->port());
  }

  // The URL of a user with these rights.
  std::string UserWith(const std::vector<absl::string_view>& rights) {
    std::vector<absl::string_view> command = {"ACL",   "SETUSER", "ann",
                                              "reset", "on",      ">secret"};
    command.insert(command.end(), rights.begin(), rights.end());
    EXPECT_EQ(other_->Run(command), "OK");
    return UrlOf(*server_, "ann:secret");
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisClient> other_;
};
// Promise: A near cache is never staler than its bound
TEST_F(RedisRightsTest, ThoseThatTheHeaderListsSuffice) {
  const std::string url =
      UserWith({"+get", "+mget", "+pttl", "+set", "+del", "~p:*", "+ping",
                "+info", "+role", "+select", "+client|id", "+client|setname",
                "+client|tracking", "+subscribe", "&__redis__:invalidate"});
  const auto store = NewStore(absl::StrCat(url, "/0"));
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  EXPECT_TRUE(listener.AwaitLease());
  EXPECT_TRUE(store->Put({"p:key", "value"}, kTimeout).ok());
  EXPECT_TRUE(
      listener.Await([&] { return listener.keys.count("p:key") == 1; }));
  EXPECT_EQ(store->Fetch({"p:key", "p:a"}, kTimeout)[0]->bytes, "value");
  EXPECT_TRUE(*store->Remove("p:key", kTimeout));
  store->Detach(&listener);
}

TEST_F(RedisRightsTest, ChannelThatIsMissingIsNamed) {
  const absl::Status why =
      WhyThereIsNoSession(UserWith({"+@all", "~*", "resetchannels"}));
  EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
  ExpectMessage(why, {"SUBSCRIBE: NOPERM", "&__redis__:invalidate"});
}

TEST_F(RedisRightsTest, TrackingThatIsMissingIsNamed) {
  const absl::Status why =
      WhyThereIsNoSession(UserWith({"+@all", "-client|tracking", "~*", "&*"}));
  EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
  ExpectMessage(why, {"CLIENT TRACKING: NOPERM", "+client|tracking"});
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisRightsTest, CommandThatIsMissingIsNamed) {
  struct Case {
    absl::string_view right;
    absl::string_view message;
  };
  for (const Case& each :
       {Case{"-info", "INFO: NOPERM"}, Case{"-role", "ROLE: NOPERM"},
        Case{"-client|id", "CLIENT ID: NOPERM"}, Case{"-set", "SET: NOPERM"}}) {
    const absl::Status why =
        WhyACallFails(UserWith({"+@all", each.right, "~*", "&*"}));
    EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
    ExpectMessage(why, {each.message, "ACL SETUSER <user> +"});
  }
}

TEST_F(RedisRightsTest, KeyThatIsNotAllowedIsAnError) {
  const absl::Status why = WhyACallFails(UserWith({"+@all", "~q:*", "&*"}));
  EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
  ExpectMessage(why, {"SET: NOPERM", "~<key_prefix>*"});
}

TEST_F(RedisRightsTest, NameForClientListIsNotNeeded) {
  EXPECT_TRUE(
      WhyACallFails(UserWith({"+@all", "-client|setname", "~*", "&*"})).ok());
}

TEST_F(RedisRightsTest, DatabaseThatIsNotThereIsAnError) {
  const absl::Status why = WhyACallFails(server_->url() + "/99");
  EXPECT_EQ(why.code(), absl::StatusCode::kInvalidArgument);
  ExpectMessage(why, {"SELECT: ERR DB index is out of range"});
}

TEST_F(RedisRightsTest, ReplicaIsRefused) {
  // A replica of a server that is not there.
  other_->Run({"REPLICAOF", "127.0.0.1", absl::StrCat(FreePort())});
  for (const absl::Status& why :
       {WhyThereIsNoSession(server_->url()), WhyACallFails(server_->url())}) {
    EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
    ExpectMessage(why, {"ROLE: the server is a slave", "URL of the primary"});
  }
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisRightsTest, DemotedServerEndsTheSession) {
  const auto store = NewStore(server_->url());
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  other_->Run({"REPLICAOF", "127.0.0.1", absl::StrCat(FreePort())});
  ExpectMessage(listener.AwaitLoss(), {"ROLE: the server is a slave"});
  other_->Run({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(listener.AwaitLease());
  store->Detach(&listener);
}

TEST(RedisLoginTest, ServerWithoutTrackingIsNamed) {
  const auto server = StartServer({"--rename-command", "CLIENT", ""});
  ASSERT_NE(server, nullptr);
  const absl::Status why = WhyThereIsNoSession(server->url());
  EXPECT_EQ(why.code(), absl::StatusCode::kUnimplemented);
  ExpectMessage(why, {"CLIENT ID: ERR unknown command", "Redis 6.0"});
}

TEST(RedisLoginTest, ServerWithTooManyClientsIsNamed) {
  const auto server = StartServer({"--maxclients", "1"});
  ASSERT_NE(server, nullptr);
  auto first = std::make_unique<RedisClient>(server->port());
  while (first->Run({"PING"}) != "PONG") {
    first = std::make_unique<RedisClient>(server->port());
  }
  const absl::Status why = WhyThereIsNoSession(server->url());
  EXPECT_EQ(why.code(), absl::StatusCode::kResourceExhausted);
  ExpectMessage(why, {"ERR max number of clients", "raise maxclients"});
}

TEST(RedisLoginTest, ServerThatIsNotThereIsNamed) {
  const int port = FreePort();
  const std::string url = absl::StrCat("redis://127.0.0.1:", port);
  for (const absl::Status& why :
       {WhyThereIsNoSession(url), WhyACallFails(url)}) {
    EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
    ExpectMessage(
        why, {absl::StrCat("127.0.0.1:", port), "connect: Connection refused"});
  }
  ExpectMessage(WhyACallFails("unix:///no/such/socket"),
                {"/no/such/socket: connect: No such file"});
}

TEST(RedisLoginTest, ServerThatDoesNotAnswerIsNamed) {
  // Takes the connection into its backlog, and never answers.
  const auto server = StartServer();
  ASSERT_NE(server, nullptr);
  server->Stop();
  RedisStoreOptions options;
  options.url = server->url();
  options.connect_timeout = absl::Milliseconds(20);
  auto store = RedisStore::Create(options);
  ASSERT_TRUE(store.ok());
  const absl::Status why = (*store)->Put({"key", "value"}, kTimeout);
  EXPECT_EQ(why.code(), absl::StatusCode::kUnavailable);
  ExpectMessage(why, {"login: no answer in 20ms"});
}

}  // namespace
}  // namespace wheelcache
