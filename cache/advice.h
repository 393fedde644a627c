#ifndef WHEELCACHE_CACHE_ADVICE_H_
#define WHEELCACHE_CACHE_ADVICE_H_

#include "wheelcache/cache/types/advice.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_ADVICE_H_
