#include "wheelcache/tools/trace_replay/trace_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/trace_line.h"

namespace wheelcache::replay {
namespace {

// Returns what decompresses a file, by its magic number, or an empty string.
absl::string_view DecompressorOf(absl::string_view first_line) {
  if (absl::StartsWith(first_line, "\x28\xb5\x2f\xfd")) return "zstd -dc";
  if (absl::StartsWith(first_line, "\x1f\x8b")) return "gzip -dc";
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(
    const std::string& path, BadLines bad_lines) {
  const bool is_standard_input = path == "-";
  FILE* const file = is_standard_input ? fdopen(dup(STDIN_FILENO), "r")
                                       : std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, "cannot open the file");
  }
  return absl::WrapUnique(new TraceReader(
      file, is_standard_input ? "standard input" : path, bad_lines));
}

TraceReader::TraceReader(FILE* file, std::string name, BadLines bad_lines)
    : file_(file), name_(std::move(name)), bad_lines_(bad_lines) {}

TraceReader::~TraceReader() { std::fclose(file_); }

absl::StatusOr<bool> TraceReader::Next(Request& request) {
  for (;;) {
    absl::StatusOr<bool> more = NextLine();
    if (!more.ok() || !*more) return more;
    if (line_number_ == 1 && !DecompressorOf(line_).empty()) {
      return BadLine(absl::StrCat(
          "the trace is compressed; pipe it through: ", DecompressorOf(line_),
          " FILE | trace_replay --trace=-"));
    }
    absl::StatusOr<Request> parsed = ParseTraceLine(line_);
    if (parsed.ok()) {
      request = *parsed;
      return true;
    }
    if (bad_lines_ == BadLines::kReject) {
      return BadLine(parsed.status().message());
    }
    ++bad_line_count_;
  }
}

absl::StatusOr<bool> TraceReader::NextLine() {
  // Two bytes more, "\r" and another one, show that a line is too long.
  constexpr size_t kMaxBytes = kMaxTraceLineBytes + 2;
  line_.clear();
  int byte;
  while ((byte = getc_unlocked(file_)) != EOF && byte != '\n') {
    if (line_.size() < kMaxBytes) line_.push_back(static_cast<char>(byte));
  }
  if (std::ferror(file_) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(name_, ": cannot read"));
  }
  if (byte == EOF && line_.empty()) return false;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  ++line_number_;
  return true;
}

std::optional<int64_t> TraceReader::bad_lines() const {
  if (bad_lines_ == BadLines::kReject) return std::nullopt;
  return bad_line_count_;
}

absl::Status TraceReader::BadLine(absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ", line ", line_number_, ": ", message));
}

}  // namespace wheelcache::replay
