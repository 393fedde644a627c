// Random traces of all operations, as the text of a trace.
//
//   Random random(seed);
//   TextSource source(RandomTrace(random, /*requests=*/3'000));

#ifndef WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_RANDOM_TRACE_H_
#define WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_RANDOM_TRACE_H_

#include <cstdint>
#include <iterator>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace replay {

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

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TOOLS_TRACE_REPLAY_RANDOM_TRACE_H_
