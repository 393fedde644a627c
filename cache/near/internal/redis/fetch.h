// Reads keys and their TTLs through a Pipeline.
//
// Sends, without MULTI, PTTL for each key, and GET, or one MGET for several
// keys. So a key may be written between its two commands: its TTL is then the
// old one, and the invalidation that follows ends what was fetched. MGET shows
// a value that is no string as absent; where PTTL contradicts, another GET
// decides. Beyond a thousand keys, there are several round trips.
//
// Threads. Thread-safe.
// Errors. Those of Pipeline::Execute, for all keys of a round trip; error
// replies, by StatusOfError, for the key.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_FETCH_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_FETCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/near/internal/redis/pipeline.h"
#include "wheelcache/cache/near/internal/redis/resp.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Of a round trip: other commands wait for these.
constexpr size_t kMostKeysOfRound = 1000;
constexpr size_t kMostCommandsOfRound = 2 * kMostKeysOfRound;

// As RemoteStore::Fetch, but for the sessions.
WHEELCACHE_EXPORT std::vector<absl::StatusOr<RemoteStore::Fetched>>
FetchFromRedis(Pipeline& pipeline, const Clock& clock,
               absl::Span<const absl::string_view> keys,
               absl::Duration timeout);

// Makes the result of the replies to PTTL and GET, which were sent at
// `sent_nanos` or later. Takes the text of the value.
WHEELCACHE_EXPORT absl::StatusOr<RemoteStore::Fetched> FetchedFrom(
    const Reply& ttl, Reply& value, int64_t sent_nanos);

// The same of the replies to both, or of why there are none, with the session
// that lasted then.
WHEELCACHE_EXPORT absl::StatusOr<RemoteStore::Fetched> FetchedFrom(
    absl::StatusOr<std::vector<Reply>> replies, int64_t sent_nanos,
    uint64_t session);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_FETCH_H_
