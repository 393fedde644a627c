#ifndef WHEELCACHE_CACHE_HASH_H_
#define WHEELCACHE_CACHE_HASH_H_

#include "wheelcache/cache/types/hash.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_HASH_H_
