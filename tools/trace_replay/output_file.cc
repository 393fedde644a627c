#include "wheelcache/tools/trace_replay/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache::replay {

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "cannot open the file");
  return OutputFile(descriptor);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status OutputFile::Write(absl::string_view text) {
  // A pipe or a terminal has nothing to truncate.
  if (ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {
    return absl::ErrnoToStatus(errno, "cannot write");
  }
  while (!text.empty()) {
    const ssize_t bytes = write(descriptor_, text.data(), text.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return absl::ErrnoToStatus(errno, "cannot write");
    text.remove_prefix(bytes);
  }
  // Some file systems tell here that they have no room.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    return absl::ErrnoToStatus(errno, "cannot write");
  }
  return absl::OkStatus();
}

}  // namespace wheelcache::replay
