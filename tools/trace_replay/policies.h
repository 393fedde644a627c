// The eviction policies, by the names that flags and reports give them.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_

#include "absl/strings/string_view.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::replay {

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

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_
