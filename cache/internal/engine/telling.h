// The notifications of removal listeners that a thread is in.
//
// A call that runs within a notification of its cache leaves what it has
// removed to the call that notifies, which tells of it when the listener has
// returned. So notifications of a cache never nest on a thread, and a listener
// may go on removing entries without taking stack or memory.
//
// There is a list for each cache, not one for the thread, so that a cache may
// end within a notification of another: what a list has is told before the call
// that it belongs to returns.
//
// Threads. Each thread sees its own.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TELLING_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TELLING_H_

#include "wheelcache/cache/internal/entry/removed_list.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// As long as it exists, this thread is telling the listener of `cache` of what
// is in `removed`.
class WHEELCACHE_EXPORT Telling {
 public:
  Telling(const void* cache, RemovedList* removed);
  ~Telling();
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

  // The list of the call that is telling the listener of `cache`, or null.
  // O(caches whose listeners this thread is in).
  static RemovedList* ListOf(const void* cache);

 private:
  static thread_local const Telling* innermost;

  const void* const cache_;
  RemovedList* const removed_;
  const Telling* const outer_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TELLING_H_
