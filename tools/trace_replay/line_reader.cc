#include "wheelcache/tools/trace_replay/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace replay {

// Leaves the buffer uninitialized: read(2) fills the part that is used.
LineReader::LineReader(int descriptor)
    : descriptor_(descriptor), buffer_(new char[kMaxLineBytes]) {}

absl::StatusOr<bool> LineReader::Next(absl::string_view& line) {
  bool in_truncated_line;
  do {
    in_truncated_line = truncated_;
    absl::StatusOr<bool> more = NextPiece(line);
    if (!more.ok() || !*more) return more;
  } while (in_truncated_line);
  ++line_number_;
  return true;
}

absl::StatusOr<bool> LineReader::NextPiece(absl::string_view& piece) {
  absl::StatusOr<const char*> line_break = FindLineBreak();
  if (!line_break.ok()) return line_break.status();
  if (*line_break == nullptr && begin_ == end_) return false;

  const char* const start = buffer_.get() + begin_;
  const char* const stop =
      *line_break == nullptr ? buffer_.get() + end_ : *line_break;
  piece = absl::string_view(start, stop - start);
  const size_t consumed = piece.size() + (*line_break == nullptr ? 0 : 1);
  begin_ += consumed;
  bytes_consumed_ += static_cast<int64_t>(consumed);
  truncated_ = *line_break == nullptr && !at_end_of_file_;
  if (!piece.empty() && piece.back() == '\r') piece.remove_suffix(1);
  return true;
}

absl::StatusOr<const char*> LineReader::FindLineBreak() {
  size_t searched = 0;
  for (;;) {
    const char* const unread = buffer_.get() + begin_;
    const void* const found =
        memchr(unread + searched, '\n', end_ - begin_ - searched);
    searched = end_ - begin_;
    if (found != nullptr || at_end_of_file_ || searched == kMaxLineBytes) {
      return static_cast<const char*>(found);
    }
    absl::Status status = Fill();
    if (!status.ok()) return status;
  }
}

absl::Status LineReader::Fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  ssize_t bytes;
  do {
    bytes = read(descriptor_, buffer_.get() + end_, kMaxLineBytes - end_);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return absl::ErrnoToStatus(errno, "cannot read");
  at_end_of_file_ = bytes == 0;
  end_ += bytes;
  return absl::OkStatus();
}

}  // namespace replay
}  // namespace wheelcache
