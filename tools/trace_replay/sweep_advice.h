// What a sweep says about the limit, the TTL and the policy to choose.
//
//   const SweepChoice choice = Choose(sweep);
//   const std::string sentence = Advise(sweep, choice);
//
// Threads: functions of their arguments alone.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_ADVICE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_ADVICE_H_

#include <cstddef>
#include <string>

#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {

// Gains of the hit ratio that are worth twice the limit, a longer TTL, or
// another policy than the first.
inline constexpr double kWorthTwiceTheLimit = 0.05;
inline constexpr double kWorthLongerTtl = 0.01;
inline constexpr double kWorthAPolicy = 0.005;

struct SweepChoice {
  size_t section = 0;  // In the sections of the sweep.
  size_t policy = 0;   // In its policies.
  size_t limit = 0;    // In its limits.
};

// Returns the number of the limit at the knee of a curve. From there on, what
// is added to a limit gains less than it does on average, and twice the limit
// gains less than kWorthTwiceTheLimit. The first condition holds from where the
// curve is highest above the straight line from no hits at zero to the largest
// limit.
size_t FindKnee(const Sweep& sweep, const SweepCurve& curve);

// The policy is the first, unless another one gains kWorthAPolicy at the knee
// of the first; the limit is at the knee of its curve, both with the longest
// TTL; the TTL is the shortest that hits as often, but for less than
// kWorthLongerTtl.
SweepChoice Choose(const Sweep& sweep);

// Returns one sentence.
std::string Advise(const Sweep& sweep, const SweepChoice& choice);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_ADVICE_H_
