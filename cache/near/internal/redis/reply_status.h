// Turns error replies of the server into Status: which command, what the server
// said, and what to do.
//
// Codes. Unauthenticated and PermissionDenied: of the login. Unavailable: the
// server cannot serve now (it loads, runs a script, or is a replica).
// ResourceExhausted: of memory or of clients. InvalidArgument: the key has a
// value that is no string. Unimplemented: the server lacks the command, or is a
// node of a cluster. Unknown: the rest.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_STATUS_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/near/internal/redis/reply.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// REQUIRES: IsError(reply).
WHEELCACHE_EXPORT absl::Status StatusOfError(absl::string_view command,
                                             const redisReply& reply);

// For a reply of a type that `command` does not have.
WHEELCACHE_EXPORT absl::Status UnexpectedReply(absl::string_view command,
                                               const redisReply& reply);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_REPLY_STATUS_H_
