// Options of a replay: the limits of its cache, TTLs, shards, threads, and
// whether to read through.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "wheelcache/cache/options.h"

namespace wheelcache {
namespace replay {

struct ReplayOptions {
  int64_t max_entries = kUnlimited;
  // Of key and value sizes as in the trace, and the cache's own overhead.
  int64_t max_bytes = kUnlimited;

  EvictionPolicy policy = EvictionPolicy::kLru;

  // The TTL of a value whose request names none. Above zero; may be infinite.
  absl::Duration ttl = absl::InfiniteDuration();
  double jitter = 0.05;
  int shards = 0;  // 0: chosen by the cache.

  // At least 1. Keys are partitioned among the threads.
  int threads = 1;

  // Whether a get that misses is followed by a set.
  bool read_through = true;

  // Whether the cache advises on other limits.
  bool advise = false;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
