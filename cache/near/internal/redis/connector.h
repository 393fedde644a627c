// Opens a connection and logs in, again and again until it succeeds, without
// blocking: a state machine for a thread that calls poll().
//
// The first attempt begins at once; after a failure or a loss, one comes after
// the pause of Backoff.
//
// Threads. Thread-compatible.
// Cost. A name is resolved in Advance, which blocks as long as that takes.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_CONNECTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/backoff.h"
#include "wheelcache/cache/near/internal/redis/login.h"
#include "wheelcache/cache/near/internal/redis/poll_request.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

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
