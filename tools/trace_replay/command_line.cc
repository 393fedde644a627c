#include "wheelcache/tools/trace_replay/command_line.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr int64_t kDefaultMaxEntries = 50'000;

// A flag with the value given for it.
struct Given {
  const Flag* flag;
  absl::string_view value;
};

absl::Status Wrong(absl::string_view text) {
  return absl::InvalidArgumentError(text);
}

// Returns the flag that --noflag turns off, or null.
const Flag* FindNegatedFlag(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "no")) return nullptr;
  const Flag* const flag = FindFlag(name);
  return flag != nullptr && flag->is_bool() ? flag : nullptr;
}

// Removes one flag from the front of `arguments`, and its value if that is a
// separate argument.
absl::StatusOr<Given> TakeFlag(absl::Span<const char* const>& arguments) {
  const absl::string_view argument = arguments.front();
  arguments.remove_prefix(1);
  if (argument.size() < 3 || !absl::StartsWith(argument, "--")) {
    return Wrong(absl::StrCat("unexpected argument '", argument,
                              "'; flags begin with --, a trace is named with "
                              "--trace=FILE"));
  }
  const size_t equals = argument.find('=');
  const absl::string_view name = argument.substr(2, equals - 2);
  const bool has_value = equals != absl::string_view::npos;
  if (const Flag* const flag = FindFlag(name)) {
    if (has_value) return Given{flag, argument.substr(equals + 1)};
    if (flag->is_bool()) return Given{flag, "true"};
    if (arguments.empty()) {
      return Wrong(absl::StrCat("--", name, " needs a value: --", name, "=",
                                flag->placeholder));
    }
    const absl::string_view value = arguments.front();
    arguments.remove_prefix(1);
    return Given{flag, value};
  }
  const Flag* const negated = FindNegatedFlag(name);
  if (negated != nullptr && !has_value) return Given{negated, "false"};
  return Wrong(
      absl::StrCat("unknown flag --", name, "; --help lists the flags"));
}

// Returns the rule of flags together that is broken, or an empty string.
absl::string_view BrokenRule(const Settings& settings) {
  if (settings.sweep) {
    return settings.trace.empty() ? "--sweep needs a trace: --trace=FILE" : "";
  }
  if (settings.by.has_value()) return "--by needs --sweep";
  if (settings.sizes.has_value()) return "--sizes needs --sweep";
  if (!settings.html.empty()) return "--html needs --sweep";
  if (settings.ttls.size() > 1) return "several TTLs in --ttl need --sweep";
  if (settings.policies.size() > 1) {
    return "several policies in --policy need --sweep";
  }
  return "";
}

// Fills in what was not given.
void SetDefaults(Settings& settings) {
  ReplayOptions& replay = settings.replay;
  if (!settings.by.has_value()) {
    settings.by = replay.max_bytes != 0 && replay.max_entries == 0
                      ? SweepBy::kBytes
                      : SweepBy::kEntries;
  }
  if (settings.ttls.empty()) settings.ttls = {replay.ttl};
  if (settings.policies.empty()) {
    settings.policies = {std::begin(kPolicies), std::end(kPolicies)};
  }
  if (replay.threads == 0) {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    replay.threads = settings.sweep ? std::max(cores, 1) : 1;
  }
  if (replay.max_entries == 0) {
    const bool limited = settings.sweep || replay.max_bytes != 0;
    replay.max_entries = limited ? kUnlimited : kDefaultMaxEntries;
  }
  if (replay.max_bytes == 0) replay.max_bytes = kUnlimited;
}

}  // namespace

absl::StatusOr<Settings> ParseCommandLine(
    absl::Span<const char* const> arguments) {
  Settings settings;
  ReplayOptions& replay = settings.replay;
  // 0 is valid for none of them: it marks what was not given.
  replay.max_entries = replay.max_bytes = replay.threads = 0;
  while (!arguments.empty()) {
    absl::StatusOr<Given> given = TakeFlag(arguments);
    if (!given.ok()) return given.status();
    const std::string rule = given->flag->set(given->value, settings);
    if (!rule.empty()) {
      return Wrong(absl::StrCat("--", given->flag->name, "=", given->value,
                                ": must be ", rule));
    }
  }
  const absl::string_view rule = BrokenRule(settings);
  if (!rule.empty() && !settings.help) return Wrong(rule);
  SetDefaults(settings);
  return settings;
}

}  // namespace replay
}  // namespace wheelcache
