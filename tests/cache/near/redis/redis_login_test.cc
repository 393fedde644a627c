// What a RedisStore says where the server refuses it, and where it finds one.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"

namespace wheelcache {
namespace {

using testing::FreePort;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisServer;

constexpr absl::Duration kTimeout = absl::Seconds(30);
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
