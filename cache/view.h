#ifndef WHEELCACHE_CACHE_VIEW_H_
#define WHEELCACHE_CACHE_VIEW_H_

#include "wheelcache/cache/types/view.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_VIEW_H_
