// Random traces of all operations, replayed through the cache and through an
// oracle: every count must be the same. Runs anywhere, without a trace file.

#include <cstdint>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/examples/replay/replay_options.h"
#include "wheelcache/examples/replay/replayer.h"
#include "wheelcache/examples/replay/request.h"
#include "wheelcache/tests/replay/lru_oracle.h"
#include "wheelcache/tests/replay/text_source.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr int kRequests = 3'000;

// Few keys and short TTLs, so that all causes of removal meet; time stands,
// steps, jumps and goes back.
std::string RandomTrace(std::mt19937& random) {
  constexpr absl::string_view kOperations[] = {
      "get", "get",    "get",     "gets",   "set",  "add", "replace",
      "cas", "append", "prepend", "delete", "incr", "decr"};
  const int keys = 1 + static_cast<int>(random() % 60);
  int64_t seconds = 1000;
  std::string trace;
  for (int i = 0; i < kRequests; ++i) {
    if (random() % 4 == 0) seconds += random() % 3;
    if (random() % 500 == 0) seconds += random() % 1'000'000;
    const int64_t written = seconds - (random() % 50 == 0 ? random() % 20 : 0);
    absl::StrAppend(&trace, written, ",key", random() % keys, ",",
                    random() % 20, ",", random() % 300, ",0,",
                    kOperations[random() % std::size(kOperations)], ",",
                    random() % 3 == 0 ? random() % 40 : 0, "\n");
  }
  return trace;
}

ReplayOptions RandomOptions(std::mt19937& random) {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  options.read_through = random() % 4 != 0;
  if (random() % 2 == 0) options.ttl = absl::Seconds(1 + random() % 60);
  if (random() % 2 == 0) options.max_entries = 1 + random() % 50;
  if (random() % 2 == 0) options.max_bytes = 200 + random() % 8'000;
  return options;
}

// What the cache charges for an entry beyond what the trace says.
int64_t OverheadPerEntry() {
  TextSource source("0,k,0,0,0,set,0\n");
  return Replay(source, ReplayOptions()).value().counts.peak_bytes;
}

TEST(ReplayModelTest, EveryCountIsThatOfTheOracle) {
  const int64_t overhead = OverheadPerEntry();
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const ReplayOptions options = RandomOptions(random);
    const std::string trace = RandomTrace(random);

    LruOracle oracle(options, overhead);
    TextSource for_oracle(trace);
    Request request;
    while (for_oracle.Next(request).value()) oracle.Play(request);

    TextSource source(trace);
    const absl::StatusOr<ReplayResult> result = Replay(source, options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->counts.requests, kRequests);
    ASSERT_EQ(result->counts.hits, oracle.hits()) << "seed " << seed;
    ASSERT_EQ(result->counts.misses, oracle.misses()) << "seed " << seed;
    ASSERT_EQ(result->evictions, oracle.evictions()) << "seed " << seed;
    ASSERT_EQ(result->expirations, oracle.expirations()) << "seed " << seed;
    ASSERT_EQ(result->counts.peak_entries, oracle.peak_entries())
        << "seed " << seed;
    ASSERT_EQ(result->counts.peak_bytes, oracle.peak_bytes())
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace replay
}  // namespace wheelcache
