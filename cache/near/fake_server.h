#ifndef WHEELCACHE_CACHE_NEAR_FAKE_SERVER_H_
#define WHEELCACHE_CACHE_NEAR_FAKE_SERVER_H_

#include "wheelcache/cache/near/testing/fake_server.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_NEAR_FAKE_SERVER_H_
