// A small number for the calling thread, by which it picks its stripe: no two
// threads have the same one at a time.
//
// A new thread takes over the number of one that has ended, and sees all that
// was written under it.
//
// Threads. Thread-safe.
//
// Errors. None: without memory for a record, the thread shares
// kSharedThreadIndex.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_

#include <cstddef>
#include <limits>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {

// The number shared by all threads without one of their own: those at their
// very end, and those without memory for a record.
inline constexpr size_t kSharedThreadIndex = std::numeric_limits<size_t>::max();

// As ThreadIndex, for a thread that has no record yet.
size_t FirstThreadIndex();

inline size_t ThreadIndex() {
  return ABSL_PREDICT_TRUE(thread_record != nullptr) ? thread_record->index
                                                     : FirstThreadIndex();
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
