#ifndef WHEELCACHE_CACHE_NEAR_FAKE_STORE_H_
#define WHEELCACHE_CACHE_NEAR_FAKE_STORE_H_

#include "wheelcache/cache/near/testing/fake_store.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_NEAR_FAKE_STORE_H_
