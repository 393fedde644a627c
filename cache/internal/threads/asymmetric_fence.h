// An asymmetric pair of memory fences: the light one costs next to nothing.
//
// A reader stores what it announces, calls LightFence(), and loads a link. A
// writer clears the link, calls HeavyFence(), and loads the announcement. At
// least one of the two then sees the other's store, as with two sequentially
// consistent fences.
//
// Where the system offers that, as Linux by membarrier(2), HeavyFence() makes
// every running thread of the process execute a fence, so that LightFence() is
// a compiler barrier only.
// Elsewhere both are full fences. Under ThreadSanitizer, which knows no fences,
// read-modify-writes take their place.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_ASYMMETRIC_FENCE_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_ASYMMETRIC_FENCE_H_

#include <atomic>

#include "absl/base/config.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Whether HeavyFence() uses membarrier. Relaxed: a thread that reads false has
// a fence that it could do without, and one that reads true has had a full
// fence since it was set.
extern WHEELCACHE_EXPORT std::atomic<bool> light_fence_is_free;

// To be called by each thread, and a FullFence() after it, before its first
// LightFence().
WHEELCACHE_EXPORT void PrepareFences();

inline void LightFence() {
  Interleave("fence: light");
#ifdef ABSL_HAVE_THREAD_SANITIZER
  // It knows no fences: the store before this one is a read-modify-write.
#else
  if (ABSL_PREDICT_TRUE(light_fence_is_free.load(std::memory_order_relaxed))) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
#endif
}

WHEELCACHE_EXPORT void HeavyFence();

// A sequentially consistent fence that ThreadSanitizer understands.
#ifdef ABSL_HAVE_THREAD_SANITIZER
WHEELCACHE_EXPORT void FullFence();
#else
inline void FullFence() {
  Interleave("fence: full");
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
#endif

// For tests: whether HeavyFence() is to use membarrier where that exists, as it
// does by default. REQUIRES: no other thread is between its store and its load.
WHEELCACHE_EXPORT void UseMembarrier(bool use);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_ASYMMETRIC_FENCE_H_
