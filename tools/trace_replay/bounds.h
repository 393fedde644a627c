// Upper bounds on the hits of a trace: what no policy can exceed.
//
//   const std::vector<uint32_t> next_reads =
//       NextReads(trace, /*read_through=*/true);
//   int64_t hits = MostHits(next_reads, /*max_entries=*/1000);
//
// A policy may know the future here. Of the operations of a trace, set and add
// store a value, a get does if it misses and reads through, a delete removes
// one. That the others may come between is neglected, which can only raise a
// bound.
//
// Threads: functions of their arguments alone.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_BOUNDS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_BOUNDS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/tools/trace_replay/loaded_trace.h"

namespace wheelcache::replay {

inline constexpr uint32_t kNoRead = std::numeric_limits<uint32_t>::max();

// For each request, the number of the read that would hit if the value were
// kept from this request to that one; kNoRead if there is none.
std::vector<uint32_t> NextReads(const LoadedTrace& trace, bool read_through);

// Belady's bound: evicts the value whose next read is farthest away (Belady, "A
// study of replacement algorithms for a virtual-storage computer", 1966). Exact
// for a trace of gets that are read through. O(n log max_entries).
int64_t MostHits(absl::Span<const uint32_t> next_reads, int64_t max_entries);

// For each limit, a bound for values of different charges, which are `overhead`
// and the sizes in the trace. To keep a value for some requests takes its
// charge times their number from the limit times all requests, and the cheapest
// hits are taken first (Berger, Beckmann and Harchol-Balter, "Practical bounds
// on optimal caching with variable object sizes", 2018: PFOO-U). The charge of
// a key is the smallest that it has in the trace. O(n log n) for all limits.
std::vector<int64_t> MostHitsByBytes(const LoadedTrace& trace,
                                     absl::Span<const uint32_t> next_reads,
                                     absl::Span<const int64_t> limits,
                                     int64_t overhead);

// A bound from the TTLs alone: that of a request, or `ttl` if it names none,
// lengthened by `jitter`. Exact without limits and jitter if all requests for a
// key have one TTL, and are gets or sets. O(n).
struct Lives {
  absl::Duration ttl = absl::InfiniteDuration();
  double jitter = 0;
  bool read_through = true;
};
int64_t MostHitsByTtl(const LoadedTrace& trace, const Lives& lives);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_BOUNDS_H_
