// What a connection waits for: an argument of poll(), and a time.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_

#include <cstdint>

#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

struct PollRequest {
  int fd = -1;  // poll() ignores a negative one.
  short events = 0;
  int64_t wake_nanos = Clock::kNever;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_REQUEST_H_
