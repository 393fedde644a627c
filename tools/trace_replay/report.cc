#include "wheelcache/tools/trace_replay/report.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"
#include "wheelcache/tools/trace_replay/shared_replay.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"

namespace wheelcache::replay {
namespace {

using internal::FormatCount;

absl::string_view NameOf(absl::string_view trace) {
  if (trace.empty()) return "built-in workload";
  return trace == "-" ? "standard input" : trace;
}

std::string Limits(const ReplayOptions& options) {
  std::vector<std::string> limits;
  if (options.max_entries != kUnlimited) {
    limits.push_back(FormatCount(options.max_entries) + " entries");
  }
  if (options.max_bytes != kUnlimited) {
    limits.push_back(FormatCount(options.max_bytes) + " bytes");
  }
  return absl::StrJoin(limits, " and ");
}

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

void AppendRow(std::string& table, absl::string_view label,
               absl::string_view value) {
  absl::StrAppendFormat(&table, "  %-20s%16s\n", label, value);
}

// Returns a duration like "940 ns", "1.25 us", "17.3 ms" or "2.00 s", with
// three significant digits.
std::string ShortDuration(int64_t nanos) {
  if (nanos < 1000) return absl::StrCat(nanos, " ns");
  double value = static_cast<double>(nanos) / 1000;
  absl::string_view unit = "us";
  for (absl::string_view larger : {"ms", "s"}) {
    // From 999.5 on, rounding would print four digits.
    if (value < 999.5) break;
    value /= 1000;
    unit = larger;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

void AppendLatencies(std::string& table, absl::string_view label,
                     const load_testing::LatencyHistogram& nanos) {
  absl::StrAppendFormat(&table, "  %-8s", label);
  for (double percent : {50.0, 99.0, 99.9}) {
    absl::StrAppendFormat(
        &table, "%10s",
        nanos.count() == 0 ? "-" : ShortDuration(nanos.Percentile(percent)));
  }
  absl::StrAppend(&table, "\n");
}

// How all requests are replayed.
std::string Settings(const ReplayOptions& options) {
  return absl::StrCat(options.policy.title, ", TTL ",
                      absl::FormatDuration(options.ttl), ", jitter ",
                      options.jitter, ", ",
                      options.shards == 0 ? "shards by size"
                                          : Counted(options.shards, "shard"));
}

double HitRatio(int64_t hits, int64_t reads) {
  return reads == 0 ? 0
                    : static_cast<double>(hits) / static_cast<double>(reads);
}

// Sums of several members have the letters and the names of none.
void AppendMember(std::string& table, absl::string_view letter,
                  const SharedReplay::Member& member) {
  const int64_t reads = member.counts.hits + member.counts.misses;
  absl::StrAppendFormat(&table, "  %1s %-24s%14s%14s%14.4f%14.4f\n", letter,
                        member.name, FormatCount(member.counts.requests),
                        FormatCount(reads), HitRatio(member.equal_hits, reads),
                        HitRatio(member.counts.hits, reads));
}

// Member 0 is a, and so on; what nobody has is blank.
std::string DrawSplit(const SharedReplay::Split& split, int64_t max_bytes) {
  constexpr double kWidth = 60;
  std::string letters;
  double bytes = 0;
  for (size_t i = 0; i < split.bytes.size(); ++i) {
    bytes += static_cast<double>(split.bytes[i]);
    const double end = kWidth * bytes / static_cast<double>(max_bytes);
    letters.resize(static_cast<size_t>(std::lround(end)),
                   static_cast<char>('a' + i));
  }
  return letters;
}

// The hit ratios with one TTL.
void AppendTable(std::string& text, const Sweep& sweep,
                 const SweepSection& section, size_t chosen_limit) {
  constexpr int kColumn = 16;
  absl::StrAppend(&text, "\nTTL ", absl::FormatDuration(section.ttl), "\n");
  absl::StrAppendFormat(&text, "  %*s", kColumn, sweep.limit_name());
  for (const SweepCurve& curve : section.curves) {
    absl::StrAppendFormat(&text, "%*s", kColumn, curve.title);
  }
  for (size_t i = 0; i < sweep.limits.size(); ++i) {
    absl::StrAppendFormat(&text, "\n  %*s", kColumn,
                          FormatCount(sweep.limits[i]));
    for (const SweepCurve& curve : section.curves) {
      absl::StrAppendFormat(&text, "%*.4f", kColumn,
                            sweep.hit_ratio(curve.hits[i]));
    }
    if (i == chosen_limit) absl::StrAppend(&text, "  knee");
  }
  absl::StrAppend(&text, "\n");
}

}  // namespace

std::string ReplayTable(absl::string_view trace, const ReplayOptions& options,
                        const ReplayResult& result) {
  const ReplayCounts& counts = result.counts;
  std::string table = absl::StrCat(NameOf(trace), ": at most ", Limits(options),
                                   ", ", Settings(options), ", ",
                                   Counted(options.threads, "thread"), "\n\n");
  AppendRow(table, "requests", FormatCount(counts.requests));
  AppendRow(table, "hits", FormatCount(counts.hits));
  AppendRow(table, "misses", FormatCount(counts.misses));
  AppendRow(table, "hit ratio", absl::StrFormat("%.4f", result.hit_ratio()));
  AppendRow(table, "evictions", FormatCount(result.evictions));
  AppendRow(table, "expirations", FormatCount(result.expirations));
  AppendRow(table, "peak entries", FormatCount(counts.peak_entries));
  AppendRow(table, "peak bytes", FormatCount(counts.peak_bytes));
  AppendRow(table, "requests per second",
            FormatCount(std::llround(result.requests_per_second())));
  if (result.bad_lines.has_value()) {
    AppendRow(table, "bad lines skipped", FormatCount(*result.bad_lines));
  }
  absl::StrAppendFormat(&table, "\n  %-8s%10s%10s%10s\n", "latency", "p50",
                        "p99", "p99.9");
  AppendLatencies(table, "Get", counts.get_nanos);
  AppendLatencies(table, "Set", counts.set_nanos);
  return table;
}

std::string ReplayJson(const ReplayResult& result) {
  const ReplayCounts& counts = result.counts;
  std::string bad_lines;
  if (result.bad_lines.has_value()) {
    bad_lines = absl::StrCat(", \"bad_lines\": ", *result.bad_lines);
  }
  return absl::StrFormat(
      R"({"requests": %d, "hits": %d, "misses": %d, "hit_ratio": %.6f, )"
      R"("evictions": %d, "expirations": %d, "peak_entries": %d, )"
      R"("peak_bytes": %d, "requests_per_second": %.0f%s})"
      "\n",
      counts.requests, counts.hits, counts.misses, result.hit_ratio(),
      result.evictions, result.expirations, counts.peak_entries,
      counts.peak_bytes, result.requests_per_second(), bad_lines);
}

std::string SweepSummary(const Sweep& sweep) {
  return absl::StrCat(FormatCount(sweep.requests), " requests, ",
                      FormatCount(sweep.reads), " reads, ",
                      FormatCount(sweep.keys), " keys");
}

std::string SweepTable(absl::string_view trace, const Sweep& sweep) {
  std::string text =
      absl::StrCat(NameOf(trace), ": hit ratio by ", sweep.limit_name(), "\n",
                   SweepSummary(sweep));
  if (sweep.bad_lines.has_value()) {
    absl::StrAppend(&text, ", ", FormatCount(*sweep.bad_lines),
                    " bad lines skipped");
  }
  absl::StrAppend(&text, "\n");
  const SweepChoice choice = Choose(sweep);
  for (const SweepSection& section : sweep.sections) {
    AppendTable(text, sweep, section, choice.limit);
  }
  absl::StrAppend(&text, "\n", Advise(sweep, choice), "\n");
  return text;
}

std::string SharedTable(const ReplayOptions& options,
                        const SharedReplay& replay) {
  std::string text = absl::StrCat(
      Counted(static_cast<int64_t>(replay.members.size()), "cache"),
      " with at most ", Limits(options), " in all, ", Settings(options),
      "\n\n");
  absl::StrAppendFormat(&text, "    %-24s%14s%14s%14s%14s\n", "hit ratio",
                        "requests", "reads", "equal split", "shared");
  SharedReplay::Member all;
  all.name = "all";
  for (size_t i = 0; i < replay.members.size(); ++i) {
    const SharedReplay::Member& member = replay.members[i];
    AppendMember(text, std::string(1, static_cast<char>('a' + i)), member);
    all.counts.requests += member.counts.requests;
    all.counts.hits += member.counts.hits;
    all.counts.misses += member.counts.misses;
    all.equal_hits += member.equal_hits;
  }
  AppendMember(text, "", all);
  absl::StrAppendFormat(&text, "\n  %-14s%s\n", "after", "the split");
  for (const SharedReplay::Split& split : replay.splits) {
    absl::StrAppendFormat(&text, "  %-14s%s\n",
                          absl::FormatDuration(absl::Seconds(split.seconds)),
                          DrawSplit(split, options.max_bytes));
  }
  return text;
}

}  // namespace wheelcache::replay
