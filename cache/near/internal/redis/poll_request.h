// What a connection waits for: an argument of poll(), and a time.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_

#include <poll.h>

#include <cstdint>

#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// What poll() is asked for, and what it tells: POLLIN and so on.
using PollEvents = decltype(pollfd::events);

struct PollRequest {
  int fd = -1;  // poll() ignores a negative one.
  PollEvents events = 0;
  int64_t wake_nanos = Clock::kNever;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_
