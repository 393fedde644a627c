#include "wheelcache/tools/trace_replay/sweep_advice.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/status/format.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

using internal::FormatBytes;
using internal::FormatCount;
using internal::FormatSeconds;
using internal::FormatShare;

double RatioAt(const Sweep& sweep, size_t curve, size_t limit) {
  return sweep.hit_ratio(sweep.curves[curve].hits[limit]);
}

std::string Limit(const Sweep& sweep, int64_t limit) {
  if (sweep.by == SweepBy::kEntries) {
    return absl::StrCat("max_entries = ", FormatCount(limit));
  }
  return absl::StrCat("max_bytes = ", FormatCount(limit), " (",
                      FormatBytes(limit), ")");
}

std::string Ttl(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return "no TTL";
  return absl::StrCat("a TTL of ", FormatSeconds(absl::ToDoubleSeconds(ttl)));
}

// The curve of the same TTL and the first policy.
size_t FirstPolicyOf(const Sweep& sweep, size_t curve) {
  return curve / sweep.policies() * sweep.policies();
}

std::string Points(double ratio) {
  return absl::StrFormat("%.1f points", 100 * ratio);
}

// The hit ratio of a curve with any limit from the smallest to the largest one.
double RatioBetween(const Sweep& sweep, size_t curve, double limit) {
  size_t i = 1;
  while (static_cast<double>(sweep.limits[i]) < limit) ++i;
  const double begin = std::log(static_cast<double>(sweep.limits[i - 1]));
  const double end = std::log(static_cast<double>(sweep.limits[i]));
  const double part = (std::log(limit) - begin) / (end - begin);
  return (1 - part) * RatioAt(sweep, curve, i - 1) +
         part * RatioAt(sweep, curve, i);
}

// What more would gain.
std::string Doubled(const Sweep& sweep, const SweepChoice& choice) {
  const double ratio = RatioAt(sweep, choice.curve, choice.limit);
  const size_t last = sweep.limits.size() - 1;
  if (choice.limit == last) return "no larger limit was tried.";
  const double doubled = 2 * static_cast<double>(sweep.limits[choice.limit]);
  if (doubled > static_cast<double>(sweep.limits[last])) {
    return absl::StrCat("the largest limit would gain ",
                        Points(RatioAt(sweep, choice.curve, last) - ratio),
                        ".");
  }
  return absl::StrCat(
      "twice as much would gain ",
      Points(RatioBetween(sweep, choice.curve, doubled) - ratio), ".");
}

}  // namespace

size_t FindKnee(const Sweep& sweep, const std::vector<int64_t>& hits) {
  const double slope = static_cast<double>(hits.back()) /
                       static_cast<double>(sweep.limits.back());
  size_t knee = 0;
  double highest = -1;
  for (size_t i = 0; i < hits.size(); ++i) {
    const double above = static_cast<double>(hits[i]) -
                         slope * static_cast<double>(sweep.limits[i]);
    if (above <= highest) continue;
    highest = above;
    knee = i;
  }
  return knee;
}

SweepChoice Choose(const Sweep& sweep) {
  const size_t first =
      sweep.curves.size() - sweep.policies();  // Of the longest TTL.
  const size_t knee = FindKnee(sweep, sweep.curves[first].hits);
  SweepChoice choice = {first, knee};
  double best = RatioAt(sweep, first, knee) + kWorthAPolicy;
  for (size_t curve = first + 1; curve < sweep.curves.size(); ++curve) {
    if (RatioAt(sweep, curve, knee) < best) continue;
    best = RatioAt(sweep, curve, knee);
    choice.curve = curve;
  }
  choice.limit = FindKnee(sweep, sweep.curves[choice.curve].hits);
  const double enough =
      RatioAt(sweep, choice.curve, choice.limit) - kWorthLongerTtl;
  // From the shortest TTL on.
  size_t curve = choice.curve % sweep.policies();
  while (RatioAt(sweep, curve, choice.limit) <= enough) {
    curve += sweep.policies();
  }
  choice.curve = curve;
  return choice;
}

std::string Advise(const Sweep& sweep, const SweepChoice& choice) {
  if (sweep.reads == 0) {
    return "The trace has no reads, so no limit is better than another.";
  }
  const SweepCurve& curve = sweep.curves[choice.curve];
  const double ratio = RatioAt(sweep, choice.curve, choice.limit);
  const size_t first = FirstPolicyOf(sweep, choice.curve);
  std::string than_first;
  if (first != choice.curve) {
    than_first =
        absl::StrFormat(", %.1f points more than with %s",
                        100 * (ratio - RatioAt(sweep, first, choice.limit)),
                        sweep.curves[first].policy.title);
  }
  return absl::StrCat("Choose ", Limit(sweep, sweep.limits[choice.limit]), ", ",
                      curve.policy.code, " and ", Ttl(curve.ttl), ": ",
                      FormatShare(ratio), " of the reads hit", than_first, "; ",
                      Doubled(sweep, choice));
}

}  // namespace wheelcache::replay
