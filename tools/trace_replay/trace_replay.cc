// Replays an access trace through a cache and reports hits, evictions,
// expirations, memory and speed, or sweeps over limits, TTLs and policies.
// help_text.cc has the text of --help.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/command_line.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/help_text.h"
#include "wheelcache/tools/trace_replay/output_file.h"
#include "wheelcache/tools/trace_replay/progress_bar.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"
#include "wheelcache/tools/trace_replay/sweep_page.h"
#include "wheelcache/tools/trace_replay/sweep_report.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"
#include "wheelcache/tools/trace_replay/workload.h"

namespace wheelcache {
namespace replay {
namespace {

enum ExitStatus { kDone = 0, kCannotPrint = 1, kBadInput = 2 };

// `bazel run` changes the working directory, and passes the user's in the
// environment.
std::string PathAsTyped(const std::string& path) {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || path == "-" || absl::StartsWith(path, "/")) {
    return path;
  }
  return absl::StrCat(folder, "/", path);
}

absl::Status TraceError(const Settings& settings, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("--trace=", settings.trace, ": ", message));
}

absl::StatusOr<std::unique_ptr<RequestSource>> OpenSource(
    const Settings& settings) {
  if (settings.trace.empty()) return std::make_unique<Workload>();
  absl::StatusOr<std::unique_ptr<TraceReader>> trace = TraceReader::Open(
      PathAsTyped(settings.trace),
      settings.skip_bad_lines ? BadLines::kSkip : BadLines::kReject);
  if (!trace.ok()) return TraceError(settings, trace.status().message());
  return *std::move(trace);
}

// The number of lines skipped, if they may be skipped.
std::optional<int64_t> ReportedBadLines(const Settings& settings,
                                        const RequestSource& source) {
  if (!settings.skip_bad_lines) return std::nullopt;
  return source.bad_lines();
}

// The progress bar, if one is wanted and there is a terminal for it.
std::unique_ptr<ProgressBar> MakeProgressBar(const Settings& settings) {
  if (!settings.progress || !isatty(STDERR_FILENO)) return nullptr;
  return std::make_unique<ProgressBar>(STDERR_FILENO);
}

absl::StatusOr<ReplayResult> ReplayWithProgress(RequestSource& source,
                                                const Settings& settings) {
  const std::unique_ptr<ProgressBar> bar = MakeProgressBar(settings);
  if (bar == nullptr) return Replay(source, settings.replay);
  return Replay(source, settings.replay, [&](int64_t requests) {
    bar->Update(source.progress(), requests);
  });
}

absl::StatusOr<Sweep> SweepWithProgress(RequestSource& source,
                                        const Settings& settings) {
  SweepOptions options;
  options.replay = settings.replay;
  options.by = settings.by.value_or(options.by);
  options.sizes = settings.sizes.value_or(options.sizes);
  options.ttls = settings.ttls;
  options.policies = settings.policies;
  const std::unique_ptr<ProgressBar> bar = MakeProgressBar(settings);
  if (bar == nullptr) return RunSweep(source, options);
  return RunSweep(source, options,
                  [&](std::optional<double> done, int64_t requests) {
                    bar->Update(done, requests);
                  });
}

absl::Status CheckNotEmpty(const Settings& settings, int64_t requests,
                           int64_t bad_lines) {
  if (requests > 0) return absl::OkStatus();
  return TraceError(settings, bad_lines == 0
                                  ? "holds no request"
                                  : absl::StrCat("holds no request and ",
                                                 bad_lines, " bad lines"));
}

// What goes to standard output, and to the file of --html.
struct Output {
  std::string report;
  std::string page;
};

absl::StatusOr<Output> SweepReport(RequestSource& source,
                                   const Settings& settings) {
  absl::StatusOr<Sweep> sweep = SweepWithProgress(source, settings);
  if (!sweep.ok()) return sweep.status();
  absl::Status status =
      CheckNotEmpty(settings, sweep->requests, source.bad_lines());
  if (!status.ok()) return status;
  const auto bad_lines = ReportedBadLines(settings, source);
  return Output{settings.json ? SweepJson(*sweep, bad_lines)
                              : SweepTable(settings.trace, *sweep, bad_lines),
                SweepPage(settings.trace, *sweep)};
}

absl::StatusOr<Output> ReplayReport(RequestSource& source,
                                    const Settings& settings) {
  absl::StatusOr<ReplayResult> result = ReplayWithProgress(source, settings);
  if (!result.ok()) return result.status();
  absl::Status status =
      CheckNotEmpty(settings, result->counts.requests, source.bad_lines());
  if (!status.ok()) return status;
  const auto bad_lines = ReportedBadLines(settings, source);
  return Output{settings.json ? JsonReport(*result, bad_lines)
                              : TableReport(settings, *result, bad_lines),
                ""};
}

// Returns the whole report, so that an error leaves standard output empty.
absl::StatusOr<Output> Report(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<RequestSource>> source = OpenSource(settings);
  if (!source.ok()) return source.status();
  return settings.sweep ? SweepReport(**source, settings)
                        : ReplayReport(**source, settings);
}

ExitStatus Fail(ExitStatus exit_status, absl::string_view message) {
  const std::string line = absl::StrCat("trace_replay: ", message, "\n");
  std::fputs(line.c_str(), stderr);
  return exit_status;
}

ExitStatus Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return Fail(kCannotPrint, "cannot write to standard output");
  }
  return kDone;
}

// Runs what the settings say, with the file of --html if there is one.
ExitStatus Run(const Settings& settings, OutputFile* page) {
  absl::StatusOr<Output> output = Report(settings);
  if (!output.ok()) return Fail(kBadInput, output.status().message());
  if (page != nullptr) {
    const absl::Status status = page->Write(output->page);
    if (!status.ok()) {
      return Fail(kCannotPrint, absl::StrCat("--html=", settings.html, ": ",
                                             status.message()));
    }
  }
  return Print(output->report);
}

ExitStatus Main(absl::Span<const char* const> arguments) {
  absl::StatusOr<Settings> settings = ParseCommandLine(arguments);
  if (!settings.ok()) return Fail(kBadInput, settings.status().message());
  if (settings->help) return Print(HelpText());
  if (settings->html.empty()) return Run(*settings, nullptr);
  absl::StatusOr<OutputFile> page =
      OutputFile::Open(PathAsTyped(settings->html));
  if (!page.ok()) {
    return Fail(kBadInput, absl::StrCat("--html=", settings->html, ": ",
                                        page.status().message()));
  }
  return Run(*settings, &*page);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache

int main(int argc, char** argv) {
  return wheelcache::replay::Main(
      absl::MakeConstSpan(argv + 1, argc > 0 ? argc - 1 : 0));
}
