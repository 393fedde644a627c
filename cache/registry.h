#ifndef WHEELCACHE_CACHE_REGISTRY_H_
#define WHEELCACHE_CACHE_REGISTRY_H_

#include "wheelcache/cache/report/registry.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_REGISTRY_H_
