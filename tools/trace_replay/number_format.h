// Numbers as people like to read them.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_

#include <cstdint>
#include <string>

namespace wheelcache {
namespace replay {

// "1,234,567". REQUIRES: number >= 0.
std::string WithThousands(int64_t number);

// "940 ns", "1.25 us", "17.3 ms", "2.00 s": three digits that matter.
// REQUIRES: nanos >= 0.
std::string ShortDuration(int64_t nanos);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_
