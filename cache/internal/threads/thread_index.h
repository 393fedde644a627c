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

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// As ThreadIndex, for a thread that has no record yet.
WHEELCACHE_EXPORT size_t FirstThreadIndex();

inline size_t ThreadIndex() {
  const size_t index = this_thread.index;
  return ABSL_PREDICT_TRUE(index != kSharedThreadIndex) ? index
                                                        : FirstThreadIndex();
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
