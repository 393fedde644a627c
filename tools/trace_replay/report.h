// Formats the result of a replay as a table for people or JSON for programs.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {

// Both end in a line break. `bad_lines`, the number of lines skipped, is
// reported if present.

// Returns a title that says what was replayed and how, and a table of counts
// and latencies.
std::string TableReport(const Settings& settings, const ReplayResult& result,
                        std::optional<int64_t> bad_lines);

// Returns one object with the keys requests, hits, misses, hit_ratio,
// evictions, expirations, peak_entries, peak_bytes, requests_per_second and, if
// present, bad_lines.
std::string JsonReport(const ReplayResult& result,
                       std::optional<int64_t> bad_lines);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
