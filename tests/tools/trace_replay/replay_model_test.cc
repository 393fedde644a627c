// Random traces of all operations, replayed through the cache and through an
// oracle: every count must be the same. Runs anywhere, without a trace file.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/tests/tools/trace_replay/lru_oracle.h"
#include "wheelcache/tests/tools/trace_replay/random_trace.h"
#include "wheelcache/tests/tools/trace_replay/text_source.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {
namespace {

constexpr int kRequests = 3'000;

ReplayOptions RandomOptions(Random& random) {
  ReplayOptions options;
  options.jitter = 0;
  options.shards = 1;
  options.read_through = !random.OneIn(4);
  if (random.OneIn(2)) options.ttl = absl::Seconds(random.From(1, 60));
  if (random.OneIn(2)) options.max_entries = random.From(1, 50);
  if (random.OneIn(2)) options.max_bytes = random.From(200, 8'200);
  return options;
}

// Returns the cache's charge for an entry on top of the traced sizes.
int64_t OverheadPerEntry() {
  TextSource source("0,k,0,0,0,set,0\n");
  return Replay(source, ReplayOptions()).value().counts.peak_bytes;
}

TEST(ReplayModelTest, EveryCountIsThatOfTheOracle) {
  const int64_t overhead = OverheadPerEntry();
  for (unsigned seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const ReplayOptions options = RandomOptions(random);
    const std::string trace = RandomTrace(random, kRequests);

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
