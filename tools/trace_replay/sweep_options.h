// Options of a sweep: what its replays have in common, and what differs.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_OPTIONS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_OPTIONS_H_

#include <iterator>
#include <vector>

#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"

namespace wheelcache::replay {

// The limit that differs.
enum class SweepBy { kEntries, kBytes };

struct SweepOptions {
  // Of every replay, but for the TTL, the policy and the limit that is swept:
  // here that is the largest, and kUnlimited stands for what holds all keys.
  // Its threads are replays at a time.
  ReplayOptions replay;

  SweepBy by = SweepBy::kEntries;
  int sizes = 16;  // The number of limits; at least 2.
  std::vector<absl::Duration> ttls = {absl::InfiniteDuration()};  // Ascending.
  // The first is what the others are compared with.
  std::vector<Policy> policies = {std::begin(kPolicies), std::end(kPolicies)};
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_OPTIONS_H_
