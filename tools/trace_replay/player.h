// Plays the requests of a trace on a cache, on one thread.
//
//   auto cache = *CreateTraceCache(options, &clock);
//   Player player(*cache, options);
//   player.Play(request);
//
// What stands in for a value is charged the sizes in the trace.
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
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/request.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::replay {

struct TracedValue {
  uint64_t key_size = 0;
  uint64_t value_size = 0;
};

using TraceCache = Cache<std::string, TracedValue>;

// Creates the cache that the options describe, without a background thread.
absl::StatusOr<std::unique_ptr<TraceCache>> CreateTraceCache(
    const ReplayOptions& options, Clock* clock);

class Player {
 public:
  Player(TraceCache& cache, const ReplayOptions& options)
      : cache_(cache),
        default_ttl_(options.ttl),
        read_through_(options.read_through) {}

  void Play(const Request& request);

  const ReplayCounts& counts() const { return counts_; }

 private:
  template <typename Call>
  auto Timed(load_testing::LatencyHistogram& nanos, Call call);
  void Read(const Request& request);
  void Write(const Request& request);
  void Grow(const Request& request, uint64_t bytes);
  void Set(const Request& request, TracedValue value, absl::Duration ttl);

  TraceCache& cache_;
  const absl::Duration default_ttl_;
  const bool read_through_;
  uint32_t sampler_ = 1;
  ReplayCounts counts_;
};

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_PLAYER_H_
