// Tells apart the copies of the library in one process.
//
// A process has one copy, in the program or in a shared object, unless several
// shared objects link it statically and hide its symbols. Each copy has its own
// thread records and epochs, and knows nothing of the readers of another one.
// So a cache may be used through the copy that made it alone; any other use
// ends the program.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREADS_LIBRARY_COPY_H_
#define WHEELCACHE_CACHE_INTERNAL_THREADS_LIBRARY_COPY_H_

#include "absl/base/optimization.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Known by its address.
struct LibraryCopy {
  char anything;
};

// The one that the calling code belongs to.
extern WHEELCACHE_EXPORT const LibraryCopy kThisCopy;

// Ends the program with a message.
[[noreturn]] WHEELCACHE_EXPORT void EndForOtherCopy();

// Ends the program unless the copy that made a cache is the caller's own.
inline void CheckCopy(const LibraryCopy* maker) {
  if (ABSL_PREDICT_FALSE(maker != &kThisCopy)) EndForOtherCopy();
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_THREADS_LIBRARY_COPY_H_
