#include "wheelcache/cache/near/store/heartbeat.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace wheelcache {
namespace {

// With PINGs a sixth of it apart, two thirds of max_staleness are left when a
// lease is renewed: two answers may be late before it runs out.
constexpr int64_t kPingsPerStaleness = 6;

}  // namespace

Heartbeat::Heartbeat(absl::Duration max_staleness, int64_t now_nanos)
    : next_(now_nanos) {
  SetMaxStaleness(max_staleness);
}

void Heartbeat::SetMaxStaleness(absl::Duration max_staleness) {
  max_staleness_nanos_ = Clock::NanosAfter(0, max_staleness);
  assert(max_staleness_nanos_ > 0);
  // The next PING is due sooner, perhaps.
  if (answered_.has_value()) {
    next_ = std::min(next_, Clock::NanosAfter(*answered_, Interval()));
  }
}

// Time passes between two of them.
absl::Duration Heartbeat::Interval() const {
  return absl::Nanoseconds(
      std::max<int64_t>(max_staleness_nanos_ / kPingsPerStaleness, 1));
}

int64_t Heartbeat::dead_nanos() const {
  return unanswered_.has_value()
             ? Clock::NanosAfter(*unanswered_, max_staleness_nanos_)
             : Clock::kNever;
}

void Heartbeat::Send(int64_t now_nanos) {
  assert(!unanswered_.has_value());
  unanswered_ = now_nanos;
}

std::optional<int64_t> Heartbeat::Answer() {
  assert(unanswered_.has_value());
  const int64_t sent = *std::exchange(unanswered_, std::nullopt);
  const std::optional<int64_t> certified = std::exchange(answered_, sent);
  if (!certified.has_value()) {
    next_ = sent;
    return std::nullopt;
  }
  // A lease that was over when this PING was sent, because the process had been
  // stopped: the next one follows at once.
  const bool was_over = sent - *certified >= max_staleness_nanos_;
  next_ = was_over ? sent : Clock::NanosAfter(sent, Interval());
  return certified;
}

}  // namespace wheelcache
