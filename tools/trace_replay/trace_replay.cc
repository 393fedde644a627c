// Replays an access trace through a cache and reports hits, evictions,
// expirations, memory and speed. help_text.cc has the text of --help.

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
#include "wheelcache/tools/trace_replay/progress_bar.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/request.h"
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

absl::StatusOr<ReplayResult> ReplayWithProgress(RequestSource& source,
                                                const Settings& settings) {
  if (!settings.progress || !isatty(STDERR_FILENO)) {
    return Replay(source, settings.replay);
  }
  ProgressBar bar(STDERR_FILENO);
  return Replay(source, settings.replay, [&](int64_t requests) {
    bar.Update(source.progress(), requests);
  });
}

// Returns the whole report, so that an error leaves standard output empty.
absl::StatusOr<std::string> Report(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<RequestSource>> source = OpenSource(settings);
  if (!source.ok()) return source.status();
  absl::StatusOr<ReplayResult> result = ReplayWithProgress(**source, settings);
  if (!result.ok()) return result.status();
  const int64_t bad_lines = (*source)->bad_lines();
  if (result->counts.requests == 0) {
    return TraceError(settings, bad_lines == 0
                                    ? "holds no request"
                                    : absl::StrCat("holds no request and ",
                                                   bad_lines, " bad lines"));
  }
  const auto reported = settings.skip_bad_lines
                            ? std::optional<int64_t>(bad_lines)
                            : std::nullopt;
  return settings.json ? JsonReport(*result, reported)
                       : TableReport(settings, *result, reported);
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

ExitStatus Main(absl::Span<const char* const> arguments) {
  absl::StatusOr<Settings> settings = ParseCommandLine(arguments);
  if (!settings.ok()) return Fail(kBadInput, settings.status().message());
  if (settings->help) return Print(HelpText());
  absl::StatusOr<std::string> report = Report(*settings);
  if (!report.ok()) return Fail(kBadInput, report.status().message());
  return Print(*report);
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache

int main(int argc, char** argv) {
  return wheelcache::replay::Main(
      absl::MakeConstSpan(argv + 1, argc > 0 ? argc - 1 : 0));
}
