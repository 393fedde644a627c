#include "wheelcache/tools/trace_replay/sweep_report.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/tools/trace_replay/number_format.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

constexpr int kColumn = 16;

std::string Counts(const Sweep& sweep, std::optional<int64_t> bad_lines) {
  std::string text = absl::StrCat(WithThousands(sweep.requests), " requests, ",
                                  WithThousands(sweep.reads), " reads, ",
                                  WithThousands(sweep.keys), " keys");
  if (bad_lines.has_value()) {
    absl::StrAppend(&text, ", ", WithThousands(*bad_lines),
                    " bad lines skipped");
  }
  return text;
}

// The hit ratios with one TTL.
void AppendTable(std::string& text, const Sweep& sweep,
                 const SweepChoice& choice, size_t ttl) {
  const SweepBound& bound = sweep.bounds[ttl];
  absl::StrAppend(&text, "\nTTL ", absl::FormatDuration(bound.ttl), "\n");
  absl::StrAppendFormat(&text, "  %*s", kColumn, LimitName(sweep));
  for (size_t i = 0; i < sweep.policies(); ++i) {
    absl::StrAppendFormat(
        &text, "%*s", kColumn,
        sweep.curves[ttl * sweep.policies() + i].policy.title);
  }
  absl::StrAppendFormat(&text, "%*s\n", kColumn, BoundName(sweep));
  for (size_t limit = 0; limit < sweep.limits.size(); ++limit) {
    absl::StrAppendFormat(&text, "  %*s", kColumn,
                          WithThousands(sweep.limits[limit]));
    for (size_t i = 0; i < sweep.policies(); ++i) {
      const SweepCurve& curve = sweep.curves[ttl * sweep.policies() + i];
      absl::StrAppendFormat(&text, "%*.4f", kColumn,
                            sweep.hit_ratio(curve.hits[limit]));
    }
    absl::StrAppendFormat(&text, "%*.4f%s\n", kColumn,
                          sweep.hit_ratio(bound.hits[limit]),
                          limit == choice.limit ? "  knee" : "");
  }
}

std::string JsonHits(const Sweep& sweep, const std::vector<int64_t>& hits) {
  const auto ratio = [&](std::string* out, int64_t count) {
    absl::StrAppendFormat(out, "%.6f", sweep.hit_ratio(count));
  };
  return absl::StrCat("\"hits\": [", absl::StrJoin(hits, ", "),
                      "], \"hit_ratios\": [", absl::StrJoin(hits, ", ", ratio),
                      "]");
}

std::string JsonCurve(const Sweep& sweep, const SweepCurve& curve) {
  return absl::StrCat("{\"policy\": \"", curve.policy.name, "\", \"ttl\": \"",
                      absl::FormatDuration(curve.ttl), "\", ",
                      JsonHits(sweep, curve.hits), "}");
}

std::string JsonSample(const SweepSample& sample) {
  const auto ratio = [](std::string* out, double value) {
    absl::StrAppendFormat(out, "%.6f", value);
  };
  return absl::StrCat("{\"ttl\": \"", absl::FormatDuration(sample.ttl),
                      "\", \"limits\": [", absl::StrJoin(sample.limits, ", "),
                      "], \"hit_ratios\": [",
                      absl::StrJoin(sample.hit_ratios, ", ", ratio), "]}");
}

std::string JsonChoice(const Sweep& sweep, const SweepChoice& choice) {
  const SweepCurve& curve = sweep.curves[choice.curve];
  return absl::StrFormat(
      R"({"limit": %d, "policy": "%s", "ttl": "%s", "hit_ratio": %.6f})",
      sweep.limits[choice.limit], curve.policy.name,
      absl::FormatDuration(curve.ttl),
      sweep.hit_ratio(curve.hits[choice.limit]));
}

}  // namespace

absl::string_view LimitName(const Sweep& sweep) {
  return sweep.by == SweepBy::kEntries ? "max_entries" : "max_bytes";
}

absl::string_view BoundName(const Sweep& sweep) {
  return sweep.by == SweepBy::kEntries ? "Belady's bound" : "Upper bound";
}

std::string SweepTable(absl::string_view trace, const Sweep& sweep,
                       std::optional<int64_t> bad_lines) {
  std::string text =
      absl::StrCat(trace == "-" ? "standard input" : trace, ": hit ratio by ",
                   LimitName(sweep), "\n", Counts(sweep, bad_lines), "\n");
  const SweepChoice choice = Choose(sweep);
  for (size_t ttl = 0; ttl < sweep.bounds.size(); ++ttl) {
    AppendTable(text, sweep, choice, ttl);
  }
  absl::StrAppend(&text, "\n", Advise(sweep, choice), "\n");
  return text;
}

std::string SweepJson(const Sweep& sweep, std::optional<int64_t> bad_lines) {
  const SweepChoice choice = Choose(sweep);
  std::vector<std::string> curves;
  for (const SweepCurve& curve : sweep.curves) {
    curves.push_back(JsonCurve(sweep, curve));
  }
  std::vector<std::string> bounds;
  for (const SweepBound& bound : sweep.bounds) {
    bounds.push_back(absl::StrCat("{\"ttl\": \"",
                                  absl::FormatDuration(bound.ttl), "\", ",
                                  JsonHits(sweep, bound.hits), "}"));
  }
  std::vector<std::string> samples;
  for (const SweepSample& sample : sweep.samples) {
    samples.push_back(JsonSample(sample));
  }
  std::string json = absl::StrCat(
      "{\"requests\": ", sweep.requests, ", \"reads\": ", sweep.reads,
      ", \"keys\": ", sweep.keys, ", \"by\": \"",
      sweep.by == SweepBy::kEntries ? "entries" : "bytes",
      "\",\n \"limits\": [", absl::StrJoin(sweep.limits, ", "),
      "],\n \"curves\": [", absl::StrJoin(curves, ",\n  "),
      "],\n \"bounds\": [", absl::StrJoin(bounds, ",\n  "),
      "],\n \"samples\": [", absl::StrJoin(samples, ",\n  "),
      "],\n \"choice\": ", JsonChoice(sweep, choice), ",\n \"advice\": \"",
      Advise(sweep, choice), "\"");
  if (bad_lines.has_value()) {
    absl::StrAppend(&json, ", \"bad_lines\": ", *bad_lines);
  }
  absl::StrAppend(&json, "}\n");
  return json;
}

}  // namespace wheelcache::replay
