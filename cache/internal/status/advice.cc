#include "wheelcache/cache/internal/status/advice.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "wheelcache/cache/internal/status/format.h"
#include "wheelcache/cache/stats.h"

namespace wheelcache::internal {
namespace {

// Fewer events than these say nothing.
constexpr int64_t kFewReads = 100;
constexpr int64_t kFewEvictions = 20;

double Fraction(int64_t part, int64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Count(int64_t count, const char* one, const char* many) {
  return absl::StrCat(FormatCount(count), " ", count == 1 ? one : many);
}

// From when in their lives entries are evicted.
std::string AdviseOnEvictions(const CacheStats& stats) {
  if (stats.evictions < kFewEvictions) return "";
  const std::string age = FormatSeconds(stats.eviction_age.Quantile(0.5));
  if (stats.eviction_life_left.count() < kFewEvictions) {
    return absl::StrCat(
        "Half of the evicted entries were younger than ", age,
        " and had no TTL: if they are needed for longer, raise the limit.");
  }
  const double left = stats.eviction_life_left.Quantile(0.5);
  const std::string when = absl::StrCat("Evicted at ", age, " with ",
                                        FormatShare(left), " of the TTL left");
  if (left >= 0.5) {
    return absl::StrCat(when, " (medians): too small for what it is given.");
  }
  if (left >= 0.1) {
    return absl::StrCat(when,
                        " (medians): a larger limit would help a little.");
  }
  return absl::StrCat(when, " (medians): limit and TTL fit each other.");
}

std::string AdviseOnSpareRoom(const CacheStats& stats) {
  const bool may_be_full = stats.evictions > 0 || stats.expirations == 0;
  if (may_be_full || UseOf(stats) == 0 || UseOf(stats) > 0.5) return "";
  return absl::StrCat(
      "Nothing was ever evicted, and entries have begun to expire: of the "
      "limit, ",
      FormatShare(UseOf(stats)), " is in use, and less would do.");
}

std::string AdviseOnReads(const CacheStats& stats) {
  const int64_t reads = stats.hits + stats.misses;
  if (reads == 0) return stats.sets == 0 ? "" : "Nobody has read from it yet.";
  if (reads < kFewReads || stats.sets <= stats.hits) return "";
  return absl::StrCat("Stored ", Count(stats.sets, "value", "values"), " for ",
                      Count(stats.hits, "hit", "hits"),
                      ": most are never read again.");
}

std::string AdviseOnMisses(const CacheStats& stats) {
  const int64_t reads = stats.hits + stats.misses;
  const bool evicts = stats.evictions * 10 > stats.expirations;
  if (reads < kFewReads || stats.hit_ratio() > 0.8 || evicts) return "";
  if (stats.expirations * 2 < stats.misses) return "";
  return absl::StrCat(
      "Misses come with expiry, not with eviction: a longer TTL would raise "
      "the hit ratio of ",
      FormatShare(stats.hit_ratio()), ", a larger limit would not.");
}

}  // namespace

double UseOf(const CacheStats& stats) {
  return std::max(Fraction(stats.entries, stats.max_entries),
                  Fraction(stats.bytes, stats.max_bytes));
}

std::vector<std::string> Advise(const CacheStats& stats) {
  std::vector<std::string> advice = {
      AdviseOnEvictions(stats), AdviseOnSpareRoom(stats), AdviseOnReads(stats),
      AdviseOnMisses(stats)};
  if (stats.refused > 0) {
    advice.push_back(
        absl::StrCat(Count(stats.refused, "value was", "values were"),
                     " refused: larger than the limit, or with a "
                     "TTL of zero or less."));
  }
  if (stats.load_errors > 0) {
    advice.push_back(
        absl::StrCat(FormatShare(Fraction(stats.load_errors, stats.loads)),
                     " of ", Count(stats.loads, "load", "loads"), " failed."));
  }
  if (stats.listener_exceptions > 0) {
    advice.push_back(absl::StrCat(
        "The removal listener threw ",
        Count(stats.listener_exceptions, "exception.", "exceptions.")));
  }
  advice.erase(std::remove(advice.begin(), advice.end(), ""), advice.end());
  return advice;
}

}  // namespace wheelcache::internal
