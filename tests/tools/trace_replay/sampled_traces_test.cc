// What a sweep draws from samples is within 0.02 of exact replays of real
// traces, from a half to four times the capacities of docs/policy.md. The same
// keys are sampled in each run: very few other choices of them are beyond that,
// where the curve is steep.
//
// Skipped where the traces or zstd are missing; see real_trace.h. The longest
// are for optimized builds.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/tests/tools/trace_replay/real_trace.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

struct Row {
  const char* trace;
  std::vector<int64_t> entries;
  int ttl_seconds;
};

// One in builds that are slow.
std::vector<Row> Rows() {
#ifdef NDEBUG
  return {{"sprite", {354, 1'415}, 20},
          {"cdn_sizes", {1'841, 7'363}, 300},
          {"cloudphysics", {2'449, 4'897, 9'795}, 300},
          {"oltp", {1'869, 9'344, 37'376}, 60},
          {"orm_busy", {3'817, 7'635, 15'270}, 300}};
#else
  return {{"sprite", {1'415}, 20}};
#endif
}

TEST(SampledTracesTest, SampleIsNearTheExactCurve) {
  internal::SetHashSeed(1);
  for (const Row& row : Rows()) {
    const absl::StatusOr<std::string> path = FindRealTrace(row.trace);
    if (!path.ok()) GTEST_SKIP() << path.status().message();
    DecompressedTrace source(*path);
    const LoadedTrace trace = LoadedTrace::Load(source.reader()).value();
    for (const int64_t entries : row.entries) {
      SweepOptions options;
      options.replay.max_entries = 4 * entries;
      options.replay.shards = 1;
      options.replay.jitter = 0;
      options.sizes = 2;
      options.policies = {kPolicies[0]};
      options.ttls = {absl::Seconds(row.ttl_seconds), absl::InfiniteDuration()};
      LoadedTrace::Reader reader(trace);
      const Sweep sweep = RunSweep(reader, options).value();
      for (const SweepSample& sample : sweep.samples) {
        for (size_t i = 0; i < sample.limits.size(); ++i) {
          if (sample.limits[i] < entries / 2) continue;
          ReplayOptions exact = options.replay;
          exact.max_entries = sample.limits[i];
          exact.ttl = sample.ttl;
          LoadedTrace::Reader again(trace);
          EXPECT_NEAR(sample.hit_ratios[i],
                      Replay(again, exact).value().hit_ratio(), 0.02)
              << row.trace << " at " << sample.limits[i];
        }
      }
    }
  }
}

}  // namespace
}  // namespace wheelcache::replay
