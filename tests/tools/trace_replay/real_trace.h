// The real traces that tests replay, by name.
//
//   absl::StatusOr<std::string> path = FindRealTrace("oltp");
//   if (!path.ok()) GTEST_SKIP() << path.status().message();
//   DecompressedTrace trace(*path);
//   Replay(trace.reader(), options);
//
// The traces are not part of the project: they are looked for in
// ../shared/traces, next to the source tree, and tests are skipped where they
// or zstd are missing.

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "wheelcache/tools/trace_replay/trace_reader.h"

namespace wheelcache {
namespace replay {

// Returns the parent folder of the source tree, if the runfiles of the test are
// links into it.
inline std::optional<std::string> FolderAboveTheSources() {
  constexpr absl::string_view kThisFile =
      "tests/tools/trace_replay/real_trace.h";
  char* const resolved = realpath(std::string(kThisFile).c_str(), nullptr);
  if (resolved == nullptr) return std::nullopt;
  absl::string_view path = resolved;
  std::optional<std::string> folder;
  if (absl::ConsumeSuffix(&path, kThisFile)) {
    folder = absl::StrCat(path, "..");
  }
  std::free(resolved);
  return folder;
}

// Returns the path of a trace that can be read and decompressed, or NotFound,
// which says what is missing.
inline absl::StatusOr<std::string> FindRealTrace(absl::string_view name) {
  const std::optional<std::string> folder = FolderAboveTheSources();
  if (!folder.has_value()) {
    return absl::NotFoundError("cannot find the source tree");
  }
  const std::string path =
      absl::StrCat(*folder, "/shared/traces/", name, ".csv.zst");
  if (access(path.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no file ", path));
  }
  if (std::system("zstd --version > /dev/null 2>&1") != 0) {
    return absl::NotFoundError("zstd is not installed");
  }
  return path;
}

// Reads a trace through a pipe from zstd.
class DecompressedTrace {
 public:
  explicit DecompressedTrace(const std::string& path)
      : pipe_(popen(absl::StrCat("zstd -dc '", path, "'").c_str(), "r")),
        reader_(dup(fileno(pipe_)), path, BadLines::kReject) {}
  ~DecompressedTrace() { pclose(pipe_); }
  DecompressedTrace(const DecompressedTrace&) = delete;
  DecompressedTrace& operator=(const DecompressedTrace&) = delete;

  TraceReader& reader() { return reader_; }

 private:
  FILE* const pipe_;
  TraceReader reader_;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_REAL_TRACE_H_
