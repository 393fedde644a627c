// Table of trace_replay's flags: the name, help text and setter of each. The
// command-line parser and --help both read it.
//
//   Settings settings;
//   std::string rule = FindFlag("ttl")->set("5m", settings);  // Empty: stored.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache {
namespace replay {

// The values of all flags.
struct Settings {
  ReplayOptions replay;
  std::string trace;  // Empty: the built-in workload.

  bool sweep = false;
  // Of a sweep alone.
  std::optional<SweepBy> by;
  std::optional<int> sizes;
  std::vector<absl::Duration> ttls;  // Ascending. With one: replay.ttl.
  std::vector<Policy> policies;      // With one: replay.policy.
  std::string html;                  // Empty: no page.

  bool skip_bad_lines = false;
  bool json = false;
  bool progress = true;
  bool help = false;
};

struct Flag {
  absl::string_view name;
  absl::string_view placeholder;  // Empty for a boolean flag.
  absl::string_view help;

  // Stores the value and returns an empty string. If the value is invalid,
  // stores nothing and returns the rule it breaks, phrased to follow "must be".
  std::string (*set)(absl::string_view value, Settings& settings);

  bool is_bool() const { return placeholder.empty(); }
};

// Returns all flags, in the order of --help.
absl::Span<const Flag> AllFlags();

// Returns the flag of that name, without dashes, or null.
const Flag* FindFlag(absl::string_view name);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_FLAGS_H_
