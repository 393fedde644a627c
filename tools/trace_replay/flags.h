// The flags of trace_replay: what each is called, what it means and where its
// value goes. The command line and --help are made from this table.
//
//   Settings settings;
//   std::string rule = FindFlag("ttl")->set("5m", settings);  // Empty: stored.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/replay_options.h"

namespace wheelcache {
namespace replay {

// The values of all flags.
struct Settings {
  ReplayOptions replay;
  std::string trace;  // Empty: the built-in workload.
  bool skip_bad_lines = false;
  bool json = false;
  bool progress = true;
  bool help = false;
};

struct Flag {
  absl::string_view name;
  absl::string_view placeholder;  // Empty for a flag that is on or off.
  absl::string_view help;

  // Stores the value. If it breaks the flag's rule, returns the rule, to follow
  // the words "must be", and stores nothing.
  std::string (*set)(absl::string_view value, Settings& settings);

  bool is_bool() const { return placeholder.empty(); }
};

// All flags, in the order of --help.
absl::Span<const Flag> AllFlags();

// Returns the flag of that name, without dashes, or null.
const Flag* FindFlag(absl::string_view name);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_
