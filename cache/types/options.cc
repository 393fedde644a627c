#include "wheelcache/cache/types/options.h"

#include <algorithm>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"

namespace wheelcache {
namespace {

constexpr int kMaxShards = 256;

template <typename Value>
absl::Status Broken(absl::string_view name, absl::string_view field,
                    const Value& value, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat(
      "CacheOptions of \"", name, "\": ", field, " is ", value, ", ", rule));
}
template <typename Value>
absl::Status Broken(const CacheOptions& options, absl::string_view field,
                    const Value& value, absl::string_view rule) {
  return Broken(options.name, field, value, rule);
}

absl::Status ValidateExpiry(const CacheOptions& o) {
  if (o.default_ttl <= absl::ZeroDuration()) {
    return Broken(o, "default_ttl", absl::FormatDuration(o.default_ttl),
                  "must be more than zero");
  }
  if (o.idle_ttl < absl::Microseconds(1)) {
    return Broken(o, "idle_ttl", absl::FormatDuration(o.idle_ttl),
                  "must be at least 1us");
  }
  if (!(o.jitter >= 0 && o.jitter <= 1)) {  // Catches a NaN, too.
    return Broken(o, "jitter", o.jitter, "must be from 0 to 1");
  }
  if (o.tick < absl::Nanoseconds(1) || o.tick > absl::Hours(24)) {
    return Broken(o, "tick", absl::FormatDuration(o.tick),
                  "must be from 1ns to 24h");
  }
  if (o.reclaim_delay < absl::ZeroDuration()) {
    return Broken(o, "reclaim_delay", absl::FormatDuration(o.reclaim_delay),
                  "must not be negative");
  }
  return absl::OkStatus();
}

absl::Status ValidateRefreshes(const CacheOptions& o, bool may_refresh) {
  if (o.refresh_after <= absl::ZeroDuration()) {
    return Broken(o, "refresh_after", absl::FormatDuration(o.refresh_after),
                  "must be more than zero");
  }
  if (!(o.refresh_at > 0 && o.refresh_at <= 1)) {
    return Broken(o, "refresh_at", o.refresh_at,
                  "must be more than 0 and at most 1");
  }
  if (o.retry_after < absl::ZeroDuration()) {
    return Broken(o, "retry_after", absl::FormatDuration(o.retry_after),
                  "must not be negative");
  }
  if (o.max_refreshes < 1) {
    return Broken(o, "max_refreshes", o.max_refreshes, "must be at least 1");
  }
  if (may_refresh) return absl::OkStatus();
  constexpr absl::string_view kRule = "must have Hooks::reload or load";
  if (o.refresh_after != absl::InfiniteDuration()) {
    return Broken(o, "refresh_after", absl::FormatDuration(o.refresh_after),
                  kRule);
  }
  if (o.refresh_at != 1) return Broken(o, "refresh_at", o.refresh_at, kRule);
  return absl::OkStatus();
}

// Policy, shards, clock and maintenance.
absl::Status ValidateEngine(const CacheOptions& o) {
  if (o.policy != EvictionPolicy::kLru &&
      o.policy != EvictionPolicy::kScanResistant) {
    return Broken(o, "policy", static_cast<int>(o.policy),
                  "must be kLru or kScanResistant");
  }
  if (o.shards < 0 || o.shards > kMaxShards ||
      (o.shards & (o.shards - 1)) != 0) {
    return Broken(o, "shards", o.shards,
                  "must be 0 or a power of two up to 256");
  }
  if (o.maintenance_budget < 1) {
    return Broken(o, "maintenance_budget", o.maintenance_budget,
                  "must be at least 1");
  }
  if (o.clock == nullptr) {
    return Broken(o, "clock", "null", "must be a clock");
  }
  if (o.reaper != nullptr && &o.reaper->clock() != o.clock) {
    return Broken(o, "reaper", "on another clock",
                  "must run on `clock`, or be null, in which case "
                  "RunMaintenance() reclaims");
  }
  if (o.reaper != nullptr && o.on_earlier_deadline != nullptr) {
    return Broken(o, "on_earlier_deadline", "a function",
                  "must be empty unless `reaper` is null");
  }
  return absl::OkStatus();
}

}  // namespace

namespace internal {

absl::Status Validate(const CacheOptions& o, bool may_refresh,
                      uint64_t least_charge) {
  absl::Status status = ValidateLimits(o.name, o.max_entries, o.max_bytes);
  if (status.ok() && static_cast<uint64_t>(o.max_bytes) < least_charge) {
    return Broken(o, "max_bytes", o.max_bytes,
                  absl::StrCat("must be at least ", least_charge,
                               ", or no entry of this cache fits"));
  }
  if (status.ok()) status = ValidateExpiry(o);
  if (status.ok()) status = ValidateRefreshes(o, may_refresh);
  if (status.ok()) status = ValidateEngine(o);
  return status;
}

absl::Status ValidateLimits(absl::string_view name, int64_t max_entries,
                            int64_t max_bytes) {
  if (max_entries < 1) {
    return Broken(name, "max_entries", max_entries, "must be at least 1");
  }
  if (max_bytes < 1) {
    return Broken(name, "max_bytes", max_bytes, "must be at least 1");
  }
  return absl::OkStatus();
}

// A shard more for each few thousand entries, so that a small cache keeps the
// exact LRU order and a large one does not queue at its locks. The bytes of an
// entry are not known here; 256 is a common size.
int ShardCount(const CacheOptions& options) {
  if (options.shards > 0) return options.shards;
  constexpr int64_t kEntriesPerShard = 4096;
  constexpr int64_t kTypicalEntryBytes = 256;
  constexpr uint64_t kMostByDefault = 64;
  const int64_t entries =
      std::min(options.max_entries, options.max_bytes / kTypicalEntryBytes);
  const auto shards = static_cast<uint64_t>(entries / kEntriesPerShard);
  return static_cast<int>(
      absl::bit_floor(std::clamp<uint64_t>(shards, 1, kMostByDefault)));
}

}  // namespace internal
}  // namespace wheelcache
