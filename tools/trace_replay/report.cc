#include "wheelcache/tools/trace_replay/report.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tools/load_testing/latency_histogram.h"
#include "wheelcache/tools/trace_replay/flags.h"
#include "wheelcache/tools/trace_replay/number_format.h"
#include "wheelcache/tools/trace_replay/policies.h"
#include "wheelcache/tools/trace_replay/replay_options.h"
#include "wheelcache/tools/trace_replay/replayer.h"

namespace wheelcache {
namespace replay {
namespace {

std::string Limits(const ReplayOptions& options) {
  std::string limits;
  if (options.max_entries != kUnlimited) {
    absl::StrAppend(&limits, WithThousands(options.max_entries), " entries");
  }
  if (options.max_bytes != kUnlimited) {
    absl::StrAppend(&limits, limits.empty() ? "" : " and ",
                    WithThousands(options.max_bytes), " bytes");
  }
  return limits;
}

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

absl::string_view TitleOf(EvictionPolicy policy) {
  for (const Policy& known : kPolicies) {
    if (known.policy == policy) return known.title;
  }
  return "";
}

std::string Title(const Settings& settings) {
  const ReplayOptions& options = settings.replay;
  return absl::StrCat(
      settings.trace.empty()  ? "built-in workload"
      : settings.trace == "-" ? "standard input"
                              : settings.trace,
      ": at most ", Limits(options), ", ", TitleOf(options.policy), ", TTL ",
      absl::FormatDuration(options.ttl), ", jitter ", options.jitter, ", ",
      options.shards == 0 ? "shards by size" : Counted(options.shards, "shard"),
      ", ", Counted(options.threads, "thread"));
}

void AppendRow(std::string& table, absl::string_view label,
               absl::string_view value) {
  absl::StrAppendFormat(&table, "  %-20s%16s\n", label, value);
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

}  // namespace

std::string TableReport(const Settings& settings, const ReplayResult& result,
                        std::optional<int64_t> bad_lines) {
  const PlayerCounts& counts = result.counts;
  std::string table = absl::StrCat(Title(settings), "\n\n");
  AppendRow(table, "requests", WithThousands(counts.requests));
  AppendRow(table, "hits", WithThousands(counts.hits));
  AppendRow(table, "misses", WithThousands(counts.misses));
  AppendRow(table, "hit ratio", absl::StrFormat("%.4f", result.hit_ratio()));
  AppendRow(table, "evictions", WithThousands(result.evictions));
  AppendRow(table, "expirations", WithThousands(result.expirations));
  AppendRow(table, "peak entries", WithThousands(counts.peak_entries));
  AppendRow(table, "peak bytes", WithThousands(counts.peak_bytes));
  AppendRow(table, "requests per second",
            WithThousands(std::llround(result.requests_per_second())));
  if (bad_lines.has_value()) {
    AppendRow(table, "bad lines skipped", WithThousands(*bad_lines));
  }
  absl::StrAppendFormat(&table, "\n  %-8s%10s%10s%10s\n", "latency", "p50",
                        "p99", "p99.9");
  AppendLatencies(table, "Get", counts.get_nanos);
  AppendLatencies(table, "Set", counts.set_nanos);
  return table;
}

std::string JsonReport(const ReplayResult& result,
                       std::optional<int64_t> bad_lines) {
  const PlayerCounts& counts = result.counts;
  std::string json = absl::StrFormat(
      R"({"requests": %d, "hits": %d, "misses": %d, "hit_ratio": %.6f, )"
      R"("evictions": %d, "expirations": %d, "peak_entries": %d, )"
      R"("peak_bytes": %d, "requests_per_second": %.0f)",
      counts.requests, counts.hits, counts.misses, result.hit_ratio(),
      result.evictions, result.expirations, counts.peak_entries,
      counts.peak_bytes, result.requests_per_second());
  if (bad_lines.has_value()) {
    absl::StrAppend(&json, ", \"bad_lines\": ", *bad_lines);
  }
  absl::StrAppend(&json, "}\n");
  return json;
}

}  // namespace replay
}  // namespace wheelcache
