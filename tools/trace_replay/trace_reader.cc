#include "wheelcache/tools/trace_replay/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/line_reader.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/trace_line.h"

namespace wheelcache {
namespace replay {
namespace {

int64_t SizeOfRegularFile(int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return info.st_size;
}

// Recognizes zstd and gzip by their magic numbers.
absl::Status RejectCompressed(absl::string_view first_line) {
  absl::string_view command;
  if (absl::StartsWith(first_line, "\x28\xb5\x2f\xfd")) command = "zstd -dc";
  if (absl::StartsWith(first_line, "\x1f\x8b")) command = "gzip -dc";
  if (command.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the trace is compressed; pipe it through: ", command,
                   " FILE | trace_replay --trace=-"));
}

absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(
    const std::string& path, BadLines bad_lines) {
  if (path == "-") {
    return std::make_unique<TraceReader>(dup(STDIN_FILENO), "standard input",
                                         bad_lines);
  }
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, "cannot open the file");
  return std::make_unique<TraceReader>(descriptor, path, bad_lines);
}

TraceReader::TraceReader(int descriptor, std::string name, BadLines bad_lines)
    : descriptor_(descriptor),
      name_(std::move(name)),
      bad_lines_(bad_lines),
      total_bytes_(SizeOfRegularFile(descriptor)),
      lines_(descriptor) {}

TraceReader::~TraceReader() { close(descriptor_); }

absl::StatusOr<bool> TraceReader::Next(Request& request) {
  absl::string_view line;
  for (;;) {
    absl::StatusOr<bool> more = lines_.Next(line);
    if (!more.ok()) {
      return Prefixed(absl::StrCat(name_, ": "), more.status());
    }
    if (!*more) return false;
    if (lines_.line_number() == 1) {
      absl::Status status = RejectCompressed(line);
      if (!status.ok()) return BadLine(status);
    }
    absl::StatusOr<Request> parsed = ParseTraceLine(line);
    if (parsed.ok()) {
      request = *parsed;
      return true;
    }
    if (bad_lines_ == BadLines::kReject) return BadLine(parsed.status());
    ++bad_line_count_;
  }
}

std::optional<double> TraceReader::progress() const {
  if (total_bytes_ == 0) return std::nullopt;
  return static_cast<double>(lines_.bytes_consumed()) /
         static_cast<double>(total_bytes_);
}

absl::Status TraceReader::BadLine(const absl::Status& status) const {
  return Prefixed(absl::StrCat(name_, ", line ", lines_.line_number(), ": "),
                  status);
}

}  // namespace replay
}  // namespace wheelcache
