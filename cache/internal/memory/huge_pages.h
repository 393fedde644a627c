// Memory from the system, with huge pages on request.
//
// Huge pages save TLB misses on random accesses to much memory. A huge page is
// resident as a whole from its first use.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_

#include <cstddef>

#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

inline constexpr size_t kHugePageBytes = 2 << 20;

// Reserves `bytes` of addresses that begin at a multiple of kHugePageBytes.
// Returns null if there is no room. UnmapPages gives them back.
WHEELCACHE_EXPORT void* ReserveMemory(size_t bytes);

// Makes reserved memory usable: zeros, which take no memory until they are
// touched. Returns whether that succeeded.
// REQUIRES: `begin` is the beginning of a page.
WHEELCACHE_EXPORT bool MakeUsable(void* begin, size_t bytes);

// Both at once; returns null if either fails. UnmapPages gives it back.
WHEELCACHE_EXPORT void* MapZeros(size_t bytes);

// Maps zeros that need not be huge pages; returns null if there is no room.
WHEELCACHE_EXPORT void* MapPages(size_t bytes);

// Gives whole mappings back: `bytes` is what was requested.
WHEELCACHE_EXPORT void UnmapPages(void* memory, size_t bytes);

// As MapPages, for bytes that are all used at once. Throws std::bad_alloc, or
// ends a program without exceptions.
WHEELCACHE_EXPORT void* AllocatePages(size_t bytes);

// What mapped memory takes: `bytes` rounded up to pages.
WHEELCACHE_EXPORT size_t PageBytes(size_t bytes);

// Makes mapped memory zeros again, and gives whole pages of it back to the
// system.
WHEELCACHE_EXPORT void ZeroMemory(void* memory, size_t bytes);

// Requests huge pages for the whole ones from `begin` to `begin + bytes`,
// before their first use: the system collapses small pages in use into huge
// ones late, or at a price that the caller would notice.
// REQUIRES: `begin` is a multiple of kHugePageBytes.
WHEELCACHE_EXPORT void AskForHugePages(void* begin, size_t bytes);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_HUGE_PAGES_H_
