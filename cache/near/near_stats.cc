#include "wheelcache/cache/near/near_stats.h"

#include "absl/strings/string_view.h"

namespace wheelcache {
namespace {

struct Number {
  absl::string_view name;
  absl::string_view help;
  int64_t NearCacheStats::*member;
  absl::string_view label;
};

constexpr absl::string_view kReads = "wheelcache_near_reads_total";
constexpr absl::string_view kReadsHelp = "Reads of the near cache, by outcome.";

constexpr Number kCounters[] = {
    {kReads, kReadsHelp, &NearCacheStats::local_hits, "outcome=\"local\""},
    {kReads, kReadsHelp, &NearCacheStats::local_absences,
     "outcome=\"local_absent\""},
    {kReads, kReadsHelp, &NearCacheStats::fetched_hits, "outcome=\"fetched\""},
    {kReads, kReadsHelp, &NearCacheStats::fetched_absences,
     "outcome=\"fetched_absent\""},
    {kReads, kReadsHelp, &NearCacheStats::joined, "outcome=\"joined\""},
    {kReads, kReadsHelp, &NearCacheStats::stale_served, "outcome=\"stale\""},
    {kReads, kReadsHelp, &NearCacheStats::failed_reads, "outcome=\"failed\""},
    {"wheelcache_near_unleased_reads_total", "Reads that found no lease.",
     &NearCacheStats::unleased_reads, ""},
    {"wheelcache_near_writes_total", "Keys set or deleted.",
     &NearCacheStats::writes, ""},
    {"wheelcache_near_failed_writes_total", "Keys whose write failed.",
     &NearCacheStats::failed_writes, ""},
    {"wheelcache_near_loads_total", "Loaders that ran.", &NearCacheStats::loads,
     ""},
    {"wheelcache_near_failed_loads_total", "Loaders that failed.",
     &NearCacheStats::failed_loads, ""},
    {"wheelcache_near_timeouts_total",
     "Calls without an answer within the timeout.", &NearCacheStats::timeouts,
     ""},
    {"wheelcache_near_undecodable_total", "Values that did not decode.",
     &NearCacheStats::undecodable, ""},
    {"wheelcache_near_superseded_total",
     "Fetched values that a later write kept out.", &NearCacheStats::superseded,
     ""},
    {"wheelcache_near_invalidations_total", "Keys that the store told of.",
     &NearCacheStats::invalidations, ""},
    {"wheelcache_near_useful_invalidations_total",
     "Those of them that the local tier had.",
     &NearCacheStats::useful_invalidations, ""},
    {"wheelcache_near_flushes_total", "How often any key may have changed.",
     &NearCacheStats::flushes, ""},
    {"wheelcache_near_sessions_total", "Sessions that began.",
     &NearCacheStats::sessions, ""},
    {"wheelcache_near_losses_total",
     "Sessions that were lost or did not begin.", &NearCacheStats::losses, ""},
};

}  // namespace

void NearCacheStats::ForEachMetric(
    absl::FunctionRef<void(const Metric&)> visit) const {
  for (const Number& number : kCounters) {
    visit({number.name, number.help, number.label, Metric::Kind::kCounter,
           static_cast<double>(this->*number.member), nullptr});
  }
  visit({"wheelcache_near_lease_seconds", "What is left of the lease.", "",
         Metric::Kind::kGauge, absl::ToDoubleSeconds(lease_left), nullptr});
  visit({"wheelcache_near_round_trip_seconds", "Time of commands to the store.",
         "", Metric::Kind::kHistogram, round_trip.sum, &round_trip});
}

}  // namespace wheelcache
