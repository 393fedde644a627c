#ifndef WHEELCACHE_CACHE_REMOVAL_H_
#define WHEELCACHE_CACHE_REMOVAL_H_

#include "wheelcache/cache/types/removal.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_REMOVAL_H_
