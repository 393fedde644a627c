#include "wheelcache/cache/near/internal/redis/poll_until.h"

#include <poll.h>
#include <time.h>

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

bool PollUntil(absl::Span<pollfd> requests, int64_t deadline_nanos,
               const Clock& clock) {
  if (deadline_nanos == Clock::kNever) {
    return ppoll(requests.data(), requests.size(), nullptr, nullptr) > 0;
  }
  const int64_t now = clock.NowNanos();
  const int64_t left = deadline_nanos <= now ? 0 : deadline_nanos - now;
  const timespec timeout = absl::ToTimespec(absl::Nanoseconds(left));
  return ppoll(requests.data(), requests.size(), &timeout, nullptr) > 0;
}

}  // namespace wheelcache::internal
