// Replays an access trace through a cache and reports hits, evictions,
// expirations, memory and speed, or sweeps over limits, TTLs and policies, or
// replays several traces with one budget.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/shared_replay.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_page.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"
#include "wheelcache/tools/trace_replay/usage.h"
#include "wheelcache/tools/trace_replay/workload.h"

ABSL_FLAG(std::string, trace, "",
          "The trace to replay; - for standard input. By default the built-in "
          "workload.");
ABSL_FLAG(std::optional<int64_t>, max_entries, std::nullopt,
          "The most entries that the cache may hold, at least 1. By default "
          "50000, or no limit if --max_bytes is given.");
ABSL_FLAG(std::optional<int64_t>, max_bytes, std::nullopt,
          "The most bytes that the cache may hold, at least 1; see \"Bytes\" "
          "above. By default no limit.");
ABSL_FLAG(std::vector<std::string>, policy, {},
          "The eviction policy: lru, the default, or scan_resistant. With "
          "--sweep also both, separated by a comma, as by default.");
ABSL_FLAG(std::vector<std::string>, ttl, {"inf"},
          "The TTL of a value whose request names none (0): 90s, 5m, 1h30m, a "
          "number of seconds, or inf. With --sweep also several, separated by "
          "commas.");
ABSL_FLAG(double, jitter, 0.05,
          "Each TTL is varied at random by up to this fraction of it, from 0 "
          "to 1, with a fixed seed.");
ABSL_FLAG(int, shards, 0,
          "Independently locked parts of the cache, a power of two up to 256; "
          "0 for the cache's own choice. LRU order is exact with 1.");
ABSL_FLAG(std::optional<int>, threads, std::nullopt,
          "Threads, 1 to 256. Keys are partitioned among them, so that the "
          "requests for a key keep their order. By default 1. With --sweep: "
          "replays at a time, by default as many as there are cores.");
ABSL_FLAG(bool, sweep, false,
          "Replay with many limits and print the hit ratio of each; see "
          "\"Sweep\" above. Needs --trace.");
ABSL_FLAG(std::vector<std::string>, share, {},
          "Traces, separated by commas, each for a cache of its own, with one "
          "budget of --max_bytes; see \"Share\" above.");
ABSL_FLAG(std::string, by, "",
          "The limit that a sweep varies: entries or bytes. By default bytes "
          "if --max_bytes alone is given, else entries.");
ABSL_FLAG(std::optional<int>, sizes, std::nullopt,
          "The number of limits of a sweep, 2 to 256. By default 16.");
ABSL_FLAG(std::string, html, "",
          "Write the curves of a sweep to a page of its own.");
ABSL_FLAG(bool, read_through, true,
          "After a get or gets that misses, set the value.");
ABSL_FLAG(bool, skip_bad_lines, false,
          "Skip malformed lines and count them. By default the first one is an "
          "error.");
ABSL_FLAG(bool, json, false,
          "Print one JSON object instead of the table, of a single replay.");

namespace wheelcache::replay {
namespace {

// As many as there are letters to draw them with.
constexpr size_t kMostShared = 26;

enum ExitStatus { kDone = 0, kBadFlagOrOutput = 1, kBadTrace = 2 };

ExitStatus Fail(ExitStatus exit_status, absl::string_view message) {
  const std::string line = absl::StrCat("trace_replay: ", message, "\n");
  std::fputs(line.c_str(), stderr);
  return exit_status;
}

// A flag, its value, and the rule that it breaks.
absl::Status BadFlag(absl::string_view flag, absl::string_view value,
                     absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, ": must be ", rule));
}

absl::Status CheckValues() {
  const struct {
    absl::string_view flag;
    std::optional<int64_t> value;
    int64_t min;
    int64_t max;
  } numbers[] = {
      {"max_entries", absl::GetFlag(FLAGS_max_entries), 1, kUnlimited},
      {"max_bytes", absl::GetFlag(FLAGS_max_bytes), 1, kUnlimited},
      {"threads", absl::GetFlag(FLAGS_threads), 1, 256},
      {"sizes", absl::GetFlag(FLAGS_sizes), 2, 256}};
  for (const auto& [flag, value, min, max] : numbers) {
    if (value.value_or(min) < min || value.value_or(max) > max) {
      return BadFlag(flag, absl::StrCat(*value),
                     *value < min ? absl::StrCat("at least ", min)
                                  : absl::StrCat("at most ", max));
    }
  }
  const int shards = absl::GetFlag(FLAGS_shards);
  if (shards < 0 || shards > 256 || (shards & (shards - 1)) != 0) {
    return BadFlag("shards", absl::StrCat(shards),
                   "a power of two up to 256, or 0 for the cache's own choice");
  }
  const double jitter = absl::GetFlag(FLAGS_jitter);
  // Written so that NaN is invalid.
  if (!(jitter >= 0 && jitter <= 1)) {
    return BadFlag("jitter", absl::StrCat(jitter), "from 0 to 1");
  }
  const std::string by = absl::GetFlag(FLAGS_by);
  if (!by.empty() && by != "entries" && by != "bytes") {
    return BadFlag("by", by, "entries or bytes");
  }
  return absl::OkStatus();
}

// Flags that make no sense together, or without another.
absl::Status CheckCombination() {
  const bool sweep = absl::GetFlag(FLAGS_sweep);
  const size_t shared = absl::GetFlag(FLAGS_share).size();
  const bool shares = shared > 0;
  const std::pair<bool, absl::string_view> rules[] = {
      {shares && (sweep || !absl::GetFlag(FLAGS_trace).empty()),
       "--share is of a replay of its own, without --trace and --sweep"},
      {shares && (shared < 2 || shared > kMostShared),
       "--share needs two traces or more, at most 26: --share=FILE,FILE"},
      {shares && !absl::GetFlag(FLAGS_max_bytes).has_value(),
       "--share needs a budget: --max_bytes"},
      {shares && absl::GetFlag(FLAGS_threads).value_or(1) > 1,
       "--share runs on one thread"},
      {sweep && absl::GetFlag(FLAGS_trace).empty(),
       "--sweep needs a trace: --trace=FILE"},
      {!sweep && !absl::GetFlag(FLAGS_by).empty(), "--by needs --sweep"},
      {!sweep && absl::GetFlag(FLAGS_sizes).has_value(),
       "--sizes needs --sweep"},
      {!sweep && !absl::GetFlag(FLAGS_html).empty(), "--html needs --sweep"},
      {(sweep || shares) && absl::GetFlag(FLAGS_json),
       "--json is of a single replay"},
      {!sweep && absl::GetFlag(FLAGS_ttl).size() > 1,
       "several TTLs in --ttl need --sweep"},
      {!sweep && absl::GetFlag(FLAGS_policy).size() > 1,
       "several policies in --policy need --sweep"}};
  for (const auto& [broken, rule] : rules) {
    if (broken) return absl::InvalidArgumentError(rule);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::Duration>> Ttls() {
  std::set<absl::Duration> ttls;
  for (const std::string& text : absl::GetFlag(FLAGS_ttl)) {
    int64_t seconds;
    absl::Duration ttl;
    if (absl::SimpleAtoi(text, &seconds)) {
      ttl = absl::Seconds(seconds);
    } else if (!absl::ParseDuration(text, &ttl)) {
      ttl = absl::ZeroDuration();
    }
    ttls.insert(ttl);
  }
  if (*ttls.begin() <= absl::ZeroDuration()) {
    return BadFlag("ttl", absl::StrJoin(absl::GetFlag(FLAGS_ttl), ","),
                   "a duration above 0, such as 90s, 5m or inf; a plain number "
                   "counts seconds");
  }
  return std::vector<absl::Duration>(ttls.begin(), ttls.end());
}

absl::StatusOr<std::vector<Policy>> Policies() {
  std::vector<Policy> policies;
  for (const std::string& name : absl::GetFlag(FLAGS_policy)) {
    const auto named = [&](const Policy& policy) {
      return policy.name == name;
    };
    const auto* const known = absl::c_find_if(kPolicies, named);
    if (known == std::end(kPolicies)) {
      return BadFlag("policy", absl::StrJoin(absl::GetFlag(FLAGS_policy), ","),
                     "lru or scan_resistant");
    }
    if (absl::c_none_of(policies, named)) policies.push_back(*known);
  }
  return policies;
}

// Returns what all flags ask for. Those of a single replay are in `replay`.
absl::StatusOr<SweepOptions> Options() {
  absl::StatusOr<std::vector<absl::Duration>> ttls = Ttls();
  absl::StatusOr<std::vector<Policy>> policies = Policies();
  absl::Status status = CheckValues();
  status.Update(ttls.status());
  status.Update(policies.status());
  status.Update(CheckCombination());
  if (!status.ok()) return status;

  const bool is_sweep = absl::GetFlag(FLAGS_sweep);
  const auto max_entries = absl::GetFlag(FLAGS_max_entries);
  const auto max_bytes = absl::GetFlag(FLAGS_max_bytes);
  const std::string by = absl::GetFlag(FLAGS_by);
  const bool bytes_alone = max_bytes.has_value() && !max_entries.has_value();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  SweepOptions options;
  if (by == "bytes" || (by.empty() && bytes_alone)) {
    options.by = SweepBy::kBytes;
  }
  options.sizes = absl::GetFlag(FLAGS_sizes).value_or(options.sizes);
  options.ttls = *ttls;
  if (!policies->empty()) options.policies = *policies;
  ReplayOptions& replay = options.replay;
  replay.max_entries =
      max_entries.value_or(is_sweep || bytes_alone ? kUnlimited : 50'000);
  replay.max_bytes = max_bytes.value_or(kUnlimited);
  replay.policy = options.policies.front();
  replay.ttl = options.ttls.back();
  replay.jitter = absl::GetFlag(FLAGS_jitter);
  replay.shards = absl::GetFlag(FLAGS_shards);
  replay.threads =
      absl::GetFlag(FLAGS_threads).value_or(is_sweep ? std::max(cores, 1) : 1);
  replay.read_through = absl::GetFlag(FLAGS_read_through);
  return options;
}

// Abseil takes an empty value for the lack of one.
absl::Status CheckNoneIsEmpty(const std::vector<absl::string_view>& arguments) {
  for (const absl::string_view argument : arguments) {
    if (argument.empty() ||
        (absl::StartsWith(argument, "-") && absl::EndsWith(argument, "="))) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", argument, "' has no value"));
    }
  }
  return absl::OkStatus();
}

// `bazel run` changes the working directory, and passes the user's in the
// environment.
std::string PathAsTyped(const std::string& path) {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || path == "-" || absl::StartsWith(path, "/")) {
    return path;
  }
  return absl::StrCat(folder, "/", path);
}

// `trace` is a file that a flag names.
absl::Status TraceError(absl::string_view trace, absl::string_view message) {
  const absl::string_view flag =
      absl::GetFlag(FLAGS_share).empty() ? "--trace=" : "--share=";
  return absl::InvalidArgumentError(absl::StrCat(flag, trace, ": ", message));
}

absl::StatusOr<std::unique_ptr<RequestSource>> OpenSource(
    const std::string& trace) {
  if (trace.empty()) return std::make_unique<Workload>();
  absl::StatusOr<std::unique_ptr<TraceReader>> reader =
      TraceReader::Open(PathAsTyped(trace), absl::GetFlag(FLAGS_skip_bad_lines)
                                                ? BadLines::kSkip
                                                : BadLines::kReject);
  if (!reader.ok()) return TraceError(trace, reader.status().message());
  return *std::move(reader);
}

absl::Status CheckNotEmpty(absl::string_view trace, int64_t requests,
                           std::optional<int64_t> bad_lines) {
  if (requests > 0) return absl::OkStatus();
  return TraceError(trace, bad_lines.value_or(0) == 0
                               ? "holds no request"
                               : absl::StrCat("holds no request and ",
                                              *bad_lines, " bad lines"));
}

absl::StatusOr<LoadedTrace> Load(const std::string& trace) {
  absl::StatusOr<std::unique_ptr<RequestSource>> source = OpenSource(trace);
  if (!source.ok()) return source.status();
  absl::StatusOr<LoadedTrace> loaded = LoadedTrace::Load(**source);
  if (!loaded.ok()) return loaded.status();
  absl::Status status = CheckNotEmpty(
      trace, static_cast<int64_t>(loaded->size()), (*source)->bad_lines());
  if (!status.ok()) return status;
  return loaded;
}

absl::StatusOr<std::string> ReportOfShare(const ReplayOptions& options) {
  std::deque<LoadedTrace> loaded;
  std::vector<SharedTrace> traces;
  for (const std::string& name : absl::GetFlag(FLAGS_share)) {
    absl::StatusOr<LoadedTrace> trace = Load(name);
    if (!trace.ok()) return trace.status();
    loaded.push_back(*std::move(trace));
    traces.push_back({name, &loaded.back()});
  }
  absl::StatusOr<SharedReplay> replay = ReplayShared(traces, options);
  if (!replay.ok()) return replay.status();
  return SharedTable(options, *replay);
}

// What goes to standard output, and to the file of --html.
struct Output {
  std::string report;
  std::string page;
};

// Returns the whole report, so that an error leaves standard output empty.
absl::StatusOr<Output> Report(const SweepOptions& options) {
  if (!absl::GetFlag(FLAGS_share).empty()) {
    absl::StatusOr<std::string> report = ReportOfShare(options.replay);
    if (!report.ok()) return report.status();
    return Output{*std::move(report), ""};
  }
  const std::string trace = absl::GetFlag(FLAGS_trace);
  absl::StatusOr<std::unique_ptr<RequestSource>> source = OpenSource(trace);
  if (!source.ok()) return source.status();
  if (absl::GetFlag(FLAGS_sweep)) {
    absl::StatusOr<Sweep> sweep = RunSweep(**source, options);
    if (!sweep.ok()) return sweep.status();
    absl::Status status =
        CheckNotEmpty(trace, sweep->requests, sweep->bad_lines);
    if (!status.ok()) return status;
    return Output{SweepTable(trace, *sweep), SweepPage(trace, *sweep)};
  }
  absl::StatusOr<ReplayResult> result = Replay(**source, options.replay);
  if (!result.ok()) return result.status();
  absl::Status status =
      CheckNotEmpty(trace, result->counts.requests, result->bad_lines);
  if (!status.ok()) return status;
  return Output{absl::GetFlag(FLAGS_json)
                    ? ReplayJson(*result)
                    : ReplayTable(trace, options.replay, *result),
                ""};
}

// Runs what the flags say. The page is opened before the long work, so that a
// wrong path is noticed in time; what was in it stays until then.
ExitStatus Run(const SweepOptions& options) {
  const auto fail = [&](absl::string_view what) {
    return Fail(kBadFlagOrOutput,
                absl::StrCat("--html=", absl::GetFlag(FLAGS_html), ": ", what,
                             ": ", std::generic_category().message(errno)));
  };
  std::string path = absl::GetFlag(FLAGS_html);
  std::ofstream page;
  if (!path.empty()) {
    path = PathAsTyped(path);
    page.open(path, std::ios::app);
    if (!page) return fail("cannot open the file");
  }
  absl::StatusOr<Output> output = Report(options);
  if (!output.ok()) return Fail(kBadTrace, output.status().message());
  if (!path.empty()) {
    // A pipe or a terminal has nothing to truncate.
    std::error_code ignored;
    std::filesystem::resize_file(path, 0, ignored);
    page << output->page;
    page.close();
    if (!page) return fail("cannot write");
  }
  if (std::fputs(output->report.c_str(), stdout) < 0 ||
      std::fflush(stdout) != 0) {
    return Fail(kBadFlagOrOutput, "cannot write to standard output");
  }
  return kDone;
}

ExitStatus Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  const absl::Status status = CheckNoneIsEmpty({argv + 1, argv + argc});
  if (!status.ok()) return Fail(kBadFlagOrOutput, status.message());
  const std::vector<char*> others = absl::ParseCommandLine(argc, argv);
  if (others.size() > 1) {
    return Fail(kBadFlagOrOutput,
                absl::StrCat("unexpected argument '", others[1],
                             "'; a trace is named with --trace=FILE"));
  }
  absl::StatusOr<SweepOptions> options = Options();
  if (!options.ok()) return Fail(kBadFlagOrOutput, options.status().message());
  return Run(*options);
}

}  // namespace
}  // namespace wheelcache::replay

int main(int argc, char** argv) { return wheelcache::replay::Main(argc, argv); }
