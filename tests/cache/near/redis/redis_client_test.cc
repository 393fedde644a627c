// The parts of the Redis client that need no server: URLs, commands, sockets,
// and when it connects again.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/tests/testing/loopback.h"
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

TEST(ServerUrlTest, SchemeTellsWhetherThereIsTls) {
  EXPECT_EQ(Described("rediss://ann:secret@host/1"),
            "host:6379 as \"ann\" with \"secret\" in 1");
  EXPECT_TRUE(ParseServerUrl("rediss://host")->has_tls);
  EXPECT_FALSE(ParseServerUrl("redis://host")->has_tls);
  EXPECT_FALSE(ParseServerUrl("unix:///path")->has_tls);
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

TEST(ServerUrlTest, SentinelsStandBeforeTheNameOfThePrimary) {
  const auto url = ParseServerUrl(
      "redis+sentinel://ann:secret@one,[::1]:7,two:8/my-primary/3");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->name(), "my-primary");
  EXPECT_EQ(url->user, "ann");
  EXPECT_EQ(url->database, 3);
  ASSERT_EQ(url->hosts.size(), 3);
  EXPECT_EQ(url->hosts[0].host, "one");
  EXPECT_EQ(url->hosts[0].port, 26379);
  EXPECT_EQ(url->hosts[1].host, "::1");
  EXPECT_EQ(url->hosts[1].port, 7);
  EXPECT_EQ(url->hosts[2].port, 8);
}

TEST(ServerUrlTest, SeveralHostsAreSeeds) {
  const auto url = ParseServerUrl("rediss://:secret@one,[::1]:7,two:8/");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->password, "secret");
  ASSERT_EQ(url->hosts.size(), 3);
  EXPECT_EQ(url->hosts[0].name(), "one:6379");
  EXPECT_EQ(url->hosts[1].name(), "[::1]:7");
  EXPECT_EQ(url->hosts[2].name(), "two:8");
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
           Case{"http://host", "url: scheme \"http\" is none of redis, rediss"},
           Case{"redis+sentinel://a", "url: there is no name of a primary"},
           Case{"redis+sentinel://a/", "url: there is no name of a primary"},
           Case{"redis+sentinel://a,/b", "url: host \"\" is empty"},
           Case{"redis+sentinel://a/b/c", "url: database \"c\" is not a"},
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

TEST(CommandTest, ArgumentsMayHaveAnyBytes) {
  std::string bytes = "before";
  AppendCommand({"SET", "", std::string(100'000, 'x')}, &bytes);
  EXPECT_EQ(bytes, absl::StrCat("before*3\r\n$3\r\nSET\r\n$0\r\n\r\n$100000",
                                "\r\n", std::string(100'000, 'x'), "\r\n"));
  bytes.clear();
  AppendCommand({absl::string_view("\0\r\n$3\r\n*1", 9)}, &bytes);
  EXPECT_EQ(bytes, absl::string_view("*1\r\n$9\r\n\0\r\n$3\r\n*1\r\n", 19));
}

constexpr ReplyReader::Limits kLimits = {100, 1000};

// A reply as text.
std::string Shown(const Reply& reply) {
  constexpr absl::string_view kTypes[] = {"null", ":", "+", "-", "$", "*", ">"};
  std::string shown(kTypes[static_cast<size_t>(reply.type)]);
  if (reply.type == Reply::Type::kInteger)
    absl::StrAppend(&shown, reply.integer);
  shown += reply.text;
  for (const Reply& each : reply.elements) {
    absl::StrAppend(&shown, "(", Shown(each), ")");
  }
  return shown;
}

// What a reader makes of bytes in pieces of this size: replies, and what broke.
std::string Read(absl::string_view bytes, size_t piece) {
  std::string shown;
  ReplyReader reader(kLimits);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    reader.Feed(bytes.substr(0, piece));
    Reply reply;
    ReplyReader::Result result;
    while ((result = reader.Next(&reply)) == ReplyReader::kReply) {
      absl::StrAppend(&shown, Shown(reply), " ");
    }
    if (result == ReplyReader::kBroken) {
      EXPECT_EQ(reader.Next(&reply), ReplyReader::kBroken);
      return absl::StrCat(shown, "broken: ", reader.error());
    }
  }
  return shown;
}

// The same for all sizes of pieces.
std::string Read(absl::string_view bytes) {
  const std::string whole = Read(bytes, bytes.size());
  for (size_t piece = 1; piece < bytes.size(); ++piece) {
    EXPECT_EQ(Read(bytes, piece), whole) << piece;
  }
  return whole;
}
TEST(ReplyReaderTest, ReadsEveryTypeOfBothProtocols) {
  EXPECT_EQ(Read("+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$0\r\n\r\n"),
            "+OK -ERR no :-7 $a\r\n $ ");
  EXPECT_EQ(Read("$-1\r\n*-1\r\n_\r\n*0\r\n%0\r\n"), "null null null * * ");
  EXPECT_EQ(Read("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n~1\r\n_\r\n"),
            "*(*(:1))($x) *(null) ");
  EXPECT_EQ(Read("%1\r\n+a\r\n#t\r\n#f\r\n,1.5\r\n(123\r\n"),
            "*(+a)(:1) :0 $1.5 $123 ");
  EXPECT_EQ(Read("=6\r\ntxt:hi\r\n!5\r\nERR x\r\n"), "$hi -ERR x ");
  EXPECT_EQ(Read(">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n"),
            ">(+invalidate)(*($k)) ");
}

TEST(ReplyReaderTest, AttributesAreLeftOut) {
  EXPECT_EQ(Read("|1\r\n+ttl\r\n:3600\r\n+OK\r\n"), "+OK ");
  EXPECT_EQ(Read("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n"), "*(:2)(:3) ");
}

TEST(ReplyReaderTest, WhatNoServerSendsIsBroken) {
  struct Case {
    std::string bytes;
    absl::string_view error;
  };
  for (const Case& each : {
           Case{"\r\n", "a line is empty"},
           Case{"hello\r\n", "a line begins with no type"},
           Case{"+OK\n", "a line has no CR"},
           Case{":\r\n", "a number is none"},
           Case{":1x\r\n", "a number is none"},
           Case{": 1\r\n", "a number is none"},
           Case{":9223372036854775808\r\n", "a number is none"},
           Case{"#x\r\n", "a boolean is none"},
           Case{"_1\r\n", "a null has a value"},
           Case{"$-2\r\n", "the length of a string is none"},
           Case{"$?\r\n", "the length of a string is none"},
           Case{"=3\r\ntxt\r\n", "the length of a string is none"},
           Case{"$1\r\nab\r\n", "a string is longer than announced"},
           Case{"*x\r\n", "the length of an array is none"},
           Case{">-1\r\n", "the length of an array is none"},
           Case{"|0\r\n", "an attribute is empty"},
       }) {
    EXPECT_EQ(Read(each.bytes), absl::StrCat("broken: ", each.error))
        << each.bytes;
  }
  EXPECT_EQ(Read("+OK\r\n?\r\n"), "+OK broken: a line begins with no type");
}

TEST(ReplyReaderTest, WhatExceedsALimitIsBrokenWhenItIsAnnounced) {
  EXPECT_EQ(Read("*101\r\n"), "broken: a reply has too many elements");
  EXPECT_EQ(Read("%51\r\n"), "broken: a reply has too many elements");
  EXPECT_EQ(Read("*9223372036854775807\r\n"),
            "broken: a reply has too many elements");
  EXPECT_EQ(Read("*2\r\n*50\r\n"), "");
  EXPECT_EQ(Read("*2\r\n*99\r\n"), "broken: a reply has too many elements");
  EXPECT_EQ(Read("$536870913\r\n"), "broken: a string is longer than 512 MiB");
  EXPECT_EQ(Read("$1001\r\n"), "broken: a reply has too many bytes");
  const std::string half =
      absl::StrCat("$499\r\n", std::string(499, 'x'), "\r\n");
  EXPECT_EQ(Read(absl::StrCat("*3\r\n", half, half)),
            "broken: a reply has too many bytes");
  std::string deep;
  for (size_t i = 0; i < ReplyReader::kMaxDepth; ++i) deep += "*1\r\n";
  EXPECT_EQ(Read(deep + ":1\r\n"), "*(*(*(*(*(*(*(*(:1)))))))) ");
  EXPECT_EQ(Read(deep + "*1\r\n"),
            "broken: more than 8 arrays lie in each other");
  EXPECT_EQ(Read("+" + std::string(ReplyReader::kMaxLineBytes, 'x'), 1000),
            "broken: a line is longer than 64 KiB");
  // Each reply has the limits for itself.
  std::string many;
  for (int i = 0; i < 5; ++i)
    absl::StrAppend(&many, "$900\r\n", std::string(900, 'x'), "\r\n");
  EXPECT_EQ(Read(many, 100).size(), 5 * 902);
}

// Each part of a map is found by its key.
TEST(ReplyTest, FindsWhatStandsBehindAKey) {
  ReplyReader reader(kLimits);
  reader.Feed("%2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$2\r\nid\r\n:7\r\n");
  Reply reply;
  ASSERT_EQ(reader.Next(&reply), ReplyReader::kReply);
  EXPECT_EQ(reply.Find("id")->integer, 7);
  EXPECT_EQ(reply.Find("role")->text, "master");
  EXPECT_EQ(reply.Find("master"), nullptr);
  EXPECT_EQ(Reply().Find("id"), nullptr);
}

Reply ErrorReply(absl::string_view text) {
  Reply reply;
  reply.type = Reply::Type::kError;
  reply.text = std::string(text);
  return reply;
}
TEST(ReplyTest, ErrorsAreShownInOneLine) {
  EXPECT_EQ(StatusOfError("GET", ErrorReply("ERR unknown\nFATAL: forged")),
            absl::UnknownError("GET: ERR unknown\\nFATAL: forged"));
  EXPECT_LT(StatusOfError("GET", ErrorReply(std::string(10'000, 'x')))
                .message()
                .size(),
            300);
}

TEST(ReplyTest, ErrorsOfAuthShowNothingThatMayBeThePassword) {
  for (const absl::string_view text :
       {"ERR unknown command `AUTH`, with args beginning with: `SECRET`",
        "SECRET is no command", "WRONGPASS SECRET", "NOPERM SECRET",
        "SECRET"}) {
    const absl::Status status = StatusOfSecret("AUTH", ErrorReply(text));
    EXPECT_FALSE(absl::StrContains(status.message(), "SECRET")) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(), "AUTH: ")) << status;
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

  std::unique_ptr<Socket> Connect() const {
    Endpoint endpoint(*ParseServerUrl(absl::StrCat("unix://", path_)));
    return *Socket::Connect(*endpoint.Address());
  }

  std::string path_;
  int listener_ = -1;
};

// As one that a child of fork() has.
TEST_F(SocketTest, ConnectionEndsThoughACopyOfItsDescriptorIsOpen) {
  int copy = -1;
  int peer = -1;
  {
    const std::unique_ptr<Socket> socket = Connect();
    copy = dup(socket->fd());
    peer = accept(listener_, nullptr, nullptr);
  }
  char byte;
  EXPECT_EQ(recv(peer, &byte, 1, MSG_DONTWAIT), 0) << "the end";
  close(peer);
  close(copy);
}

// The server's end of a connection, which reads when it is told to.
class WireTest : public SocketTest {
 protected:
  WireTest() : wire_(Connect(), kLimits) {
    EXPECT_EQ(*wire_.stream().Prepare(), 0);
    peer_ = accept(listener_, nullptr, nullptr);
  }
  ~WireTest() override { close(peer_); }

  // Reads so many bytes, which leave as there is room.
  std::string Read(size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      std::string some(std::min<size_t>(size - bytes.size(), 1 << 16), ' ');
      const ssize_t got = recv(peer_, some.data(), some.size(), MSG_DONTWAIT);
      if (got > 0) bytes.append(some, 0, static_cast<size_t>(got));
      EXPECT_TRUE(wire_.Flush().ok());
    }
    return bytes;
  }

  Wire wire_;
  int peer_ = -1;
};
TEST_F(WireTest, BytesLeaveInTheirOrderAndAreFreed) {
  constexpr size_t kMebibyte = 1 << 20;
  std::string all;
  for (const size_t size : {size_t{10}, 40 * kMebibyte, size_t{7}, kMebibyte,
                            size_t{20}, 2 * kMebibyte}) {
    std::string bytes;
    while (bytes.size() < size) absl::StrAppend(&bytes, all.size(), ",");
    all += bytes;
    ASSERT_TRUE(wire_.Send(std::move(bytes)).ok());
  }
  EXPECT_GT(wire_.unsent_bytes(), 42 * kMebibyte);
  std::string read;
  while (read.size() < all.size()) {
    read += Read(std::min(4 * kMebibyte, all.size() - read.size()));
    // At most as much as has not left, and what the system has taken.
    EXPECT_LE(wire_.unsent_bytes(), 2 * (all.size() - read.size()));
  }
  EXPECT_TRUE(read == all);
  EXPECT_FALSE(wire_.has_unsent());
  EXPECT_EQ(wire_.unsent_bytes(), 0);
}

TEST_F(WireTest, RepliesBeforeWhatIsBrokenAreTaken) {
  const std::string bytes = "+OK\r\n*50000000\r\n";
  ASSERT_EQ(send(peer_, bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  std::vector<Reply> replies;
  const absl::Status status = wire_.Receive(&replies, Stream::Wait::kBriefly);
  EXPECT_EQ(replies.size(), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "too many elements"));
}

SocketAddress AddressOf(int number) {
  SocketAddress address;
  const sockaddr_in local = testing::Loopback(number);
  std::memcpy(&address.storage, &local, sizeof(local));
  address.size = sizeof(local);
  return address;
}
// Else connections to different servers would end each other's sessions.
TEST(EndpointTest, AllConnectionsGoToOneAddressWhateverTheResolverSays) {
  std::vector<SocketAddress> answer = {AddressOf(1), AddressOf(2),
                                       AddressOf(3)};
  Endpoint endpoint({}, [&](const ServerUrl&) {
    std::rotate(answer.begin(), answer.begin() + 1, answer.end());
    return answer;
  });
  EXPECT_TRUE(*endpoint.Address() == AddressOf(2));
  EXPECT_TRUE(*endpoint.Address() == AddressOf(2));
  endpoint.GiveUp(AddressOf(3));  // Of an attempt before that.
  EXPECT_TRUE(*endpoint.Address() == AddressOf(2));
}

TEST(EndpointTest, EachAddressIsTriedBeforeOneIsTriedAgain) {
  const std::vector<SocketAddress> answer = {AddressOf(1), AddressOf(2),
                                             AddressOf(3)};
  Endpoint endpoint({}, [&](const ServerUrl&) { return answer; });
  for (const int number : {1, 2, 3, 1, 2}) {
    EXPECT_TRUE(*endpoint.Address() == AddressOf(number)) << number;
    endpoint.GiveUp(AddressOf(number));
  }
  EXPECT_TRUE(*endpoint.Address() == AddressOf(3));
  endpoint.Keep();
  EXPECT_TRUE(*endpoint.Address() == AddressOf(3));
  // A new start: that one is lost, and the first is another choice.
  endpoint.GiveUp(AddressOf(3));
  EXPECT_TRUE(*endpoint.Address() == AddressOf(1));
}

TEST(EndpointTest, SaysThatAHostCannotBeResolved) {
  Endpoint endpoint(*ParseServerUrl("redis://host.invalid"));
  const absl::Status status = endpoint.Address().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(status.message(),
                               "cannot resolve host \"host.invalid\": "));
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

// To a server that is not there, so that each attempt fails at once.
class ConnectorTest : public ::testing::Test {
 protected:
  Connector ToNobody(uint64_t seed) {
    return Connector({"test", absl::Seconds(1)}, &endpoint_, kLimits, seed);
  }

  Endpoint endpoint_{*ParseServerUrl("unix:///nobody/listens/here")};
};

// Lets an attempt fail. Returns how long the pause is that follows.
absl::Duration PauseAfterFailure(Connector* connector, int64_t* now_nanos) {
  connector->Hurry(*now_nanos);
  EXPECT_FALSE(connector->Advance(/*revents=*/0, *now_nanos).ok());
  const int64_t begin = *now_nanos;
  *now_nanos = connector->Request().wake_nanos;
  return absl::Nanoseconds(*now_nanos - begin);
}
TEST_F(ConnectorTest, PauseIsShortAgainOnceAConnectionHasServed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Connector connector = ToNobody(seed);
    int64_t now_nanos = 0;
    for (int i = 0; i < 9; ++i) PauseAfterFailure(&connector, &now_nanos);
    connector.ResetBackoff();
    EXPECT_LE(PauseAfterFailure(&connector, &now_nanos),
              absl::Milliseconds(50));
  }
}

TEST_F(ConnectorTest, NoAttemptIsMadeInAPause) {
  Connector connector = ToNobody(/*seed=*/1);
  int64_t now_nanos = 0;
  PauseAfterFailure(&connector, &now_nanos);
  EXPECT_TRUE(connector.Advance(/*revents=*/0, now_nanos - 1).ok());
  EXPECT_FALSE(connector.Advance(/*revents=*/0, now_nanos).ok());
}

}  // namespace
}  // namespace wheelcache::internal
