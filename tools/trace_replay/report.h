// What a replay has found, as a table for people and as JSON for programs.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {

// Both end in a line break. `bad_lines` is reported if it is there: the lines
// that were skipped.

// One line that says what was replayed and how, and the figures below it.
std::string TableReport(const Settings& settings, const ReplayResult& result,
                        std::optional<int64_t> bad_lines);

// One object with the keys requests, hits, misses, hit_ratio, evictions,
// expirations, peak_entries, peak_bytes, requests_per_second and, with them,
// bad_lines.
std::string JsonReport(const ReplayResult& result,
                       std::optional<int64_t> bad_lines);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPORT_H_
