// The options of a near cache.
//
//   wheelcache::NearCacheOptions options;
//   options.local.name = "users";
//   options.local.max_entries = 100'000;
//   options.key_prefix = "user:";
//   options.max_staleness = absl::Seconds(1);
//   auto users = wheelcache::NearCache<std::string>::Create(options, &store);
//
// Every field has a default that works. If a field breaks its rule,
// NearCache::Create returns kInvalidArgument and names the field, the value and
// the rule.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_NEAR_NEAR_OPTIONS_H_
#define WHEELCACHE_CACHE_NEAR_NEAR_OPTIONS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

// The default of NearCacheOptions::local: a cache named "near" whose jitter
// shortens.
WHEELCACHE_EXPORT CacheOptions LocalTierOptions();

// What a near cache does with what it fetches while no session tells of writes:
// because the server has no tracking, or the session is being built again.
enum class WithoutTracking {
  kRefuse,               // Does not keep it.
  kServeForMaxStaleness  // Serves it until max_staleness after it asked for it.
};

struct NearCacheOptions {
  // The local tier. Its name is that of the near cache. jitter_mode must be
  // kShorten: nothing may live longer here than in the store. default_ttl has
  // no effect. `clock` must be that of the store.
  CacheOptions local = LocalTierOptions();

  // Stands before each key in the store. All near caches of a store have
  // different ones, none of which begins with another. Short and selective: the
  // store tells of every write to a key with this prefix.
  std::string key_prefix;

  // The bound on staleness: see the promise in cache/near/near_cache.h. At
  // least 10 ms, and at most a day.
  absl::Duration max_staleness = absl::Seconds(3);

  // The longest that a call waits, for the store and for others' fetches
  // together. More than zero, and at most max_staleness.
  absl::Duration command_timeout = absl::Milliseconds(500);

  // How long a value stays in the local tier at most. More than zero.
  absl::Duration max_local_ttl = absl::Minutes(10);

  // How long the local tier remembers that the store lacks a key. Zero or more;
  // with zero, it does not.
  absl::Duration negative_ttl = absl::Seconds(30);

  // The promise holds either way.
  WithoutTracking without_tracking = WithoutTracking::kRefuse;

  // Whether a Get that fails with Unavailable or DeadlineExceeded returns what
  // is still within its local TTL instead, outside the promise.
  bool stale_if_error = false;

  // If set, is called with OK whenever a session with a server has begun, and
  // with the reason when one is lost, or an attempt to begin one has failed. On
  // the store's I/O thread, which serves all near caches of the store: must not
  // block, nor destroy the near cache; may call it otherwise. What it throws is
  // lost.
  std::function<void(const absl::Status& status)> on_session = {};
};

// Of a call of NearCache::GetOrLoad.
struct NearLoadOptions {
  // The TTL in the store where the loader names none. What has one of zero or
  // less is returned, and not written.
  absl::Duration ttl = absl::InfiniteDuration();

  // How long to wait for others' loads. Then, for one in this process, the call
  // returns DeadlineExceeded; for one in another, it loads without writing.
  absl::Duration wait = absl::InfiniteDuration();

  // If more than zero, one process at a time loads the key, under a lock in the
  // store. A process that dies keeps the others waiting for so long at most; a
  // load that takes longer is not written. All processes have the same.
  absl::Duration load_lock = absl::ZeroDuration();
};

namespace internal {

// OK, or which field breaks which rule, for a store on this clock.
WHEELCACHE_EXPORT absl::Status Validate(const NearCacheOptions& options,
                                        const Clock& store_clock);
WHEELCACHE_EXPORT absl::Status Validate(const NearLoadOptions& options);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_OPTIONS_H_
