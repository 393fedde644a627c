// The number of the calling thread, by which striped structures keep threads
// apart: small, and no two threads have the same at a time.
//
// A thread that comes takes over the number of one that has ended, and sees all
// that was written under it.
//
// Threads. Thread-safe.
//
// Errors. None: a thread for whose record there is no memory shares a number
// meanwhile.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_

#include <cstddef>
#include <limits>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {

// The number of all threads that can have none of their own: they are so near
// their end, or there is no memory for a record.
inline constexpr size_t kSharedThreadIndex = std::numeric_limits<size_t>::max();

// As ThreadIndex, for a thread that has no record yet.
size_t FirstThreadIndex();

inline size_t ThreadIndex() {
  return ABSL_PREDICT_TRUE(thread_record != nullptr) ? thread_record->index
                                                     : FirstThreadIndex();
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
