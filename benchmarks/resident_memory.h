// The memory that the process has in use, as the system counts it.

#ifndef WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_
#define WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_

#include <cstdint>

namespace wheelcache::benchmarks {

// Returns the resident bytes. Ends the process where /proc/self/statm is not to
// be had.
int64_t ResidentBytes();

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_
