#include "wheelcache/tools/trace_replay/sweep_advice.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {
namespace {

using internal::FormatBytes;
using internal::FormatCount;
using internal::FormatSeconds;
using internal::FormatShare;

std::string Points(double ratio) {
  return absl::StrFormat("%.1f points", 100 * ratio);
}

// The hit ratio of a curve with any limit from the smallest to the largest one,
// between two of them by the logarithm.
double RatioBetween(const Sweep& sweep, const SweepCurve& curve, double limit) {
  size_t i = 1;
  while (static_cast<double>(curve.limits[i]) < limit) ++i;
  const double begin = std::log(static_cast<double>(curve.limits[i - 1]));
  const double end = std::log(static_cast<double>(curve.limits[i]));
  const double part = (std::log(limit) - begin) / (end - begin);
  return (1 - part) * sweep.hit_ratio(curve.hits[i - 1]) +
         part * sweep.hit_ratio(curve.hits[i]);
}

bool TwiceIsBeyond(const SweepCurve& curve, size_t limit) {
  return curve.limits[limit] > curve.limits.back() / 2;
}

// What twice a limit gains, or the largest if that is less.
double GainOfTwice(const Sweep& sweep, const SweepCurve& curve, size_t limit) {
  const double twice =
      TwiceIsBeyond(curve, limit)
          ? sweep.hit_ratio(curve.hits.back())
          : RatioBetween(sweep, curve,
                         2 * static_cast<double>(curve.limits[limit]));
  return twice - sweep.hit_ratio(curve.hits[limit]);
}

std::string WhatMoreGains(const Sweep& sweep, const SweepCurve& curve,
                          size_t limit) {
  if (limit + 1 == curve.limits.size()) return "no larger limit was tried";
  return absl::StrCat(
      TwiceIsBeyond(curve, limit) ? "the largest limit" : "twice as much",
      " would gain ", Points(GainOfTwice(sweep, curve, limit)));
}

std::string Limit(const Sweep& sweep, int64_t limit) {
  std::string text =
      absl::StrCat(sweep.limit_name(), " = ", FormatCount(limit));
  if (sweep.by == SweepBy::kBytes) {
    absl::StrAppend(&text, " (", FormatBytes(limit), ")");
  }
  return text;
}

std::string Ttl(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return "no TTL";
  return absl::StrCat("a TTL of ", FormatSeconds(absl::ToDoubleSeconds(ttl)));
}

}  // namespace

size_t FindKnee(const Sweep& sweep, const SweepCurve& curve) {
  const double slope = static_cast<double>(curve.hits.back()) /
                       static_cast<double>(curve.limits.back());
  size_t knee = 0;
  double highest = -1;
  for (size_t i = 0; i < curve.hits.size(); ++i) {
    const double above = static_cast<double>(curve.hits[i]) -
                         slope * static_cast<double>(curve.limits[i]);
    if (above <= highest) continue;
    highest = above;
    knee = i;
  }
  for (size_t i = knee; i < curve.hits.size(); ++i) {
    if (GainOfTwice(sweep, curve, i) >= kWorthTwiceTheLimit) knee = i + 1;
  }
  return knee;
}

SweepChoice Choose(const Sweep& sweep) {
  const auto ratio = [&](size_t section, size_t policy, size_t limit) {
    return sweep.hit_ratio(sweep.sections[section].curves[policy].hits[limit]);
  };
  const size_t longest = sweep.sections.size() - 1;  // Of the TTLs.
  const auto knee = [&](size_t policy) {
    return FindKnee(sweep, sweep.sections[longest].curves[policy]);
  };
  SweepChoice choice;
  choice.limit = knee(0);
  double best = ratio(longest, 0, choice.limit) + kWorthAPolicy;
  for (size_t policy = 1; policy < sweep.policies.size(); ++policy) {
    if (ratio(longest, policy, choice.limit) < best) continue;
    best = ratio(longest, policy, choice.limit);
    choice.policy = policy;
  }
  choice.limit = knee(choice.policy);
  const double enough =
      ratio(longest, choice.policy, choice.limit) - kWorthLongerTtl;
  while (ratio(choice.section, choice.policy, choice.limit) <= enough) {
    ++choice.section;
  }
  return choice;
}

std::string Advise(const Sweep& sweep, const SweepChoice& choice) {
  if (sweep.reads == 0) {
    return "The trace has no reads, so no limit is better than another.";
  }
  const SweepSection& section = sweep.sections[choice.section];
  const SweepCurve& curve = section.curves[choice.policy];
  const SweepCurve& first = section.curves[0];
  const double ratio = sweep.hit_ratio(curve.hits[choice.limit]);
  std::string than_first;
  if (choice.policy != 0) {
    than_first = absl::StrCat(
        ", ", Points(ratio - sweep.hit_ratio(first.hits[choice.limit])),
        " more than with ", first.title);
  }
  return absl::StrCat("Choose ", Limit(sweep, curve.limits[choice.limit]), ", ",
                      sweep.policies[choice.policy].code, " and ",
                      Ttl(section.ttl), ": ", FormatShare(ratio),
                      " of the reads hit", than_first, "; ",
                      WhatMoreGains(sweep, curve, choice.limit), ".");
}

}  // namespace wheelcache::replay
