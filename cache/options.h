#ifndef WHEELCACHE_CACHE_OPTIONS_H_
#define WHEELCACHE_CACHE_OPTIONS_H_

#include "wheelcache/cache/types/options.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_OPTIONS_H_
