#ifndef WHEELCACHE_CACHE_LOAD_H_
#define WHEELCACHE_CACHE_LOAD_H_

#include "wheelcache/cache/types/load.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_LOAD_H_
