// Options of a replay: the limits and the policy of its cache, TTLs, shards,
// threads, and whether to read through.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::replay {

// The eviction policies, by the names that flags and reports give them.
struct Policy {
  EvictionPolicy policy;
  absl::string_view name;   // Of flags and JSON.
  absl::string_view title;  // For people.
  absl::string_view code;   // What a program writes.
};

inline constexpr Policy kPolicies[] = {
    {EvictionPolicy::kLru, "lru", "LRU", "EvictionPolicy::kLru"},
    {EvictionPolicy::kScanResistant, "scan_resistant", "Scan-resistant",
     "EvictionPolicy::kScanResistant"},
};

struct ReplayOptions {
  int64_t max_entries = kUnlimited;
  // Of key and value sizes as in the trace, and the cache's own overhead.
  int64_t max_bytes = kUnlimited;

  Policy policy = kPolicies[0];

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

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAY_OPTIONS_H_
