// The eviction policies, by the names that flags and reports give them.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_

#include "absl/strings/string_view.h"

namespace wheelcache::replay {

struct Policy {
  absl::string_view name;   // Of flags and JSON.
  absl::string_view title;  // For people.
  absl::string_view code;   // What a program writes.
};

inline constexpr Policy kPolicies[] = {
    {"lru", "LRU", "EvictionPolicy::kLru"},
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_POLICIES_H_
