// The options of a cache: limits, expiry, sharding and maintenance.
//
//   wheelcache::CacheOptions options;
//   options.name = "sessions";
//   options.max_entries = 100'000;
//   options.max_bytes = 256 << 20;
//   options.default_ttl = absl::Minutes(30);
//   auto cache = wheelcache::Cache<std::string, Session>::Create(options);
//
// Every field has a default that works; the defaults give a cache without
// limits whose entries never expire. If a field breaks its rule, Cache::Create
// returns kInvalidArgument and names the field, the value and the rule.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_TYPES_OPTIONS_H_
#define WHEELCACHE_CACHE_TYPES_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {

// The value of max_entries and max_bytes that sets no limit.
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The range of the jittered TTL, for a TTL t and a jitter fraction f.
enum class JitterMode {
  kAround,   // Uniform in [t - f * t, t + f * t].
  kShorten,  // Uniform in [t - f * t, t]: never longer than was asked.
};

// Which live entry a Set that needs room evicts.
enum class EvictionPolicy {
  kLru,            // The least recently used.
  kScanResistant,  // What was used only once, first; see docs/policy.md.
};

struct CacheOptions {
  // Appears in the statistics line and in error messages, and labels the
  // cache's metrics.
  std::string name = "cache";

  // Whether what shows all caches of the process shows this one: ReportCaches,
  // PrometheusText and StatusPage.
  bool registered = true;

  // The most entries, and the most charged bytes, in the cache at any instant.
  // At least 1 each, and bytes for the smallest entry that there can be; both
  // may be set. Cache::SetLimits changes them, to 1 or more.
  int64_t max_entries = kUnlimited;
  int64_t max_bytes = kUnlimited;

  // Gains some points of hit ratio where many entries are used only once, for
  // 2 bytes of memory an entry besides max_bytes. Keeps all other promises.
  EvictionPolicy policy = EvictionPolicy::kLru;

  // The TTL of a Set that names none. More than zero, or infinite.
  absl::Duration default_ttl = absl::InfiniteDuration();

  // Sliding expiry: an entry also ends once it was not used for so long, by
  // what makes it the most recently used; never later, and at most a 16th of
  // this earlier. It still ends with its TTL, however much it is used. Where
  // that is infinite, what is used often enough is never loaded again. At least
  // 1 us; infinite for none. Takes 8 bytes an entry.
  absl::Duration idle_ttl = absl::InfiniteDuration();

  // "Unstable" expiry: each finite TTL is varied at random by up to this
  // fraction, so that entries written together do not expire, and miss,
  // together. From 0 (off) to 1.
  double jitter = 0.05;
  JitterMode jitter_mode = JitterMode::kAround;

  // Gives each shard the same sequence of jitter in every run of a program.
  // Without it, each cache differs.
  std::optional<uint64_t> jitter_seed = std::nullopt;

  // Refresh-ahead, for caches with Hooks::reload or load: from which age on a
  // value is refreshed, and from which fraction of its life on, whichever comes
  // first. More than zero; infinite and 1 for never. Readers get the old value
  // until its deadline; see cache/load.h. Ages are in steps of 20 ms.
  absl::Duration refresh_after = absl::InfiniteDuration();
  double refresh_at = 1;

  // How long after a refresh that failed the next one of the same key may
  // begin. Zero or more.
  absl::Duration retry_after = absl::Seconds(1);

  // The most refreshes that are queued or run at a time. At least 1.
  int max_refreshes = 16;

  // Whether Cache::Advise tells what other limits would do, and why reads miss;
  // see cache/advice.h. Takes 256 KiB, and time from reads of sampled keys.
  bool advise = false;

  // The number of independently locked parts, a power of two up to 256; 0
  // chooses by the limits. With one shard the LRU order is exact; a cache for
  // a few thousand entries gets one. Stays what it was at first.
  int shards = 0;

  // The resolution of reclaiming. More than zero, at most a day. What Get
  // returns does not depend on it: deadlines are kept, and tested, to the
  // nanosecond.
  absl::Duration tick = absl::Milliseconds(1);

  // How long the reaper may delay reclaiming, to reclaim many entries at once.
  // Zero or more.
  absl::Duration reclaim_delay = absl::Milliseconds(100);

  // The most work in one hold of a lock: timers that it fires or cascades,
  // entries that it evicts or moves within the LRU list. At least 1.
  int64_t maintenance_budget = 64;

  // The clock by which entries expire, monotonic; it may read less than zero.
  // Not owned, not null; must outlive the cache.
  Clock* clock = &Clock::Monotonic();

  // The background thread that reclaims expired entries between calls. Not
  // owned; must outlive the cache and run on the same clock. Null for none:
  // then Set and RunMaintenance reclaim.
  Reaper* reaper = &Reaper::Shared();

  // For programs without a reaper: called when NextDeadline has become earlier
  // than what it last told; then not before it was asked again, which one
  // thread alone may do. Called on the thread whose call to the cache has made
  // it earlier, with no lock held; what it throws goes no further. Empty for
  // none; see examples/event_loop.cc.
  std::function<void()> on_earlier_deadline = {};

  // Receives a line of statistics each minute in which the cache was read:
  //   cache(NAME) - qpm: 12, hit_ratio: 75.0%, elements: 3, hit: 9, miss: 3
  // Called by the thread that does the maintenance, with no lock held. Empty
  // for none.
  internal::Callback<void(absl::string_view line)> stats_log = {};
};

// The limits of a cache at some instant; see max_entries and max_bytes.
struct CacheLimits {
  int64_t entries = kUnlimited;
  int64_t bytes = kUnlimited;
};

namespace internal {

// OK, or which field breaks which rule, in a cache with a hook that refreshes
// or without, whose smallest entry is charged so much.
WHEELCACHE_EXPORT absl::Status Validate(const CacheOptions& options,
                                        bool may_refresh,
                                        uint64_t least_charge = 1);

// OK, or which of the limits of a cache with this name breaks which rule.
WHEELCACHE_EXPORT absl::Status ValidateLimits(absl::string_view name,
                                              int64_t max_entries,
                                              int64_t max_bytes);

// The number of shards of a cache with these valid options.
WHEELCACHE_EXPORT int ShardCount(const CacheOptions& options);

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_OPTIONS_H_
