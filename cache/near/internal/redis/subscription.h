// The connection for the invalidations of one prefix: keeps a session with the
// server, and tells a listener of it.
//
// It is a RESP2 connection in BCAST mode that redirects its invalidations to
// itself; then it can send nothing but PING. NOLOOP is never asked for: it
// hides the evictions that the store's own writes cause.
//
// Threads. As for Link. The listener is called on the I/O thread.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SUBSCRIPTION_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SUBSCRIPTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/near/internal/redis/connector.h"
#include "wheelcache/cache/near/internal/redis/io_thread.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/internal/redis/wire.h"
#include "wheelcache/cache/near/store/heartbeat.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Subscription final : public Link {
 public:
  // Whom it tells, and of what.
  struct Subject {
    std::string prefix;
    absl::Duration max_staleness;
    RemoteStore::Listener* listener;
  };

  // `next_session` returns another number at each call. `settings` and
  // `observer` must outlive it.
  Subscription(const ConnectorSettings& settings, Subject subject,
               Observer* observer, std::function<uint64_t()> next_session);

  const Subject& subject() const { return subject_; }

  PollRequest Request() const override;
  void Handle(PollEvents revents, int64_t now_nanos) override;
  const std::string& server_id() const override { return server_id_; }
  void Drop(const absl::Status& why, int64_t now_nanos) override;
  void Hurry(int64_t now_nanos) override { connector_.Hurry(now_nanos); }

 private:
  bool is_open() const { return wire_ != nullptr; }

  absl::Status Open(int64_t now_nanos);
  absl::Status HandleOpen(PollEvents revents, int64_t now_nanos);
  absl::Status Take(const redisReply& reply, int64_t now_nanos);
  absl::Status TakeMessage(const redisReply& reply) const;
  absl::Status TakePong();
  absl::Status Beat(int64_t now_nanos);

  const ConnectorSettings& settings_;
  const Subject subject_;
  Observer* const observer_;
  const std::function<uint64_t()> next_session_;
  const std::string ping_;
  Connector connector_;

  // While logged in.
  std::string server_id_;
  std::unique_ptr<Wire> wire_;
  int64_t deadline_nanos_ =
      0;  // For the replies to CLIENT TRACKING, SUBSCRIBE.
  bool is_tracking_ = false;

  // From the reply to SUBSCRIBE on.
  uint64_t session_ = 0;
  std::optional<Heartbeat> heartbeat_;
  int64_t received_nanos_ = 0;  // When something came last.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SUBSCRIPTION_H_
