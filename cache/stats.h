#ifndef WHEELCACHE_CACHE_STATS_H_
#define WHEELCACHE_CACHE_STATS_H_

#include "wheelcache/cache/types/stats.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_STATS_H_
