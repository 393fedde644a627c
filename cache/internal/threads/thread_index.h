// A small number for each thread that uses a cache, by which striped structures
// keep threads apart.
//
// No two threads have the same at a time; a thread that comes takes over the
// number of one that has gone, and sees all that was written under it.
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
#include "wheelcache/cache/internal/epoch/epoch.h"

namespace wheelcache {
namespace internal {

// What threads share that are so near their end that they can have none, or for
// which there is no memory.
inline constexpr size_t kSharedThreadIndex = std::numeric_limits<size_t>::max();

inline size_t ThreadIndex() {
  if (ABSL_PREDICT_TRUE(epoch_record != nullptr)) return epoch_record->index;
  EpochRecord* const record = TryTakeEpochRecord();
  if (epoch_record != nullptr) return record->index;
  if (record != nullptr) LeaveEpochRecord(record);
  return kSharedThreadIndex;
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_THREAD_INDEX_H_
