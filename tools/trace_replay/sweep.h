// Replays a trace with many limits, TTLs and policies, and bounds what any
// policy could reach.
//
//   SweepOptions options;
//   options.ttls = {absl::Minutes(1), absl::InfiniteDuration()};
//   absl::StatusOr<Sweep> sweep = RunSweep(source, options);
//   if (!sweep.ok()) return sweep.status();
//   for (const SweepSection& section : sweep->sections) Draw(section.curves);
//
// Guarantees: each figure of a policy is that of a Replay of the same requests
// with the same options and that limit, TTL and policy.
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
#include <iterator>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

// The limit that differs.
enum class SweepBy { kEntries, kBytes };

struct SweepOptions {
  // Of every replay, except for the TTL, the policy and the limit that is
  // swept: here that is the largest, and kUnlimited stands for what holds all
  // keys. Its threads are replays at a time.
  ReplayOptions replay;

  SweepBy by = SweepBy::kEntries;
  int sizes = 16;  // The number of limits; at least 2.
  std::vector<absl::Duration> ttls = {absl::InfiniteDuration()};  // Ascending.
  // The first is what the others are compared with.
  std::vector<Policy> policies = {std::begin(kPolicies), std::end(kPolicies)};
};

// The hits with each limit.
struct SweepCurve {
  absl::string_view name;       // That of the policy, "bound" or "sample".
  absl::string_view title;      // For people.
  std::vector<int64_t> limits;  // Ascending.
  std::vector<int64_t> hits;
};

// What a sweep tells of one TTL.
struct SweepSection {
  absl::Duration ttl;
  // One for each policy, and the hits that no policy exceeds.
  std::vector<SweepCurve> curves;
  // What a few LRU caches said of other limits than their own (Cache::Advise),
  // from samples of their keys; nothing if LRU is not among the policies.
  std::optional<SweepCurve> sample;

  const SweepCurve& bound() const { return curves.back(); }
};

struct Sweep {
  SweepBy by = SweepBy::kEntries;
  int64_t requests = 0;
  int64_t reads = 0;
  int64_t keys = 0;
  std::optional<int64_t> bad_lines;  // If the source may skip them.
  std::vector<Policy> policies;
  std::vector<int64_t> limits;         // Ascending; of all but the samples.
  std::vector<SweepSection> sections;  // One for each TTL.

  double hit_ratio(int64_t hits) const {
    return reads == 0 ? 0
                      : static_cast<double>(hits) / static_cast<double>(reads);
  }
  // The name of the limit that is swept.
  absl::string_view limit_name() const {
    return by == SweepBy::kEntries ? "max_entries" : "max_bytes";
  }
};

absl::StatusOr<Sweep> RunSweep(RequestSource& source,
                               const SweepOptions& options);
absl::StatusOr<Sweep> RunSweep(const LoadedTrace& trace,
                               const SweepOptions& options);

// Returns `count` limits up to `largest`, from a 256th of it on, each larger
// than the one before by the same factor. All but the last have two significant
// digits. Those that would be equal are one, so there may be fewer.
// REQUIRES: largest >= 1 and count >= 2.
std::vector<int64_t> SweepLimits(int64_t largest, int count);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_H_
