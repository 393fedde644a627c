// A trace in a file or on standard input, as a stream of requests. The format
// is that of trace_line.h.
//
//   absl::StatusOr<std::unique_ptr<TraceReader>> trace =
//       TraceReader::Open("oltp.csv");
//   if (!trace.ok()) return trace.status();
//   Request request;
//   while (true) {
//     absl::StatusOr<bool> more = (*trace)->Next(request);
//     ...
//   }
//
// Errors: a malformed line is an InvalidArgument error that begins with the
// name of the trace and the number of the line. With BadLines::kSkip such lines
// are counted instead. A compressed file is an error in either case, with the
// command that decompresses it.
//
// Threads: thread-compatible.
//
// Cost: memory does not grow with the trace; one pass, nothing is seeked.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/line_reader.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {

enum class BadLines { kReject, kSkip };

class TraceReader : public RequestSource {
 public:
  // Opens the file at `path`; "-" is standard input.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(
      const std::string& path, BadLines bad_lines = BadLines::kReject);

  // Reads from an open descriptor, of which it takes ownership; `name` is what
  // errors call it.
  TraceReader(int descriptor, std::string name, BadLines bad_lines);
  ~TraceReader() override;

  absl::StatusOr<bool> Next(Request& request) override;
  std::optional<double> progress() const override;
  int64_t bad_lines() const override { return bad_line_count_; }

 private:
  // Returns `status` with the place of the line in front.
  absl::Status BadLine(const absl::Status& status) const;

  const int descriptor_;
  const std::string name_;
  const BadLines bad_lines_;
  const int64_t total_bytes_;  // 0 if unknown: a pipe, for one.
  LineReader lines_;
  int64_t bad_line_count_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_
