// Reads the command line of trace_replay.
//
//   absl::StatusOr<Settings> settings =
//       ParseCommandLine(absl::MakeConstSpan(argv + 1, argc - 1));
//   if (!settings.ok()) ...  // Print its message, return 2.
//
// Why not absl::ParseCommandLine: for a bad flag it prints messages of its own
// and ends the process with status 1. This program promises one line that names
// flag, value and rule, and status 2.
//
// Errors: InvalidArgument, for the first argument that breaks a rule.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/flags.h"

namespace wheelcache {
namespace replay {

// Reads --flag=value, --flag value, and --flag and --noflag for a flag that is
// on or off. Of a flag that occurs twice the later value counts. Without any
// limit, max_entries gets its default.
absl::StatusOr<Settings> ParseCommandLine(
    absl::Span<const char* const> arguments);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_
