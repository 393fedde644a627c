// Asks Sentinels for the primary of a name.
//
// Threads. Thread-safe.
// Errors. Unavailable: none of them answers, or knows the name; of the last.
// Cost. Blocks, for half a second for each address that does not answer.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SENTINEL_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SENTINEL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Returns the address that the first one names that answers.
WHEELCACHE_EXPORT absl::StatusOr<std::vector<SocketAddress>> AskSentinels(
    const ServerUrl& url);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SENTINEL_H_
