// Formats a sweep as tables for people or JSON for programs.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_REPORT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {

// The name of the limit that is swept: max_entries or max_bytes.
absl::string_view LimitName(const Sweep& sweep);

// What the hits that no policy exceeds are called.
absl::string_view BoundName(const Sweep& sweep);

// Both end in a line break. `bad_lines`, the number of lines skipped, is
// reported if present.

// Returns a title with the name of the trace, a table of hit ratios for each
// TTL, and the advice.
std::string SweepTable(absl::string_view trace, const Sweep& sweep,
                       std::optional<int64_t> bad_lines);

// Returns one object with the keys requests, reads, keys, by, limits, curves,
// bounds, samples, choice, advice and, if present, bad_lines. Each curve has a
// policy, a ttl, and hits and hit_ratios in the order of the limits; a bound
// has all but a policy. A sample, of what Cache::Advise tells of LRU, has a
// ttl, and limits and hit_ratios of its own.
std::string SweepJson(const Sweep& sweep, std::optional<int64_t> bad_lines);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_REPORT_H_
