// Replays a trace through a cache in simulated time, with memcached's
// semantics.
//
//   absl::StatusOr<ReplayResult> result = Replay(source, options);
//   if (!result.ok()) return result.status();
//   int64_t hits = result->counts.hits;
//
// A trace records the sizes of values, not their contents: what stands in for a
// value is charged the sizes in the trace.
//
// Guarantees: the clock shows the timestamp of the request being played and
// never goes back: a request with an earlier timestamp than one before it is
// played at the latest time so far. When the clock advances, all expired
// entries leave the cache before a request of the new time is played. Requests
// for a key are played in order, with any number of threads, and no thread runs
// ahead of another in simulated time. With one thread, one shard and no jitter,
// the counts are exactly those of an LRU list with deadlines.
//
// Threads: Replay starts options.threads - 1 threads and joins them before it
// returns.
//
// Errors: those of the source and of Cache::Create.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/advice.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache::replay {

struct ReplayCounts {
  int64_t requests = 0;
  // Only get and gets count as hits and misses.
  int64_t hits = 0;
  int64_t misses = 0;
  // Of the whole cache, after each write.
  int64_t peak_entries = 0;
  int64_t peak_bytes = 0;
  // Of a random sample of the calls.
  load_testing::LatencyHistogram get_nanos;
  load_testing::LatencyHistogram set_nanos;
};

struct ReplayResult {
  ReplayCounts counts;
  int64_t evictions = 0;
  int64_t expirations = 0;
  std::optional<CacheAdvice> advice;  // If the options ask for it.
  std::optional<int64_t> bad_lines;   // If the source may skip them.
  // Wall-clock time of the replay, excluding that of reading requests.
  absl::Duration elapsed;

  double hit_ratio() const;
  double requests_per_second() const;
};

// Replays all requests through a new cache.
absl::StatusOr<ReplayResult> Replay(RequestSource& source,
                                    const ReplayOptions& options);
absl::StatusOr<ReplayResult> Replay(const LoadedTrace& trace,
                                    const ReplayOptions& options);

// Returns what such a cache charges for an entry besides the sizes in the
// trace.
absl::StatusOr<int64_t> OverheadPerEntry(const ReplayOptions& options);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_
