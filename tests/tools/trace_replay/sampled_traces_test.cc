// What a sweep draws from samples is within 0.02 of the curve of exact replays
// of real traces, from a half to four times the capacities of docs/policy.md.
//
// A sample of n keys tells how large a limit is with a standard error of one
// part in the root of n. So each point may lie beside the curve by three
// of them, which shows where the curve is steep. That of cloudphysics rises by
// 0.06 from 9,300 entries to 10,300.
//
// Skipped where the traces or zstd are missing; see real_trace.h. The longest
// are for optimized builds.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
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

double HitRatioAt(const LoadedTrace& trace, ReplayOptions options,
                  double entries) {
  options.max_entries = static_cast<int64_t>(entries);
  LoadedTrace::Reader reader(trace);
  return Replay(reader, options).value().hit_ratio();
}

void ExpectNearCurve(const LoadedTrace& trace, ReplayOptions options,
                     const SweepSample& sample, size_t point) {
  constexpr double kTolerance = 0.02;
  options.ttl = sample.ttl;
  const auto entries = static_cast<double>(sample.limits[point]);
  const double ratio = sample.hit_ratios[point];
  const double exact = HitRatioAt(trace, options, entries);
  if (std::abs(ratio - exact) <= kTolerance) return;
  // How many keys tell of this limit, at least: see CacheAdvice.
  constexpr double kKeysAtLimits = 910;
  const double limits = static_cast<double>(options.max_entries) / 4;
  const double beside = 3 / std::sqrt(kKeysAtLimits * entries / limits);
  EXPECT_GE(ratio,
            HitRatioAt(trace, options, entries * (1 - beside)) - kTolerance)
      << exact << " at " << entries;
  EXPECT_LE(ratio,
            HitRatioAt(trace, options, entries * (1 + beside)) + kTolerance)
      << exact << " at " << entries;
}

TEST(SampledTracesTest, SampleIsNearTheExactCurve) {
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
          ExpectNearCurve(trace, options.replay, sample, i);
        }
      }
    }
  }
}

}  // namespace
}  // namespace wheelcache::replay
