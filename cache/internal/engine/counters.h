// What a cache counts.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_

#include "wheelcache/cache/internal/threads/striped_counters.h"

namespace wheelcache::internal {

enum class Count {
  kHits,
  kMisses,
  kSets,
  kExpired,  // Evictions are EvictionRecord's.
  kDeleted,
  kReplaced,
  kListenerExceptions,
  kRefused,
  kLoads,
  kLoadErrors,
  kSupersededLoads,
  kLoadNanos,
  kLoadWaits,
  kStaleHits,
  kRefreshes,
  kEnd,  // No count.
};

using Counters = StripedCounters<Count>;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_COUNTERS_H_
