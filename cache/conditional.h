#ifndef WHEELCACHE_CACHE_CONDITIONAL_H_
#define WHEELCACHE_CACHE_CONDITIONAL_H_

#include "wheelcache/cache/types/conditional.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_CONDITIONAL_H_
