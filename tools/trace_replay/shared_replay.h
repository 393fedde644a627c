// Replays several traces, a cache for each, with one budget of bytes for all
// (cache/share/memory_share.h).
//
//   const SharedTrace traces[] = {{"users", &users}, {"images", &images}};
//   absl::StatusOr<SharedReplay> replay = ReplayShared(traces, options);
//   if (!replay.ok()) return replay.status();
//   for (const auto& member : replay->members) Show(member);
//
// Time. All traces begin at the same time, each with its first request. Those
// of a second come in ten parts, and after each the share looks, as it does for
// a service. As in replayer.h, time never goes back.
//
// Guarantees: the equal split is that of a Replay of each trace with its part
// of the bytes.
//
// Errors: those of Cache::Create and MemoryShare::Create.
//
// Cost: each request is replayed twice. A trace takes the time of its requests;
// seconds without any take none.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SHARED_REPLAY_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SHARED_REPLAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache::replay {

struct SharedTrace {
  std::string name;
  const LoadedTrace* trace;
};

struct SharedReplay {
  struct Member {
    std::string name;
    ReplayCounts counts;
    int64_t equal_hits = 0;  // With an equal part of the bytes.
    int64_t evictions = 0;
  };

  // What each member has at a time, in seconds from the begin.
  struct Split {
    int64_t seconds = 0;
    std::vector<int64_t> bytes;
  };

  // The parts of the time that the splits divide it into, at most.
  static constexpr int kSplits = 16;

  std::vector<Member> members;
  std::vector<Split> splits;  // The first is equal, the last that of the end.
};

// The options are those of each cache, which is advised; max_bytes is the
// budget. No cache gets less than a 16th of an equal part.
// REQUIRES: there are traces, none of which is empty.
absl::StatusOr<SharedReplay> ReplayShared(absl::Span<const SharedTrace> traces,
                                          const ReplayOptions& options);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SHARED_REPLAY_H_
