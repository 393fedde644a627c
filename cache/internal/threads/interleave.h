// Interleaving points, at which a test can run code between two steps of the
// engine: between replacing an entry in the index and in the list, for
// instance.
//
// In builds with NDEBUG a point does nothing. In others it calls the function
// that a test has set, if any, which may yield, and may call the cache where no
// lock is held.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_

#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// As Interleave, in every build.
WHEELCACHE_EXPORT void CallInterleaving(const char* point);

inline void Interleave([[maybe_unused]] const char* point) {
#ifndef NDEBUG
  CallInterleaving(point);
#endif
}

// For tests: makes each point call `function` with its name; null for none.
WHEELCACHE_EXPORT void SetInterleaving(void (*function)(const char* point));

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_INTERLEAVE_H_
