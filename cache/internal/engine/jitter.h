// "Unstable" expiry: varies TTLs at random, so that entries written together
// do not expire together.
//
// Threads. Thread-compatible; a shard keeps one under its lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_JITTER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_JITTER_H_

#include <cstdint>

#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Jitter {
 public:
  // `stream` tells apart the jitters of one cache's shards.
  Jitter(const CacheOptions& options, uint32_t stream);

  // The TTL to use for one of `ttl_nanos`, which is finite and more than
  // zero; so is the result.
  int64_t Vary(int64_t ttl_nanos);

 private:
  // A random number from [0, 1).
  double NextFraction();

  // The TTL is multiplied by a number drawn from between these.
  double low_;
  double high_;

  uint64_t state_;  // Of the random numbers.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_JITTER_H_
