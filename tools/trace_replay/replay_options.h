// How a trace is replayed: the cache it meets, and what a request does there.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "wheelcache/cache/options.h"

namespace wheelcache {
namespace replay {

struct ReplayOptions {
  int64_t max_entries = kUnlimited;
  // Key and value sizes are those in the trace.
  int64_t max_bytes = kUnlimited;

  // Of a value whose request names none. More than zero, or infinite.
  absl::Duration ttl = absl::InfiniteDuration();
  double jitter = 0.05;
  int shards = 0;  // 0: chosen by the cache.

  // The threads among which the keys are divided. At least 1.
  int threads = 1;

  // A get that misses is followed by a set.
  bool read_through = true;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
