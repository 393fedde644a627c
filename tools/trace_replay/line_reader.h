// Reads lines from a file descriptor, fast: large blocks, no copy per line.
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
// Cost: one read(2) per megabyte, and that megabyte of memory.

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
  // A longer line is cut after this many bytes.
  static constexpr size_t kMaxLineBytes = 1 << 20;

  // Does not take ownership of the descriptor.
  explicit LineReader(int descriptor);
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Stores the next line without its "\n" or "\r\n" and returns true, or
  // returns false at the end. The line lives until the next call. The last line
  // needs no line break. Blocks until a whole line is there.
  absl::StatusOr<bool> Next(absl::string_view& line);

  // Of the line that Next stored last, from 1.
  int64_t line_number() const { return line_number_; }
  // Bytes of the lines stored so far.
  int64_t bytes_consumed() const { return bytes_consumed_; }

 private:
  // Like Next, and hands out the rest of a line that was cut.
  absl::StatusOr<bool> NextPiece(absl::string_view& piece);
  // Reads on until a line break is in the buffer, and returns it; null if the
  // file ends or the buffer is full before.
  absl::StatusOr<const char*> FindLineBreak();
  // Reads once, behind what is there, which moves to the front of the buffer.
  absl::Status Fill();

  const int descriptor_;
  const std::unique_ptr<char[]> buffer_;
  // Invariant: what is read and not yet consumed is buffer_[begin_, end_).
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_of_file_ = false;
  // The piece handed out last was not the end of its line.
  bool was_cut_ = false;
  int64_t line_number_ = 0;
  int64_t bytes_consumed_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_LINE_READER_H_
