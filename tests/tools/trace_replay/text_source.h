// RequestSource over the text of a trace, for tests.
//
//   TextSource source(
//       "0,k,1,10,0,set,5\n"
//       "5,k,1,10,0,get,0\n");
//   ReplayResult result = *Replay(source, options);

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/trace_line.h"

namespace wheelcache {
namespace replay {

class TextSource : public RequestSource {
 public:
  explicit TextSource(absl::string_view text)
      : lines_(absl::StrSplit(text, '\n', absl::SkipEmpty())) {}

  absl::StatusOr<bool> Next(Request& request) override {
    if (next_ == lines_.size()) return false;
    absl::StatusOr<Request> parsed = ParseTraceLine(lines_[next_++]);
    if (!parsed.ok()) return parsed.status();
    request = *parsed;
    return true;
  }

  std::optional<double> progress() const override { return std::nullopt; }

 private:
  const std::vector<std::string> lines_;
  size_t next_ = 0;
};

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_
