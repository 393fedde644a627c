// Memory from the system for which huge pages may be asked.
//
// The processor finds what lies anywhere in much memory faster if its pages are
// large. A huge page is resident as a whole from its first use.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_

#include <cstddef>

namespace wheelcache::internal {

inline constexpr size_t kHugePageBytes = 2 << 20;

// Reserves `bytes` of addresses that begin at a multiple of kHugePageBytes.
// Returns null where there is no room. The caller gives them back with munmap.
void* ReserveMemory(size_t bytes);

// Makes reserved memory usable: zeros, which cost nothing until they are
// touched. Returns whether there is memory for them.
// REQUIRES: `begin` is the beginning of a page.
bool MakeUsable(void* begin, size_t bytes);

// Both at once; returns null where one of them fails.
void* MapZeros(size_t bytes);

// Asks for huge pages for the whole ones from `begin` to `begin + bytes`,
// before their first use: of small pages that are in use the system makes huge
// ones in its own time only, or at a price that the caller would notice.
// REQUIRES: `begin` is a multiple of kHugePageBytes.
void AskForHugePages(void* begin, size_t bytes);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_
