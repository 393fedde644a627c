// Buffered line reader over a file descriptor: large blocks, no copy per line.
//
//   LineReader reader(fd);
//   absl::string_view line;
//   while (true) {
//     absl::StatusOr<bool> more = reader.Next(line);
//     if (!more.ok()) return more.status();
//     if (!*more) break;
//     ...
//   }
//
// Threads: thread-compatible.
//
// Cost: a buffer of 1 MiB, and about one read(2) per MiB of a file.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_LINE_READER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace replay {

class LineReader {
 public:
  // Longer lines are truncated to this many bytes.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // Does not take ownership of the descriptor.
  explicit LineReader(int descriptor);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Stores the next line without its "\n" or "\r\n" and returns true, or
  // returns false at the end. The line is valid until the next call. The last
  // line needs no line break. Blocks until a whole line is available.
  absl::StatusOr<bool> Next(absl::string_view& line);

  // Number of the line that Next stored last, from 1.
  int64_t line_number() const { return line_number_; }
  // Bytes of the lines stored so far, with their line breaks.
  int64_t bytes_consumed() const { return bytes_consumed_; }

 private:
  // Like Next, but also returns the rest of a truncated line.
  absl::StatusOr<bool> NextPiece(absl::string_view& piece);
  // Reads until the buffer holds a line break, and returns a pointer to it;
  // null if the file ends or the buffer is full first.
  absl::StatusOr<const char*> FindLineBreak();
  // Moves the unconsumed bytes to the front of the buffer and reads once, to
  // behind them.
  absl::Status Fill();

  const int descriptor_;
  const std::unique_ptr<char[]> buffer_;
  // Invariant: buffer_[begin_, end_) has been read and not yet consumed.
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_of_file_ = false;
  // The last piece returned did not reach the end of its line.
  bool truncated_ = false;
  int64_t line_number_ = 0;
  int64_t bytes_consumed_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_LINE_READER_H_
