#ifndef WHEELCACHE_CACHE_HISTOGRAM_H_
#define WHEELCACHE_CACHE_HISTOGRAM_H_

#include "wheelcache/cache/types/histogram.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_HISTOGRAM_H_
