// poll() for one descriptor, until a time on a Clock.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_UNTIL_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_UNTIL_H_

#include <poll.h>

#include <cstdint>

#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Calls poll() until `deadline_nanos`; Clock::kNever: without an end. Returns
// whether something has happened. May return false early, after a signal.
WHEELCACHE_EXPORT bool PollUntil(absl::Span<pollfd> requests,
                                 int64_t deadline_nanos, const Clock& clock);

// The same, for one descriptor.
inline bool PollUntil(int fd, decltype(pollfd::events) events,
                      int64_t deadline_nanos, const Clock& clock) {
  pollfd request = {fd, events, 0};
  return PollUntil(absl::MakeSpan(&request, 1), deadline_nanos, clock);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_POLL_UNTIL_H_
