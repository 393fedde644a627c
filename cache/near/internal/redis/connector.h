// Opens a connection and logs in, again and again until it succeeds, without
// blocking: a state machine for a thread that calls poll().
//
// The first attempt begins at once; after a failure or a loss, one comes after
// the pause of Backoff. The first commands on a connection log in, and learn
// what the server is.
//
// Errors. The first error of the server's, by StatusOfError. Unavailable if the
// server is not a primary, Unimplemented if it is a node of a cluster. No error
// is that it refuses CLIENT SETNAME, since the name is only for CLIENT LIST, or
// INFO or ROLE: see Login. No message contains a password.
//
// Threads. Thread-compatible.
//
// Cost. A name is resolved in Advance, which blocks as long as that takes.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// How long to wait before the next attempt to connect. The limit doubles from
// 50 ms to 5 s, and the pause is anywhere below it (full jitter): a thousand
// clients of a server that restarts do not come back at the same instant.
class Backoff final {
 public:
  static constexpr absl::Duration kFirstLimit = absl::Milliseconds(50);
  static constexpr absl::Duration kLastLimit = absl::Seconds(5);

  explicit Backoff(uint64_t seed) : random_(seed) {}

  // Returns the next pause, and doubles the limit.
  absl::Duration Next() {
    const absl::Duration pause =
        limit_ * std::uniform_real_distribution<double>(0, 1)(random_);
    limit_ = std::min(2 * limit_, kLastLimit);
    return pause;
  }

  // Begins again with short pauses.
  void Reset() { limit_ = kFirstLimit; }

 private:
  std::mt19937_64 random_;
  absl::Duration limit_ = kFirstLimit;
};

// A seed that differs from one call, process and machine to the next.
inline uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// Returns OK if a reply to ROLE, or to HELLO, is that of a primary, or does not
// tell.
WHEELCACHE_EXPORT absl::Status CheckPrimary(const Reply& reply);

// The first commands on a connection, and the check of their replies.
//
// HELLO asks for RESP3, and says what the server is. Where the server does not
// know it, the connection stays with RESP2, and ROLE and CLIENT ID say the
// rest.
class WHEELCACHE_EXPORT Login final {
 public:
  // What the server must be: a primary, one of a cluster, or any node of one.
  enum class Mode { kOneServer, kCluster, kAnyOfCluster };
  Login(const ServerUrl& url, absl::string_view client_name, Mode mode);

  // Returns the commands to send now; none if replies are to come first.
  std::string TakeCommands() { return std::exchange(commands_, {}); }

  // Takes the next reply. REQUIRES: !done().
  absl::Status Take(const Reply& reply);

  bool done() const { return taken_ == steps_.size(); }

  // The rest: REQUIRES done().

  bool has_resp3() const { return has_resp3_; }

  // Why it is no primary; OK where that is not known.
  const absl::Status& role() const { return role_; }

  // The connection's number at the server.
  int64_t client_id() const { return client_id_; }

  // The server's run; empty where it does not tell.
  const std::string& server_id() const { return server_id_; }

  // A command that shows that the server lives, and whether it is a primary.
  std::string probe() const;

 private:
  using Check = absl::Status (Login::*)(const Reply&);

  void Add(absl::Span<const absl::string_view> arguments, Check check);

  absl::Status CheckMode(absl::string_view mode) const;
  absl::Status TakeAnything(const Reply& reply);
  absl::Status TakeAuth(const Reply& reply);
  absl::Status TakeSelect(const Reply& reply);
  absl::Status TakeHello(const Reply& reply);
  absl::Status TakeInfo(const Reply& reply);
  absl::Status TakeRole(const Reply& reply);
  absl::Status TakeClientId(const Reply& reply);

  const Mode mode_;
  std::string commands_;
  std::vector<Check> steps_;
  size_t taken_ = 0;
  bool has_resp3_ = false;
  bool has_role_ = false;
  absl::Status role_;
  int64_t client_id_ = 0;
  std::string server_id_;
};

// The same for all connections of a store.
struct ConnectorSettings {
  std::string client_name;
  absl::Duration timeout;  // Of an attempt, login included.
  Login::Mode mode = Login::Mode::kOneServer;
  std::shared_ptr<const StreamMaker> tls = {};  // Null: as it is.
};

class WHEELCACHE_EXPORT Connector final {
 public:
  // `endpoint` must outlive it. `limits` are those of replies.
  Connector(ConnectorSettings settings, Endpoint* endpoint,
            const ReplyReader::Limits& limits, uint64_t seed);

  // What to wait for. Nothing if ready.
  PollRequest Request() const;

  // Goes on as far as it can. Returns the error of an attempt that failed now.
  absl::Status Advance(PollEvents revents, int64_t now_nanos);

  // Whether there is a connection that is logged in.
  bool ready() const { return state_ == State::kReady; }

  // REQUIRES: ready(), and no TakeWire() since the last Restart().
  std::unique_ptr<Wire> TakeWire() { return std::move(wire_); }
  const Login& login() const { return *login_; }

  // Begins anew, after a pause.
  void Restart(int64_t now_nanos);

  // Ends a pause that is going on.
  void Hurry(int64_t now_nanos);

  // The connection has served; the next pause is a short one.
  void ResetBackoff() { backoff_.Reset(); }

  // An error of the connection, with the name of the server.
  absl::Status Named(const absl::Status& status) const;

 private:
  enum class State { kPausing, kConnecting, kLoggingIn, kReady };

  absl::Status Connect(int64_t now_nanos);
  absl::Status FinishConnect();
  absl::Status LogIn(PollEvents revents);
  absl::Status SendCommands();
  absl::Status TakeReplies();

  const ConnectorSettings settings_;
  Endpoint& endpoint_;
  const ReplyReader::Limits limits_;
  Backoff backoff_;

  State state_ = State::kPausing;
  // The end of the pause or of the attempt.
  int64_t deadline_nanos_ = INT64_MIN;

  // All from kConnecting on.
  SocketAddress address_;
  PollEvents awaited_ = 0;
  std::unique_ptr<Wire> wire_;
  std::optional<Login> login_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_
