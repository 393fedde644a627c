// Parses the command line of trace_replay into Settings.
//
//   absl::StatusOr<Settings> settings =
//       ParseCommandLine(absl::MakeConstSpan(argv + 1, argc - 1));
//   if (!settings.ok()) ...  // Print its message, return 2.
//
// Why not absl::ParseCommandLine: for an invalid flag it prints its own
// messages and exits with status 1. This program promises status 2 and one line
// that names the flag, its value and the rule.
//
// Errors: InvalidArgument, for the first invalid argument.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/flags.h"

namespace wheelcache {
namespace replay {

// Accepts --flag=value, --flag value and, for a boolean flag, --flag and
// --noflag. The last occurrence of a flag wins. If neither --max_entries nor
// --max_bytes is given, max_entries gets its default.
absl::StatusOr<Settings> ParseCommandLine(
    absl::Span<const char* const> arguments);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_COMMAND_LINE_H_
