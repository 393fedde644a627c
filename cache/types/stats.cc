#include "wheelcache/cache/types/stats.h"

#include <limits>

#include "absl/strings/str_format.h"

namespace wheelcache {
namespace {

constexpr Metric::Kind kCounter = Metric::Kind::kCounter;
constexpr Metric::Kind kGauge = Metric::Kind::kGauge;

struct Number {
  absl::string_view name;
  absl::string_view help;
  Metric::Kind kind;
  int64_t CacheStats::*member;
  absl::string_view label;
  double unit = 1;  // What one is of the member.
};

// Each number of CacheStats, in the order in which they are shown.
constexpr Number kNumbers[] = {
    {"wheelcache_hits_total", "Reads that found a live value.", kCounter,
     &CacheStats::hits, ""},
    {"wheelcache_misses_total", "Reads that found none.", kCounter,
     &CacheStats::misses, ""},
    {"wheelcache_sets_total", "Values stored, by Set or by a load.", kCounter,
     &CacheStats::sets, ""},
    {"wheelcache_refused_total",
     "Values not stored: too large, or with a TTL of zero or less.", kCounter,
     &CacheStats::refused, ""},
    {"wheelcache_removals_total", "Entries removed, by cause.", kCounter,
     &CacheStats::deletes, "cause=\"deleted\""},
    {"wheelcache_removals_total", "Entries removed, by cause.", kCounter,
     &CacheStats::evictions, "cause=\"evicted\""},
    {"wheelcache_removals_total", "Entries removed, by cause.", kCounter,
     &CacheStats::expirations, "cause=\"expired\""},
    {"wheelcache_removals_total", "Entries removed, by cause.", kCounter,
     &CacheStats::replaced, "cause=\"replaced\""},
    {"wheelcache_evicted_bytes_total",
     "Bytes that were charged to evicted entries.", kCounter,
     &CacheStats::evicted_bytes, ""},
    {"wheelcache_loads_total", "Loads, tickets and refreshes that ended.",
     kCounter, &CacheStats::loads, ""},
    {"wheelcache_load_errors_total", "Loads that failed.", kCounter,
     &CacheStats::load_errors, ""},
    {"wheelcache_superseded_loads_total",
     "Loads whose value a later write kept out.", kCounter,
     &CacheStats::superseded_loads, ""},
    {"wheelcache_load_seconds_total", "Time that the loads took.", kCounter,
     &CacheStats::load_nanos, "", 1e-9},
    {"wheelcache_load_waits_total", "Calls that joined another's load.",
     kCounter, &CacheStats::load_waits, ""},
    {"wheelcache_stale_hits_total", "Calls that found a value to be refreshed.",
     kCounter, &CacheStats::stale_hits, ""},
    {"wheelcache_refreshes_total", "Refreshes that were run.", kCounter,
     &CacheStats::refreshes, ""},
    {"wheelcache_listener_exceptions_total", "Exceptions of removal listeners.",
     kCounter, &CacheStats::listener_exceptions, ""},
    {"wheelcache_entries", "Entries in the cache.", kGauge,
     &CacheStats::entries, ""},
    {"wheelcache_max_entries", "The limit of entries.", kGauge,
     &CacheStats::max_entries, ""},
    {"wheelcache_charged_bytes", "Bytes charged to the entries.", kGauge,
     &CacheStats::bytes, ""},
    {"wheelcache_max_bytes", "The limit of charged bytes.", kGauge,
     &CacheStats::max_bytes, ""},
    {"wheelcache_resident_bytes",
     "Resident memory of entries, indexes and free blocks.", kGauge,
     &CacheStats::resident_bytes, ""},
};

struct Distribution {
  absl::string_view name;
  absl::string_view help;
  Histogram CacheStats::*member;
};

constexpr Distribution kDistributions[] = {
    {"wheelcache_eviction_age_seconds", "Age of entries at their eviction.",
     &CacheStats::eviction_age},
    {"wheelcache_eviction_life_left_ratio",
     "Part of their lives that evicted entries had left.",
     &CacheStats::eviction_life_left},
};

// Of the advice.

struct Ratio {
  double CacheAdvice::*member;
  absl::string_view label;
};

constexpr Ratio kRatios[] = {
    {&CacheAdvice::half, "limits=\"half\""},
    {&CacheAdvice::same, "limits=\"same\""},
    {&CacheAdvice::twice, "limits=\"twice\""},
    {&CacheAdvice::four_times, "limits=\"four times\""},
};

struct MissCause {
  int64_t CacheAdvice::*member;
  absl::string_view label;
};

constexpr MissCause kMissCauses[] = {
    {&CacheAdvice::first_uses, "cause=\"first use\""},
    {&CacheAdvice::expired, "cause=\"expired\""},
    {&CacheAdvice::evicted, "cause=\"evicted\""},
    {&CacheAdvice::deleted, "cause=\"deleted\""},
};

// As kUnlimited, which stands for no limit.
double ToDouble(int64_t value) {
  return value == std::numeric_limits<int64_t>::max()
             ? std::numeric_limits<double>::infinity()
             : static_cast<double>(value);
}

}  // namespace

void CacheStats::ForEachMetric(
    absl::FunctionRef<void(const Metric&)> visit) const {
  for (const Number& number : kNumbers) {
    visit({number.name, number.help, number.label, number.kind,
           ToDouble(this->*number.member) * number.unit, nullptr});
  }
  for (const Distribution& distribution : kDistributions) {
    const Histogram& histogram = this->*distribution.member;
    visit({distribution.name, distribution.help, "", Metric::Kind::kHistogram,
           histogram.sum, &histogram});
  }
  if (!advice.has_value()) return;
  for (const Ratio& ratio : kRatios) {
    visit({"wheelcache_advised_hit_ratio",
           "Hit ratio with these multiples of the limits, from a sample.",
           ratio.label, kGauge, *advice.*ratio.member, nullptr});
  }
  for (const MissCause& cause : kMissCauses) {
    visit({"wheelcache_sampled_misses_total", "Misses by cause, from a sample.",
           cause.label, kCounter, static_cast<double>(*advice.*cause.member),
           nullptr});
  }
}

std::string StatsLine(absl::string_view name, const CacheStats& before,
                      const CacheStats& after) {
  CacheStats minute;
  minute.hits = after.hits - before.hits;
  minute.misses = after.misses - before.misses;
  return absl::StrFormat(
      "cache(%s) - qpm: %d, hit_ratio: %.1f%%, elements: %d, hit: %d, miss: "
      "%d",
      name, minute.hits + minute.misses, 100 * minute.hit_ratio(),
      after.entries, minute.hits, minute.misses);
}

}  // namespace wheelcache
