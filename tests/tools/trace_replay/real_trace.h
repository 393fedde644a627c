// The real traces that tests and benchmarks play, by name.
//
//   absl::StatusOr<LoadedTrace> trace = LoadRealTrace("oltp");
//   if (!trace.ok()) GTEST_SKIP() << trace.status().message();
//
// The traces are not part of the project: they are looked for in
// ../shared/traces, next to the source tree, and tests are skipped where they
// or zstd are missing.

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"

namespace wheelcache::replay {

// Returns the parent folder of the source tree, if the runfiles of the program
// are links into it, or an empty string.
inline std::string FolderAboveTheSources() {
  constexpr char kThisFile[] = "tests/tools/trace_replay/real_trace.h";
  char* const resolved = realpath(kThisFile, nullptr);
  if (resolved == nullptr) return "";
  absl::string_view path = resolved;
  std::string folder;
  if (absl::ConsumeSuffix(&path, kThisFile)) folder = absl::StrCat(path, "..");
  std::free(resolved);
  return folder;
}

// Returns the requests of a trace, or NotFound, which says what is missing.
inline absl::StatusOr<LoadedTrace> LoadRealTrace(absl::string_view name) {
  const std::string path = absl::StrCat(FolderAboveTheSources(),
                                        "/shared/traces/", name, ".csv.zst");
  if (access(path.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no file ", path));
  }
  if (std::system("zstd --version > /dev/null 2>&1") != 0) {
    return absl::NotFoundError("zstd is not installed");
  }
  FILE* const pipe = popen(absl::StrCat("zstd -dc '", path, "'").c_str(), "r");
  const auto reader = TraceReader::Open(absl::StrCat("/dev/fd/", fileno(pipe)));
  absl::StatusOr<LoadedTrace> trace = LoadedTrace::Load(**reader);
  pclose(pipe);
  return trace;
}

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_
