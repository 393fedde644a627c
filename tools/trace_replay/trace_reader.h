// Stream of requests from a trace file or standard input, in the format of
// trace_line.h.
//
//   absl::StatusOr<std::unique_ptr<TraceReader>> trace =
//       TraceReader::Open("oltp.csv");
//   if (!trace.ok()) return trace.status();
//   absl::StatusOr<bool> more = (*trace)->Next(request);
//
// Errors: a malformed line is an InvalidArgument error that begins with the
// name of the trace and the number of the line. With BadLines::kSkip, such
// lines are skipped and counted instead. A compressed file is always an error,
// which names the command that decompresses it.
//
// Threads: thread-compatible.
//
// Cost: one sequential pass, in the memory of one line.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

enum class BadLines { kReject, kSkip };

class TraceReader : public RequestSource {
 public:
  // Opens the file at `path`; "-" is standard input.
  static absl::StatusOr<std::unique_ptr<TraceReader>> Open(
      const std::string& path, BadLines bad_lines = BadLines::kReject);

  ~TraceReader() override;

  absl::StatusOr<bool> Next(Request& request) override;
  std::optional<int64_t> bad_lines() const override;

 private:
  TraceReader(FILE* file, std::string name, BadLines bad_lines);

  // Reads a line without its "\n" or "\r\n" into line_, or returns false at the
  // end. The last line needs no line break.
  absl::StatusOr<bool> NextLine();

  // An error that begins with the name and the number of the last line.
  absl::Status BadLine(absl::string_view message) const;

  FILE* const file_;
  const std::string name_;
  const BadLines bad_lines_;
  // Longer lines than may be valid are cut.
  std::string line_;
  int64_t line_number_ = 0;
  int64_t bad_line_count_ = 0;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_TRACE_READER_H_
