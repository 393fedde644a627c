// Formats counts and durations for people to read.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_

#include <cstdint>
#include <string>

namespace wheelcache {
namespace replay {

// Returns a count like "1,234,567". REQUIRES: number >= 0.
std::string WithThousands(int64_t number);

// Returns a duration like "940 ns", "1.25 us", "17.3 ms" or "2.00 s", with
// three significant digits. REQUIRES: nanos >= 0.
std::string ShortDuration(int64_t nanos);

}  // namespace replay
}  // namespace wheelcache

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_NUMBER_FORMAT_H_
