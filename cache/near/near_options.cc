#include "wheelcache/cache/near/near_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace {

// Below it, one PING would follow the other without a pause.
constexpr absl::Duration kLeastStaleness = absl::Milliseconds(10);
constexpr absl::Duration kMostStaleness = absl::Hours(24);

absl::Status Broken(const NearCacheOptions& options, absl::string_view field,
                    absl::string_view value, absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("NearCacheOptions of \"", options.local.name, "\": ", field,
                   " is ", value, ", ", rule));
}

absl::Status ValidateTimes(const NearCacheOptions& o) {
  if (o.max_staleness < kLeastStaleness || o.max_staleness > kMostStaleness) {
    return Broken(o, "max_staleness", absl::FormatDuration(o.max_staleness),
                  "must be from 10ms to 24h");
  }
  if (o.command_timeout <= absl::ZeroDuration() ||
      o.command_timeout > o.max_staleness) {
    return Broken(o, "command_timeout", absl::FormatDuration(o.command_timeout),
                  absl::StrCat("must be more than zero and at most "
                               "max_staleness, which is ",
                               absl::FormatDuration(o.max_staleness)));
  }
  if (o.max_local_ttl <= absl::ZeroDuration()) {
    return Broken(o, "max_local_ttl", absl::FormatDuration(o.max_local_ttl),
                  "must be more than zero");
  }
  if (o.negative_ttl < absl::ZeroDuration()) {
    return Broken(o, "negative_ttl", absl::FormatDuration(o.negative_ttl),
                  "must not be negative");
  }
  return absl::OkStatus();
}

}  // namespace

CacheOptions LocalTierOptions() {
  CacheOptions options;
  options.name = "near";
  options.jitter_mode = JitterMode::kShorten;
  return options;
}

namespace internal {

absl::Status Validate(const NearCacheOptions& o, const Clock& store_clock) {
  absl::Status status = Validate(o.local, /*may_refresh=*/false);
  if (!status.ok()) return status;
  if (o.local.jitter_mode != JitterMode::kShorten) {
    return Broken(o, "local.jitter_mode", "kAround",
                  "must be kShorten, so that no value lives longer here than "
                  "in the store");
  }
  if (o.local.clock != &store_clock) {
    return Broken(o, "local.clock", "not the clock of the store",
                  "must be that: leases and deadlines are its readings");
  }
  return ValidateTimes(o);
}

absl::Status Validate(const NearLoadOptions& options) {
  if (options.load_lock >= absl::ZeroDuration() &&
      options.load_lock != absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "NearLoadOptions: load_lock is ", absl::FormatDuration(options.load_lock),
      ", must be zero or more, and finite"));
}

}  // namespace internal
}  // namespace wheelcache
