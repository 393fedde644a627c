// Chooses the limits of a sweep.
//
//   SweepLimits(76'349, 4);  // {300, 1'900, 12'000, 76'349}

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_LIMITS_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_LIMITS_H_

#include <cstdint>
#include <vector>

namespace wheelcache::replay {

// Returns `count` limits up to `largest`, from a 256th of it on, each larger
// than the one before by the same factor. All but the last have two significant
// digits. Those that would be equal are one, so there may be fewer.
// REQUIRES: largest >= 1 and count >= 2.
std::vector<int64_t> SweepLimits(int64_t largest, int count);

// Returns the limits of up to `count` caches, each of which tells of a half to
// four times its own limit, so that together they tell of all limits up to
// `largest`, down to a 512th of it with three. Ascending; none is twice there.
// REQUIRES: largest >= 1.
std::vector<int64_t> SampledLimits(int64_t largest, int count);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_LIMITS_H_
