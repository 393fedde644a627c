// What the statistics of a cache say about its limits and its TTLs.
//
//   for (const std::string& sentence : Advise(cache->stats())) Show(sentence);
//
// One sentence for each rule that applies; none where there is nothing to
// change. Where the cache has advice of its own (CacheOptions::advise), what it
// says of other limits and of misses stands in the place of rules of thumb. The
// rules are listed in docs/observability.md.
//
// Threads. A function of its argument alone.

#ifndef WHEELCACHE_CACHE_REPORT_INTERNAL_ADVICE_H_
#define WHEELCACHE_CACHE_REPORT_INTERNAL_ADVICE_H_

#include <string>
#include <vector>

#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

WHEELCACHE_EXPORT std::vector<std::string> Advise(const CacheStats& stats);

// The part of its tighter limit that a cache uses, from 0 to 1; 0 where it has
// no limit.
WHEELCACHE_EXPORT double UseOf(const CacheStats& stats);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_REPORT_INTERNAL_ADVICE_H_
