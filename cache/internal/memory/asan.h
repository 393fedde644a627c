// Tells AddressSanitizer and LeakSanitizer about a custom allocator's memory.
// Without them, does nothing.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_ASAN_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_ASAN_H_

#include <cstddef>

#include "absl/base/config.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace wheelcache::internal {

#ifdef ABSL_HAVE_ADDRESS_SANITIZER

// Make any use of this memory an error from now on; or no use.
inline void Poison(void* memory, size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void Unpoison(void* memory, size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}

// What pointers in this memory refer to is no leak; or may be one again.
inline void AddLeakRoot(void* memory, size_t bytes) {
  __lsan_register_root_region(memory, bytes);
}
inline void RemoveLeakRoot(void* memory, size_t bytes) {
  __lsan_unregister_root_region(memory, bytes);
}

#else

inline void Poison(void*, size_t) {}
inline void Unpoison(void*, size_t) {}
inline void AddLeakRoot(void*, size_t) {}
inline void RemoveLeakRoot(void*, size_t) {}

#endif

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_ASAN_H_
