// What tests see and do of a cache's memory.
//
//   RequireRound(cache.get());  // Maintenance will move all entries that it
//   cache->RunMaintenance();    // can, whatever size the cache has.
//   EXPECT_TRUE(CheckMemory(cache.get()).ok());

#ifndef WHEELCACHE_TESTS_TESTING_CACHE_PEER_H_
#define WHEELCACHE_TESTS_TESTING_CACHE_PEER_H_

#include "absl/status/status.h"
#include "wheelcache/cache/internal/memory/arena.h"

namespace wheelcache {
namespace internal {

class CachePeer {
 public:
  template <typename CacheType>
  static auto& EngineOf(CacheType* cache) {
    return cache->engine_;
  }
  template <typename CacheType>
  static Arena& ArenaOf(CacheType* cache) {
    return EngineOf(cache).pool().arena();
  }
};

}  // namespace internal

namespace testing {

// Has the next steps of the compactor move all entries, as if little of each
// unit of memory were in use. Thread-safe.
template <typename CacheType>
void RequireRound(CacheType* cache) {
  internal::CachePeer::ArenaOf(cache).RequireRound();
}

// Finds the first broken invariant of the memory.
template <typename CacheType>
absl::Status CheckMemory(CacheType* cache) {
  return internal::CachePeer::ArenaOf(cache).CheckInvariants();
}

}  // namespace testing
}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_CACHE_PEER_H_
