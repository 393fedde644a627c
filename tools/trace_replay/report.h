// Formats replays or a sweep as tables for people or as JSON for programs. All
// end in a line break. Where bad lines may be skipped, their number is
// reported.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/shared_replay.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {

// Returns a title that says what was replayed and how, and a table of counts
// and latencies. `trace` is "-" for standard input, empty for the built-in
// workload.
std::string ReplayTable(absl::string_view trace, const ReplayOptions& options,
                        const ReplayResult& result);

// Returns one object with the keys requests, hits, misses, hit_ratio,
// evictions, expirations, peak_entries, peak_bytes, requests_per_second and, if
// present, bad_lines.
std::string ReplayJson(const ReplayResult& result);

// Returns how much was replayed, like "3 requests, 2 reads, 1 keys".
std::string SweepSummary(const Sweep& sweep);

// Returns a title with the name of the trace, a table of hit ratios for each
// TTL, and the advice.
std::string SweepTable(absl::string_view trace, const Sweep& sweep);

// Returns a title, a table of hit ratios, and a drawing of the split over time:
// a line of 60 letters for each time, a letter for each member.
std::string SharedTable(const ReplayOptions& options,
                        const SharedReplay& replay);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
