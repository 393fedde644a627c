// Replays a trace through a cache in simulated time.
//
//   absl::StatusOr<ReplayResult> result = Replay(source, options);
//   if (!result.ok()) return result.status();
//   int64_t hits = result->counts.hits;
//
// Guarantees: the clock shows the time of the request that is played, and
// never goes back: a request with an earlier time than one before it is played
// at the latest time so far. When the clock moves, what has expired leaves the
// cache before any request of the new time is played. Requests for one key are
// played in their order, by any number of threads, and no thread plays a
// request while another is at an earlier time. With one thread, one shard and
// no jitter the counts are exactly those of an LRU list with deadlines.
//
// Threads: Replay runs options.threads - 1 threads of its own, which have ended
// when it returns.
//
// Errors: those of the source and of Cache::Create.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/player.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/request.h"

namespace wheelcache {
namespace replay {

struct ReplayResult {
  PlayerCounts counts;  // Of all threads.
  int64_t evictions = 0;
  int64_t expirations = 0;
  // The real time that the replay took, the reading of requests excluded.
  absl::Duration elapsed;

  double hit_ratio() const;
  double requests_per_second() const;
};

// Called now and then, by the thread that called Replay, with the number of
// requests played so far.
using ProgressListener = std::function<void(int64_t requests)>;

absl::StatusOr<ReplayResult> Replay(RequestSource& source,
                                    const ReplayOptions& options,
                                    const ProgressListener& progress = {});

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_REPLAYER_H_
