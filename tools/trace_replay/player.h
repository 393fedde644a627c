// Plays requests against a cache on one thread, and counts hits, misses, peaks
// and latencies.
//
//   Player player(cache, options);
//   player.Play(request);
//   int64_t hits = player.counts().hits;
//
// Operations have memcached's semantics. A trace records the sizes of values,
// not their contents: a TracedValue stands in for the value and is charged the
// sizes in the trace.
//
// Threads: thread-compatible. Players on several threads may share a cache if
// all requests for a key go to the same player.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_PLAYER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_PLAYER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::replay {

struct TracedValue {
  uint64_t key_size = 0;
  uint64_t value_size = 0;
};

using TraceCache = Cache<std::string, TracedValue>;

// Creates the cache that the options describe, without a background thread. The
// clock must outlive it.
absl::StatusOr<std::unique_ptr<TraceCache>> CreateTraceCache(
    const ReplayOptions& options, Clock* clock);

// Returns what such a cache charges for an entry besides the sizes in the
// trace.
absl::StatusOr<int64_t> OverheadPerEntry(const ReplayOptions& options);

struct PlayerCounts {
  int64_t requests = 0;
  // Only get and gets count as hits and misses.
  int64_t hits = 0;
  int64_t misses = 0;
  // Of the whole cache, even if it has several players.
  int64_t peak_entries = 0;
  int64_t peak_bytes = 0;
  // Of a random sample of the calls.
  load_testing::LatencyHistogram get_nanos;
  load_testing::LatencyHistogram set_nanos;
};

class Player {
 public:
  // The cache must outlive the player.
  Player(TraceCache& cache, const ReplayOptions& options);

  void Play(const Request& request);

  const PlayerCounts& counts() const { return counts_; }

 private:
  void Read(const Request& request);
  void Write(const Request& request);
  void Add(const Request& request);
  void WriteIfPresent(const Request& request);
  // Adds `bytes` to the size of a present value, which keeps its deadline.
  void Grow(const Request& request, uint64_t bytes);
  void Set(const Request& request, TracedValue value, absl::Duration ttl);

  // Returns call(). Records the latency of one call in eight.
  template <typename Call>
  auto Timed(load_testing::LatencyHistogram& nanos, Call call);

  TraceCache& cache_;
  const absl::Duration default_ttl_;
  const bool read_through_;
  uint32_t sampler_ = 1;
  PlayerCounts counts_;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_PLAYER_H_
