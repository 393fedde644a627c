// A file that is opened before long work and written after it, so that a wrong
// path is noticed in time. What was in it stays until then.
//
//   absl::StatusOr<OutputFile> file = OutputFile::Open("sweep.html");
//   if (!file.ok()) return file.status();
//   ...
//   absl::Status status = file->Write(text);
//
// Errors: what the system says, with a message like "cannot write: No space
// left on device".
//
// Threads: thread-compatible.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_OUTPUT_FILE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache::replay {

class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Replaces the content of the file and closes it.
  // REQUIRES: it was not called before.
  absl::Status Write(absl::string_view text);

 private:
  explicit OutputFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;  // -1 after a move or Write.
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_OUTPUT_FILE_H_
