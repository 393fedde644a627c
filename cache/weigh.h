#ifndef WHEELCACHE_CACHE_WEIGH_H_
#define WHEELCACHE_CACHE_WEIGH_H_

#include "wheelcache/cache/types/weigh.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_WEIGH_H_
