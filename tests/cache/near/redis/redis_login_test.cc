// What a RedisStore says where a real server refuses it, and with which rights
// it works.

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
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_server.h"

namespace wheelcache {
namespace {

using testing::Connections;
using testing::ConnectionsOf;
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
                        "HELLO: NOAUTH", "give user and password in the URL"});
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
  ExpectMessage(why, {"AUTH: ERR", "leave it out of the URL"});
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
using Rights = std::vector<absl::string_view>;

// What a store does with these rights.
void ExpectSuffices(const std::string& url, RedisClient& other) {
  const auto store = NewStore(url);
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  EXPECT_TRUE(listener.AwaitLease());
  EXPECT_TRUE(store->Put({"p:key", "value"}, kTimeout).ok());
  EXPECT_TRUE(
      listener.Await([&] { return listener.keys.count("p:key") == 1; }));
  EXPECT_EQ(store->Fetch({"p:key", "p:a"}, kTimeout)[0]->bytes, "value");
  EXPECT_TRUE(*store->Remove("p:key", kTimeout));
  EXPECT_EQ(other.Run({"ACL", "LOG"}), "") << "nothing was refused";
  store->Detach(&listener);
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisRightsTest, ThoseThatTheHeaderListsSuffice) {
  const Rights rights = {
      "+get",  "+mget",   "+pttl",          "+set",
      "+del",  "~p:*",    "+ping",          "+client|tracking",
      "+info", "+select", "+client|setname"};
  ExpectSuffices(absl::StrCat(UserWith(rights), "/0"), *other_);
}

TEST_F(RedisRightsTest, ThoseThatTheHeaderListsForRESP2Suffice) {
  server_ = StartServer({"--rename-command", "HELLO", ""});
  ASSERT_NE(server_, nullptr);
  other_ = std::make_unique<RedisClient>(server_->port());
  const Rights rights = {"+get",
                         "+mget",
                         "+pttl",
                         "+set",
                         "+del",
                         "~p:*",
                         "+ping",
                         "+client|tracking",
                         "+info",
                         "+select",
                         "+client|setname",
                         "+role",
                         "+client|id",
                         "+subscribe",
                         "&__redis__:invalidate"};
  ExpectSuffices(absl::StrCat(UserWith(rights), "/0"), *other_);
}

// Without INFO, a new connection may have reached another server.
TEST_F(RedisRightsTest, WithoutInfoANewConnectionForDataEndsTheSession) {
  const auto store = NewStore(UserWith({"+@all", "-info", "~*", "&*"}));
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  ASSERT_TRUE(store->Put({"p:key", "value"}, kTimeout).ok());
  ASSERT_TRUE(store->Fetch({"p:key"}, kTimeout)[0].ok());
  ASSERT_TRUE(listener.AwaitLease());
  const uint64_t session = listener.Session();
  for (const std::string& id : ConnectionsOf(*other_, Connections::kOthers)) {
    other_->Run({"CLIENT", "KILL", "ID", id});
  }
  EXPECT_TRUE(listener.AwaitLease(session));
  store->Detach(&listener);
}

TEST_F(RedisRightsTest, ChannelThatIsMissingIsNamed) {
  server_ = StartServer({"--rename-command", "HELLO", ""});
  ASSERT_NE(server_, nullptr);
  other_ = std::make_unique<RedisClient>(server_->port());
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
  const absl::Status why =
      WhyACallFails(UserWith({"+@all", "-set", "~*", "&*"}));
  EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
  ExpectMessage(why, {"SET: NOPERM", "ACL SETUSER <user> +"});
}

// However long the caller would wait.
TEST_F(RedisRightsTest, WaitingForASessionEndsWhereItCannotHelp) {
  const auto store =
      NewStore(UserWith({"+@all", "-client|tracking", "~*", "&*"}));
  NearCacheOptions options;
  options.key_prefix = "p:";
  const auto near = NearCache<std::string>::Create(options, store.get());
  ASSERT_TRUE(near.ok()) << near.status();
  const absl::Status why = (*near)->WaitUntilReady(absl::InfiniteDuration());
  EXPECT_EQ(why.code(), absl::StatusCode::kPermissionDenied);
  ExpectMessage(why, {"CLIENT TRACKING: NOPERM"});
  // Reads go to the server meanwhile; and the session comes with the right.
  EXPECT_TRUE((*near)->Get("key").ok());
  other_->Run({"ACL", "SETUSER", "ann", "+client|tracking"});
  while (!(*near)->WaitUntilReady(absl::Milliseconds(10)).ok()) {
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
    ExpectMessage(why, {"ROLE: the server is a replica", "URL of the primary"});
  }
}

// Promise: A near cache is never staler than its bound
TEST_F(RedisRightsTest, DemotedServerEndsTheSession) {
  const auto store = NewStore(server_->url());
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  other_->Run({"REPLICAOF", "127.0.0.1", absl::StrCat(FreePort())});
  ExpectMessage(listener.AwaitLoss(), {"ROLE: the server is a replica"});
  other_->Run({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(listener.AwaitLease());
  store->Detach(&listener);
}

TEST(RedisLoginTest, NodeOfAClusterIsRefused) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--rename-command", "HELLO", ""}}) {
    std::vector<std::string> options = {"--cluster-enabled", "yes"};
    options.insert(options.end(), more.begin(), more.end());
    const auto server = StartServer(options);
    ASSERT_NE(server, nullptr);
    for (const absl::Status& why :
         {WhyThereIsNoSession(server->url()), WhyACallFails(server->url())}) {
      EXPECT_EQ(why.code(), absl::StatusCode::kUnimplemented) << why;
      ExpectMessage(why, {"the server is a node of a cluster"});
    }
  }
}

// As proxies and older servers do.
TEST(RedisLoginTest, PasswordThatTheServerRepeatsIsNotShown) {
  const auto server = StartServer({"--rename-command", "AUTH", ""});
  ASSERT_NE(server, nullptr);
  const absl::Status why = WhyACallFails(UrlOf(*server, "ann:guess"));
  ExpectMessage(why, {"AUTH: ERR; this needs Redis 6.0 or later"});
  EXPECT_FALSE(absl::StrContains(why.message(), "guess"));
}

TEST(RedisLoginTest, ServerWithoutTrackingIsNamed) {
  const auto server = StartServer({"--rename-command", "CLIENT", ""});
  ASSERT_NE(server, nullptr);
  const absl::Status why = WhyThereIsNoSession(server->url());
  EXPECT_EQ(why.code(), absl::StatusCode::kUnimplemented);
  ExpectMessage(why, {"CLIENT TRACKING: ERR unknown command", "Redis 6.0"});
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
