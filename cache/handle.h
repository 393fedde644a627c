#ifndef WHEELCACHE_CACHE_HANDLE_H_
#define WHEELCACHE_CACHE_HANDLE_H_

#include "wheelcache/cache/internal/entry/handle.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_HANDLE_H_
