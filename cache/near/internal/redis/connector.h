// Opens a connection and logs in, again and again until it succeeds, without
// blocking: a state machine for a thread that calls poll().
//
// The first attempt begins at once; after a failure or a loss, one comes after
// the pause of Backoff. The first commands on a connection log in, and learn
// what the server is.
//
// Errors. The first error of the server's, by StatusOfError. Unavailable if the
// server is not a primary. That CLIENT SETNAME is refused is no error: the name
// is only for CLIENT LIST.
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

// Returns OK if a reply to ROLE is that of a primary.
WHEELCACHE_EXPORT absl::Status CheckPrimary(const redisReply& role);

// The first commands on a connection, and the check of their replies.
class WHEELCACHE_EXPORT Login final {
 public:
  Login(const ServerUrl& url, absl::string_view client_name);

  // All of them, to send at once.
  const std::string& commands() const { return commands_; }

  // Takes the next reply. REQUIRES: !done().
  absl::Status Take(const redisReply& reply);

  bool done() const { return taken_ == steps_.size(); }

  // The connection's number at the server. REQUIRES: done().
  int64_t client_id() const { return client_id_; }

  // REQUIRES: done().
  const std::string& server_id() const { return server_id_; }

 private:
  using Check = absl::Status (Login::*)(const redisReply&);
  struct Step {
    absl::string_view command;  // As messages name it.
    Check check;
  };

  void Add(Step step, absl::Span<const absl::string_view> arguments);

  absl::Status TakeAnything(const redisReply& reply);
  absl::Status TakeOk(const redisReply& reply);
  absl::Status TakeInfo(const redisReply& reply);
  absl::Status TakeRole(const redisReply& reply);
  absl::Status TakeClientId(const redisReply& reply);

  std::string commands_;
  std::vector<Step> steps_;
  size_t taken_ = 0;
  int64_t client_id_ = 0;
  std::string server_id_;
};

// The same for all connections of a store.
struct ConnectorSettings {
  ServerUrl url;
  std::string client_name;
  absl::Duration timeout;  // Of an attempt, login included.
};

class WHEELCACHE_EXPORT Connector final {
 public:
  Connector(const ConnectorSettings& settings, uint64_t seed);

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

 private:
  enum class State { kPausing, kConnecting, kLoggingIn, kReady };

  absl::Status Connect(int64_t now_nanos);
  absl::Status FinishConnect();
  absl::Status LogIn(PollEvents revents);
  absl::Status TakeReplies();

  const ConnectorSettings& settings_;
  Backoff backoff_;
  unsigned attempts_ = 0;

  State state_ = State::kPausing;
  // The end of the pause or of the attempt.
  int64_t deadline_nanos_ = INT64_MIN;

  // Both from kConnecting on.
  std::unique_ptr<Wire> wire_;
  std::optional<Login> login_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_
