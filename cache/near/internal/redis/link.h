// A connection that a store keeps, and opens again whenever it is lost.
//
// Threads. All methods are called on the I/O thread.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LINK_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "wheelcache/cache/near/internal/redis/poll_request.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Link {
 public:
  class Observer;

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  // What to wait for.
  virtual PollRequest Request() const = 0;

  // Goes on as far as it can, without waiting.
  virtual void Handle(PollEvents revents, int64_t now_nanos) = 0;

  // The server that it is logged in to; empty if there is none.
  virtual const std::string& server_id() const = 0;

  // Gives up the connection, if there is one, and opens another one.
  virtual void Drop(const absl::Status& why, int64_t now_nanos) = 0;

  // Ends a pause before the next attempt to connect.
  virtual void Hurry(int64_t now_nanos) = 0;
};

// Is told what one link learns that matters to others.
class Link::Observer {
 public:
  virtual ~Observer() = default;

  // `link` has logged in to its server_id(), and is not used before this call
  // returns.
  virtual void OnLogin(Link* link, int64_t now_nanos) = 0;

  // The server is no primary any more.
  virtual void OnDemotion(const absl::Status& why, int64_t now_nanos) = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_LINK_H_
