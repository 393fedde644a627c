// Replays a trace with many limits, TTLs and policies, and bounds what any
// policy could reach.
//
//   SweepOptions options;
//   options.ttls = {absl::Minutes(1), absl::InfiniteDuration()};
//   absl::StatusOr<Sweep> sweep = RunSweep(source, options);
//   if (!sweep.ok()) return sweep.status();
//   for (const SweepCurve& curve : sweep->curves) Draw(sweep->limits, curve);
//
// Guarantees: each figure is that of a Replay of the same requests with the
// same options and that limit, TTL and policy.
//
// Threads: RunSweep starts options.replay.threads - 1 threads and joins them
// before it returns.
//
// Errors: those of the source and of Cache::Create.
//
// Cost: the source is read once. Memory is that of a LoadedTrace and of one
// cache for each thread.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {

// The hits with each limit.
struct SweepCurve {
  Policy policy;
  absl::Duration ttl;
  std::vector<int64_t> hits;
};

// The hits that no policy exceeds.
struct SweepBound {
  absl::Duration ttl;
  std::vector<int64_t> hits;
};

// What a few LRU caches said of other limits than their own (Cache::Advise),
// from samples of their keys.
struct SweepSample {
  absl::Duration ttl;
  std::vector<int64_t> limits;  // Ascending.
  std::vector<double> hit_ratios;
};

struct Sweep {
  SweepBy by = SweepBy::kEntries;
  int64_t requests = 0;
  int64_t reads = 0;
  int64_t keys = 0;
  std::vector<int64_t> limits;     // Ascending.
  std::vector<SweepBound> bounds;  // One for each TTL.
  std::vector<SweepCurve> curves;  // Those of a TTL follow each other.
  // One for each TTL, or none if LRU is not among the policies.
  std::vector<SweepSample> samples;

  // The number of curves of each TTL.
  size_t policies() const { return curves.size() / bounds.size(); }
  double hit_ratio(int64_t hits) const {
    return reads == 0 ? 0
                      : static_cast<double>(hits) / static_cast<double>(reads);
  }
};

// Called now and then, on any of the threads but not on two at a time, with the
// fraction of the work that is done, if that is known, and the number of
// requests loaded and replayed.
using SweepListener =
    std::function<void(std::optional<double> done, int64_t requests)>;

absl::StatusOr<Sweep> RunSweep(RequestSource& source,
                               const SweepOptions& options,
                               const SweepListener& listener = {});

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_H_
