// The first commands on a connection: log in, and learn what the server is.
//
// Errors. The first error of the server's, by StatusOfError. Unavailable if the
// server is not a primary. That CLIENT SETNAME is refused is no error: the name
// is only for CLIENT LIST.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LOGIN_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LOGIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/reply.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Returns OK if a reply to ROLE is that of a primary.
WHEELCACHE_EXPORT absl::Status CheckPrimary(const redisReply& role);

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

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LOGIN_H_
