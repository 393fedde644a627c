// Traces for tests: RequestSource over the text of a trace, random traces of
// all operations, and options to replay them exactly.
//
//   TextSource source(
//       "0,k,1,10,0,set,5\n"
//       "5,k,1,10,0,get,0\n");
//   ReplayResult result = *Replay(source, Exact());

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/trace_line.h"

namespace wheelcache::replay {

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

 private:
  const std::vector<std::string> lines_;
  size_t next_ = 0;
};

// A replay like that of an LRU list.
inline ReplayOptions Exact() {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  return options;
}

class Random {
 public:
  explicit Random(unsigned seed) : bits_(seed) {}
  int64_t From(int64_t min, int64_t max) {
    return std::uniform_int_distribution<int64_t>(min, max)(bits_);
  }
  bool OneIn(int64_t n) { return From(1, n) == 1; }

 private:
  std::mt19937 bits_;
};

// Few keys and short TTLs, so that all causes of removal interleave. Time
// stands still, steps, jumps and goes back.
inline std::string RandomTrace(Random& random, int requests) {
  constexpr absl::string_view kOperations[] = {
      "get", "get",    "get",     "gets",   "set",  "add", "replace",
      "cas", "append", "prepend", "delete", "incr", "decr"};
  const int64_t keys = random.From(1, 60);
  int64_t seconds = 1000;
  std::string trace;
  for (int i = 0; i < requests; ++i) {
    if (random.OneIn(4)) seconds += random.From(0, 2);
    if (random.OneIn(500)) seconds += random.From(0, 999'999);
    const int64_t back = random.OneIn(50) ? random.From(0, 19) : 0;
    absl::StrAppend(&trace, seconds - back, ",key", random.From(1, keys), ",",
                    random.From(0, 19), ",", random.From(0, 299), ",0,",
                    kOperations[random.From(0, std::size(kOperations) - 1)],
                    ",", random.OneIn(3) ? random.From(0, 39) : 0, "\n");
  }
  return trace;
}

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_TEXT_SOURCE_H_
