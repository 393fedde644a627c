// The resident memory of the process.

#ifndef WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_
#define WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_

#include <cstdint>

namespace wheelcache::benchmarks {

// Returns the resident bytes, from /proc/self/statm. Allocates nothing, so that
// a look does not change what it sees. Exits if that cannot be read.
int64_t ResidentBytes();

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_RESIDENT_MEMORY_H_
