// What the store makes of bytes that a server, or anything else at its address,
// sends. The first byte chooses who reads the rest:
//
//  - the parser, in pieces of a size that it chooses too: the replies are the
//    same as from one piece;
//  - a login, which succeeds only with all that it needs to know;
//  - a Fetch: each key gets a result, and the value is one that was sent;
//  - a session: its listener gets its calls in the promised order.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/fetch.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/session_link.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// Fits into the buffer of a socket.
constexpr size_t kMostBytes = 16 << 10;

void Require(bool condition, absl::string_view rule) {
  if (condition) return;
  std::cerr << rule << std::endl;
  std::abort();
}

// Small, so that an input can exceed them.
constexpr ReplyReader::Limits kLimits = {64, 1 << 12};

// A reply as text.
std::string Shown(const Reply& reply) {
  std::string shown =
      absl::StrCat(static_cast<int>(reply.type), " ", reply.integer, " \"",
                   absl::CHexEscape(reply.text), "\"");
  for (const Reply& each : reply.elements) {
    absl::StrAppend(&shown, "(", Shown(each), ")");
  }
  return shown;
}

// Returns how many elements its arrays have.
size_t Elements(const Reply& reply) {
  size_t count = reply.elements.size();
  for (const Reply& each : reply.elements) count += Elements(each);
  return count;
}

struct Parsed {
  std::vector<Reply> replies;
  bool is_broken = false;
};

Parsed Parse(absl::string_view bytes, size_t piece) {
  Parsed parsed;
  ReplyReader reader(kLimits);
  while (!bytes.empty() && !parsed.is_broken) {
    reader.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (Reply reply;;) {
      const ReplyReader::Result result = reader.Next(&reply);
      if (result == ReplyReader::kReply) {
        parsed.replies.push_back(std::move(reply));
        continue;
      }
      parsed.is_broken = result == ReplyReader::kBroken;
      break;
    }
  }
  if (parsed.is_broken) Require(!reader.error().empty(), "it says what broke");
  return parsed;
}

void CheckPieces(absl::string_view bytes, size_t piece) {
  const Parsed whole = Parse(bytes, bytes.size());
  const Parsed pieces = Parse(bytes, piece);
  Require(whole.is_broken == pieces.is_broken, "pieces break as the whole");
  Require(whole.replies.size() == pieces.replies.size(), "as many replies");
  for (size_t i = 0; i < whole.replies.size(); ++i) {
    const Reply& reply = whole.replies[i];
    Require(Shown(reply) == Shown(pieces.replies[i]), "the same replies");
    Require(Elements(reply) <= kLimits.elements, "no more elements");
    const absl::Status status = UnexpectedReply("GET", reply);
    Require(!status.ok(), "an error is an error");
    Require(!absl::StrContains(status.message(), "\n"), "in one line");
  }
}

void CheckLogin(absl::string_view bytes, Login::Mode mode) {
  ServerUrl url;
  url.hosts = {{"host", 6379}};
  Login login(url, "client", mode);
  const Parsed parsed = Parse(bytes, bytes.size());
  for (const Reply& reply : parsed.replies) {
    if (login.done()) break;
    if (!login.Take(reply).ok()) return;
  }
  if (!login.done()) return;
  Require(absl::StrContains(bytes, login.server_id()),
          "the server has said who it is");
  Require(!login.probe().empty(), "there is something to ask it");
}

// Where connections are made to; one for all inputs.
class Address {
 public:
  Address() {
    std::string folder = "/tmp/redis_reply_fuzz.XXXXXX";
    Require(mkdtemp(folder.data()) != nullptr, "a folder");
    url.socket_path = folder + "/socket";
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    url.socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Require(bind(listener, reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) == 0 &&
                listen(listener, 1) == 0,
            "a socket");
  }
  ~Address() {
    close(listener);
    unlink(url.socket_path.c_str());
    rmdir(url.socket_path.substr(0, url.socket_path.rfind('/')).c_str());
  }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;

  static const Address& Get() {
    static const Address address;
    return address;
  }

  ServerUrl url;
  int listener = -1;
};

// The server's end of a connection.
class Server {
 public:
  Server() = default;
  ~Server() { close(peer_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  static const ServerUrl& url() { return Address::Get().url; }

  void Accept() { peer_ = accept(Address::Get().listener, nullptr, nullptr); }
  void Send(absl::string_view bytes) const {
    Require(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()),
            "the bytes are sent");
  }
  void End() const { shutdown(peer_, SHUT_WR); }

 private:
  int peer_ = -1;
};

void CheckFetch(absl::string_view bytes, size_t count) {
  Server server;
  Endpoint endpoint(Server::url());
  absl::StatusOr<std::unique_ptr<Socket>> socket =
      Socket::Connect(*endpoint.Address());
  Require(socket.ok() && (*socket)->Prepare().ok(), "it is connected");
  server.Accept();
  server.Send(bytes);
  server.End();
  // So short, since a second round trip would wait for a new connection.
  constexpr absl::Duration kTimeout = absl::Milliseconds(5);
  Pipeline pipeline(Clock::Monotonic(), /*max_in_flight=*/100,
                    /*silence_limit=*/absl::Seconds(5), [] {});
  pipeline.Open(std::make_unique<Wire>(*std::move(socket), kLimits));
  const std::vector<absl::string_view> keys(count, "key");
  const int64_t begin = Clock::Monotonic().NowNanos();
  const auto results =
      FetchFromRedis(pipeline, Clock::Monotonic(), keys, kTimeout);
  Require(results.size() == count, "each key has a result");
  for (const auto& result : results) {
    if (!result.ok()) {
      Require(!result.status().message().empty(), "an error says why");
      continue;
    }
    Require(
        !result->bytes.has_value() || absl::StrContains(bytes, *result->bytes),
        "the value is one that was sent");
    Require(
        result->bytes.has_value() || result->deadline_nanos == Clock::kNever,
        "an absence has no end");
    // A TTL may be negative in the answer of a liar.
    Require(result->deadline_nanos >= begin || absl::StrContains(bytes, ":-"),
            "no value had ended before it was asked for");
  }
  const Parsed parsed = Parse(bytes, bytes.size());
  if (count == 1 && results[0].ok() && results[0]->bytes.has_value()) {
    const int64_t ttl = parsed.replies[0].integer;
    const int64_t deadline = results[0]->deadline_nanos;
    Require(ttl != -1 || deadline == Clock::kNever, "no TTL is no deadline");
    Require(ttl != -2 || deadline <= Clock::Monotonic().NowNanos(),
            "a value whose TTL is unknown is not to be kept");
  }
  pipeline.Lose(absl::UnavailableError("the end"));
}

// Checks the order of its calls.
class Listener final : public RemoteStore::Listener, public Link::Observer {
 public:
  static constexpr absl::Duration kBound = absl::Seconds(3);

  void OnInvalidate(absl::Span<const absl::string_view>) override {
    Require(session_ != 0, "keys are told within a session");
  }
  void OnInvalidateAll() override {
    Require(session_ != 0, "a flush is told within a session");
  }
  void OnLease(uint64_t session, int64_t until_nanos) override {
    Require(session != 0, "a session has a number");
    Require(session_ == 0 || session == session_, "its number stays");
    Require(session_ == 0 || until_nanos >= until_, "a lease never shrinks");
    Require(until_nanos <= now + absl::ToInt64Nanoseconds(kBound),
            "a lease is no longer than the bound");
    session_ = session;
    until_ = until_nanos;
  }
  void OnLoss(uint64_t session, const absl::Status& why) override {
    Require(session == session_, "the session that is lost is the last one");
    Require(!why.ok() && !why.message().empty(), "a loss has a reason");
    session_ = 0;
    is_lost = true;
  }
  void OnLogin(Link*, int64_t) override {}
  void OnDemotion(const absl::Status&, int64_t) override {}
  void OnClose(Link*, int64_t) override {}
  void OnSlots(const Reply&, int64_t) override {}

  int64_t now = 0;
  bool is_lost = false;

 private:
  uint64_t session_ = 0;
  int64_t until_ = 0;
};

void CheckSession(absl::string_view bytes, int64_t step_nanos) {
  Server server;
  Listener listener;
  Endpoint endpoint(Server::url());
  uint64_t sessions = 0;
  SessionLink session({"client", absl::Seconds(2)}, absl::Seconds(5), &endpoint,
                      &listener, [&] { return ++sessions; });
  Require(session.Attach({"p:", Listener::kBound, &listener}).ok(), "attached");
  const auto handle = [&](PollEvents events) {
    session.Handle(events, listener.now);
  };
  handle(0);
  server.Accept();
  handle(POLLOUT);
  server.Send("%1\r\n+id\r\n:7\r\n+OK\r\n$11\r\n\nrun_id:1\r\n\r\n");
  handle(POLLIN);
  Require(!listener.is_lost, "it is logged in");
  server.Send(bytes);
  server.End();
  // What has come, its end, and what is due by then.
  for (int i = 0; i < 8 && !listener.is_lost; ++i) {
    handle(POLLIN);
    listener.now += step_nanos;
  }
  Require(listener.is_lost, "the end of the stream is a loss");
}

void Check(uint8_t choice, absl::string_view bytes) {
  const size_t size = choice / 4;
  switch (choice % 4) {
    case 0:
      return CheckPieces(bytes, size + 1);
    case 1:
      return CheckLogin(bytes, size % 2 == 0 ? Login::Mode::kOneServer
                                             : Login::Mode::kCluster);
    case 2:
      return CheckFetch(bytes, size % 3 + 1);
    default:
      return CheckSession(bytes, int64_t{100'000'000} * size);
  }
}

}  // namespace
}  // namespace wheelcache::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace internal = wheelcache::internal;
  if (size == 0 || size > internal::kMostBytes) return 0;
  internal::Check(
      data[0],
      absl::string_view(reinterpret_cast<const char*>(data), size).substr(1));
  return 0;
}
