// A small number for each thread, by which striped structures keep threads
// apart.
//
// Numbers are given in the order in which threads first ask, from 0.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_THREAD_INDEX_H_
#define WHEELCACHE_CACHE_INTERNAL_THREAD_INDEX_H_

#include <atomic>
#include <cstddef>

namespace wheelcache {
namespace internal {

inline size_t ThreadIndex() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t index =
      threads.fetch_add(1, std::memory_order_relaxed);
  return index;
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_THREAD_INDEX_H_
