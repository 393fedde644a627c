// The parts of the Redis client that need no server: URLs, commands, sockets,
// and when it connects again.

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

std::string Described(absl::string_view url) {
  const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
  if (!parsed.ok()) return std::string(parsed.status().message());
  return absl::StrCat(parsed->name(), " as \"", parsed->user, "\" with \"",
                      parsed->password, "\" in ", parsed->database);
}
TEST(ServerUrlTest, HostPortAndDatabaseMayBeLeftOut) {
  EXPECT_EQ(Described("redis://host"), "host:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://host/"), "host:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://host:1/12"), "host:1 as \"\" with \"\" in 12");
  EXPECT_EQ(Described("redis://1.2.3.4:65535"),
            "1.2.3.4:65535 as \"\" with \"\" in 0");
}

TEST(ServerUrlTest, UserAndPasswordMayHaveAnyCharacters) {
  EXPECT_EQ(Described("redis://ann:secret@host"),
            "host:6379 as \"ann\" with \"secret\" in 0");
  EXPECT_EQ(Described("redis://:secret@host"),
            "host:6379 as \"\" with \"secret\" in 0");
  EXPECT_EQ(Described("redis://a%3Ab:%40%2f%25:@host"),
            "host:6379 as \"a:b\" with \"@/%:\" in 0");
  EXPECT_EQ(Described("redis://ann:p@ss@host"),
            "host:6379 as \"ann\" with \"p@ss\" in 0");
}

TEST(ServerUrlTest, IPv6StandsInBrackets) {
  EXPECT_EQ(Described("redis://[::1]"), "[::1]:6379 as \"\" with \"\" in 0");
  EXPECT_EQ(Described("redis://ann:x@[fe80::1]:7/2"),
            "[fe80::1]:7 as \"ann\" with \"x\" in 2");
}

TEST(ServerUrlTest, PathOfASocketMayHaveADatabase) {
  EXPECT_EQ(Described("unix:///run/redis.sock"),
            "/run/redis.sock as \"\" with \"\" in 0");
  EXPECT_EQ(Described("unix:///run/a@b.sock?db=3"),
            "/run/a@b.sock as \"\" with \"\" in 3");
  EXPECT_EQ(Described("unix://ann:secret@/run/redis.sock"),
            "/run/redis.sock as \"ann\" with \"secret\" in 0");
}

TEST(ServerUrlTest, WhatIsWrongIsNamedWithItsRule) {
  struct Case {
    std::string url;
    absl::string_view start;
  };
  for (const Case& each : {
           Case{"",
                "url: there is no scheme before \"://\"; a URL is redis://"},
           Case{"localhost:6379", "url: there is no scheme before \"://\""},
           Case{"http://host", "url: scheme \"http\" is neither redis nor"},
           Case{"rediss://host", "url: scheme \"rediss\" needs TLS"},
           Case{"redis://", "url: host \"\" is empty"},
           Case{"redis:///1", "url: host \"\" is empty"},
           Case{"redis://:7", "url: host \":7\" is empty"},
           Case{"redis://host:", "url: port \"\" is not a number from 1"},
           Case{"redis://host:0", "url: port \"0\" is not a number from 1"},
           Case{"redis://host:65536", "url: port \"65536\" is not a number"},
           Case{"redis://host:6379x", "url: what follows the \":\" is neither"},
           Case{"redis://host/-1", "url: database \"-1\" is not a number from"},
           Case{"redis://host/1/2", "url: database \"1/2\" is not a number"},
           Case{"redis://a:b:1", "url: the host has two \":\"; IPv6 stands in"},
           Case{"redis://[::1", "url: host \"[::1\" has no \"]\""},
           Case{"redis://[[a]", "url: the host has other characters"},
           Case{"redis://[::1]7", "url: host \"[::1]7\" has more after"},
           Case{"redis://ann@host", "url: the user has no password after it"},
           Case{"redis://ann:a%@host", "url: the user or the password has a"},
           Case{"redis://ann:a%4@host", "url: the user or the password has a"},
           Case{"redis://ann:a%zz@host", "url: the user or the password has a"},
           Case{"redis://ann:a/b@host",
                "url: there is a \"/\" or \"?\" before"},
           Case{"unix://run/redis.sock", "url: path \"run/redis.sock\" does"},
           Case{"unix://", "url: path \"\" does not begin with \"/\""},
           Case{"unix:///a?x=1", "url: query \"x=1\" is not db=<number>"},
           Case{"unix:///a?db=x", "url: database \"x\" is not a number"},
           Case{"unix:///" + std::string(200, 'a'), "url: path \"/aaa"},
           Case{std::string("redis://a\0b", 11), "url: has a null character"},
       }) {
    const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(each.url);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << each.url;
    EXPECT_TRUE(absl::StartsWith(parsed.status().message(), each.start))
        << parsed.status();
  }
}

TEST(ServerUrlTest, NoMessageShowsThePassword) {
  for (const absl::string_view url :
       {"redis://ann:secret", "redis://ann:secret:1", "redis://ann:secret@",
        "redis://ann:secret@host:x", "redis://ann:secret/@host",
        "redis://ann:secret%@host", "ann:secret@host", "unix://ann:secret@run",
        "redis://secret@host", "redis:///ann:secret@host",
        "redis://host/ann:secret@host", "ann:secret@redis://host",
        "redis://@host/ann:secret@", "unix:///path?db=ann:secret@",
        "unix://ann:p@s/secret@/run", "unix://ann:p@s?secret@/run",
        "redis://ann:p@[s?secret@host", "unix://@s/ann:secret@/run"}) {
    const absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
    EXPECT_FALSE(parsed.ok()) << url;
    EXPECT_FALSE(absl::StrContains(parsed.status().message(), "secret"))
        << parsed.status();
  }
}

// As hiredis formats it.
std::string Formatted(const std::vector<absl::string_view>& arguments) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const absl::string_view argument : arguments) {
    texts.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  char* formatted = nullptr;
  const auto size = redisFormatCommandArgv(
      &formatted, static_cast<int>(texts.size()), texts.data(), sizes.data());
  std::string bytes(formatted, static_cast<size_t>(size));
  redisFreeCommand(formatted);
  return bytes;
}
TEST(CommandTest, BytesAreThoseThatHiredisWrites) {
  std::vector<std::string> texts;
  for (const size_t size :
       {0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 100'000}) {
    texts.emplace_back(size, 'x');
  }
  texts.emplace_back("\0\r\n$3\r\n*1\r\n", 12);
  std::vector<absl::string_view> arguments;
  for (size_t count = 1; count <= 12; ++count) {
    arguments.emplace_back(texts[count % texts.size()]);
    std::string bytes = "before";
    AppendCommand(arguments, &bytes);
    EXPECT_EQ(bytes, "before" + Formatted(arguments));
  }
}

class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_ = absl::StrCat("/tmp/wheelcache-socket-test-", getpid());
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* const any = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
  }
  ~SocketTest() override {
    close(listener_);
    unlink(path_.c_str());
  }

  Socket Connect() {
    return *Socket::Connect(*ParseServerUrl(absl::StrCat("unix://", path_)));
  }

  std::string path_;
  int listener_ = -1;
};

bool IsOpen(int fd) {
  const int copy = dup(fd);
  if (copy >= 0) close(copy);
  return copy >= 0;
}
TEST_F(SocketTest, ConnectionMovesAndEndsWithItsOwner) {
  int fd = -1;
  {
    Socket first = Connect();
    fd = first.fd();
    const Socket second = std::move(first);
    EXPECT_EQ(second.fd(), fd);
    EXPECT_EQ(first.fd(), -1);  // NOLINT(bugprone-use-after-move): none.
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

// As one that a child of fork() has.
TEST_F(SocketTest, ConnectionEndsThoughACopyOfItsDescriptorIsOpen) {
  int copy = -1;
  int peer = -1;
  {
    const Socket socket = Connect();
    copy = dup(socket.fd());
    peer = accept(listener_, nullptr, nullptr);
  }
  char byte;
  EXPECT_EQ(recv(peer, &byte, 1, MSG_DONTWAIT), 0) << "the end";
  close(peer);
  close(copy);
}

constexpr uint64_t kSeeds = 200;
TEST(BackoffTest, LimitOfThePausesDoublesFrom50MillisecondsTo5Seconds) {
  absl::Duration limit = absl::Milliseconds(50);
  for (int pauses = 1; pauses <= 10; ++pauses) {
    absl::Duration longest;
    absl::Duration shortest = absl::InfiniteDuration();
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Backoff backoff(seed);
      absl::Duration pause;
      for (int i = 0; i < pauses; ++i) pause = backoff.Next();
      longest = std::max(longest, pause);
      shortest = std::min(shortest, pause);
    }
    EXPECT_LE(longest, limit) << pauses;
    EXPECT_GE(longest, 0.9 * limit) << pauses;
    EXPECT_LE(shortest, 0.1 * limit) << pauses;
    limit = std::min(2 * limit, absl::Seconds(5));
  }
}

// Of a server that is not there, so that each attempt fails at once.
ConnectorSettings SettingsOfNobody() {
  return {*ParseServerUrl("unix:///nobody/listens/here"), "test",
          absl::Seconds(1)};
}

// Lets an attempt fail. Returns how long the pause is that follows.
absl::Duration PauseAfterFailure(Connector* connector, int64_t* now_nanos) {
  connector->Hurry(*now_nanos);
  EXPECT_FALSE(connector->Advance(/*revents=*/0, *now_nanos).ok());
  const int64_t begin = *now_nanos;
  *now_nanos = connector->Request().wake_nanos;
  return absl::Nanoseconds(*now_nanos - begin);
}
TEST(ConnectorTest, PauseIsShortAgainOnceAConnectionHasServed) {
  const ConnectorSettings settings = SettingsOfNobody();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Connector connector(settings, seed);
    int64_t now_nanos = 0;
    for (int i = 0; i < 9; ++i) PauseAfterFailure(&connector, &now_nanos);
    connector.ResetBackoff();
    EXPECT_LE(PauseAfterFailure(&connector, &now_nanos),
              absl::Milliseconds(50));
  }
}

TEST(ConnectorTest, NoAttemptIsMadeInAPause) {
  const ConnectorSettings settings = SettingsOfNobody();
  Connector connector(settings, /*seed=*/1);
  int64_t now_nanos = 0;
  PauseAfterFailure(&connector, &now_nanos);
  EXPECT_TRUE(connector.Advance(/*revents=*/0, now_nanos - 1).ok());
  EXPECT_FALSE(connector.Advance(/*revents=*/0, now_nanos).ok());
}

}  // namespace
}  // namespace wheelcache::internal
