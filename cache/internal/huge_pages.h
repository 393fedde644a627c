// Memory from the system for which huge pages may be asked.
//
// The processor finds what lies anywhere in much memory faster if its pages are
// large. A huge page is resident as a whole from its first use.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_HUGE_PAGES_H_
#define WHEELCACHE_CACHE_INTERNAL_HUGE_PAGES_H_

#include <cstddef>

namespace wheelcache {
namespace internal {

inline constexpr size_t kHugePageBytes = 2 << 20;

// Maps `bytes` of zeros at a multiple of kHugePageBytes, which cost nothing
// until they are touched. Returns null where there is no room. The caller
// gives them back with munmap.
void* MapZeros(size_t bytes);

// Asks for huge pages for the whole ones from `begin` to `begin + bytes`,
// before their first use: of small pages that are in use the system makes huge
// ones in its own time only, or at a price that the caller would notice.
// REQUIRES: `begin` is a multiple of kHugePageBytes.
void AskForHugePages(void* begin, size_t bytes);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_HUGE_PAGES_H_
