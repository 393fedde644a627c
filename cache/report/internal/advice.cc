#include "wheelcache/cache/report/internal/advice.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/options.h"

namespace wheelcache::internal {
namespace {

// Fewer events than these say nothing.
constexpr int64_t kFewReads = 100;
constexpr int64_t kFewEvictions = 20;

// A gain or loss of the hit ratio that is too small to mention.
constexpr double kNothing = 0.005;

double Fraction(int64_t part, int64_t whole) {
  return whole == 0 ? 0
                    : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Count(int64_t count, const char* one, const char* many) {
  return absl::StrCat(FormatCount(count), " ", count == 1 ? one : many);
}

// In points, as hit ratios are percentages.
std::string Points(double ratio) {
  const std::string points = absl::StrFormat("%.1f", 100 * ratio);
  return absl::StrCat(points, points == "1.0" ? " point" : " points");
}

bool IsLimited(const CacheStats& stats) {
  return stats.max_entries != kUnlimited || stats.max_bytes != kUnlimited;
}

// Whether the sample tells what other limits would do.
bool HasCurve(const CacheStats& stats) {
  return stats.advice.has_value() && IsLimited(stats) &&
         stats.hits + stats.misses >= kFewReads;
}

// What half of the limits would have cost.
std::string AdviseOnHalf(const CacheStats& stats) {
  const double loss = stats.advice->same - stats.advice->half;
  if (loss >= kNothing) {
    return absl::StrCat(" Half of them would cost ", Points(loss), ".");
  }
  // A cache that is still being filled says nothing yet.
  const bool has_been_full = stats.evictions + stats.expirations > 0;
  return has_been_full ? " Half of them would do." : "";
}

// What the sample says of other limits, so that nobody has to read the curve.
std::string AdviseOnLimits(const CacheStats& stats) {
  if (!HasCurve(stats)) return "";
  const CacheAdvice& advice = *stats.advice;
  const absl::string_view limits = stats.max_bytes == kUnlimited     ? "entries"
                                   : stats.max_entries == kUnlimited ? "bytes"
                                                                     : "limits";
  const double twice = advice.twice - advice.same;
  const double four_times = advice.four_times - advice.same;
  const std::string present = FormatShare(advice.same);
  std::string gain;
  if (four_times < kNothing) {
    gain = absl::StrCat("More room would gain nothing: four times the ", limits,
                        " would leave the hit ratio at ", present, ".");
  } else {
    gain = absl::StrCat(
        "Twice the ", limits, " would add ",
        twice < kNothing ? "less than half a point" : Points(twice),
        " to the hit ratio of ", present, ", four times ", Points(four_times),
        ".");
  }
  return gain + AdviseOnHalf(stats);
}

// From when in their lives entries are evicted.
std::string AdviseOnEvictions(const CacheStats& stats) {
  // The sample knows better.
  if (stats.evictions < kFewEvictions || HasCurve(stats)) return "";
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
  if (HasCurve(stats)) return "";
  return absl::StrCat(
      "Nothing was ever evicted, and entries have begun to expire: of the "
      "limit, ",
      FormatShare(UseOf(stats)), " is in use, and less would do.");
}

std::string AdviseOnReads(const CacheStats& stats) {
  const int64_t reads = stats.hits + stats.misses;
  if (reads == 0) return stats.sets == 0 ? "" : "Nobody has read from it yet.";
  // Replacing a value, as a counter does with each Update, wastes no room.
  const int64_t stored = stats.sets - stats.replaced;
  if (reads < kFewReads || stored <= stats.hits) return "";
  return absl::StrCat("Stored ", Count(stored, "new value", "new values"),
                      " for ", Count(stats.hits, "hit", "hits"),
                      ": most are never read again.");
}

// By what became of the values that were missed.
std::string AdviseOnSampledMisses(const CacheAdvice& advice) {
  const int64_t misses =
      advice.first_uses + advice.expired + advice.evicted + advice.deleted;
  if (misses < kFewReads) return "";
  const auto part = [&](int64_t count) { return Fraction(count, misses); };
  if (part(advice.first_uses) >= 0.5) {
    return absl::StrCat("Of the misses, ", FormatShare(part(advice.first_uses)),
                        " are first uses, which no limit and no TTL saves.");
  }
  if (part(advice.expired) >= 0.5) {
    return absl::StrCat("Of the misses, ", FormatShare(part(advice.expired)),
                        " are of values that had expired: a longer TTL would "
                        "raise the hit ratio.");
  }
  if (part(advice.deleted) >= 0.5) {
    return absl::StrCat("Of the misses, ", FormatShare(part(advice.deleted)),
                        " are of values that the program had deleted.");
  }
  return "";
}

std::string AdviseOnMisses(const CacheStats& stats) {
  if (stats.advice.has_value()) return AdviseOnSampledMisses(*stats.advice);
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
  const auto part = [](int64_t used, int64_t limit) {
    return limit == kUnlimited ? 0 : Fraction(used, limit);
  };
  return std::max(part(stats.entries, stats.max_entries),
                  part(stats.bytes, stats.max_bytes));
}

std::vector<std::string> Advise(const CacheStats& stats) {
  std::vector<std::string> advice = {
      AdviseOnLimits(stats), AdviseOnEvictions(stats), AdviseOnSpareRoom(stats),
      AdviseOnReads(stats), AdviseOnMisses(stats)};
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
