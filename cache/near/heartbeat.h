#ifndef WHEELCACHE_CACHE_NEAR_HEARTBEAT_H_
#define WHEELCACHE_CACHE_NEAR_HEARTBEAT_H_

#include "wheelcache/cache/near/store/heartbeat.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_NEAR_HEARTBEAT_H_
