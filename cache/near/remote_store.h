#ifndef WHEELCACHE_CACHE_NEAR_REMOTE_STORE_H_
#define WHEELCACHE_CACHE_NEAR_REMOTE_STORE_H_

#include "wheelcache/cache/near/store/remote_store.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_NEAR_REMOTE_STORE_H_
