#include "wheelcache/cache/report/status_page.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "wheelcache/cache/report/internal/advice.h"
#include "wheelcache/cache/report/internal/charts.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/report/internal/style_sheet.h"
#include "wheelcache/cache/types/advice.h"
#include "wheelcache/cache/types/histogram.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/stats.h"

namespace wheelcache {
namespace {

using internal::EscapeHtml;
using internal::FormatBytes;
using internal::FormatCount;
using internal::FormatSeconds;
using internal::FormatShare;
using internal::KeepUnits;

// Of more caches, the page shows those that need attention first.
constexpr size_t kMostShown = 50;

// The reports that the page shows, in their order. Of many: those with the most
// sentences of advice, and of these, those with the most misses.
std::vector<const CacheReport*> Select(absl::Span<const CacheReport> reports) {
  std::vector<const CacheReport*> shown;
  for (const CacheReport& report : reports) shown.push_back(&report);
  if (reports.size() <= kMostShown) return shown;
  std::vector<std::pair<size_t, int64_t>> needs;
  for (const CacheReport& report : reports) {
    needs.emplace_back(internal::Advise(report.stats).size(),
                       report.stats.misses);
  }
  const auto need = [&](const CacheReport* report) {
    return needs[static_cast<size_t>(report - reports.data())];
  };
  std::stable_sort(shown.begin(), shown.end(),
                   [&](const CacheReport* a, const CacheReport* b) {
                     return need(a) > need(b);
                   });
  shown.resize(kMostShown);
  return shown;
}

std::string NumberOf(const CacheReport& report) {
  return report.id > 1 ? absl::StrCat(" <small>#", report.id, "</small>") : "";
}

std::string HitRatio(const CacheStats& stats) {
  return stats.hits + stats.misses == 0 ? "–" : FormatShare(stats.hit_ratio());
}

// Overview: a line for each cache.

std::string OverviewRow(const CacheReport& report, size_t number) {
  const CacheStats& stats = report.stats;
  return absl::StrCat(
      "<tr><td><a href=\"#cache-", number, "\">", EscapeHtml(report.name),
      "</a>", NumberOf(report), "</td><td class=\"number\">", HitRatio(stats),
      "</td><td class=\"number\">", FormatShare(internal::UseOf(stats)),
      "</td><td class=\"number\">", FormatCount(stats.evictions),
      "</td></tr>\n");
}

std::string Overview(absl::Span<const CacheReport* const> reports) {
  std::string rows;
  for (size_t i = 0; i < reports.size(); ++i) {
    rows += OverviewRow(*reports[i], i);
  }
  return absl::StrCat(
      "<div class=\"card\"><table>\n<tr><th>Cache</th><th class=\"number\">Hits"
      "</th><th class=\"number\">Full</th><th class=\"number\">Evicted</th>"
      "</tr>\n",
      rows, "</table></div>\n");
}

// Tiles: what one sees first.

// All but `big` is HTML.
struct Tile {
  absl::string_view title;
  std::string big;
  std::string small;
  std::string meter;
};

std::string Draw(const Tile& tile) {
  return absl::StrCat("<div class=\"tile\"><h3>", tile.title, "</h3><b>",
                      KeepUnits(tile.big), "</b><span class=\"quiet\">",
                      KeepUnits(tile.small), "</span>", tile.meter, "</div>\n");
}

// A number that may have a limit.
Tile LimitedTile(absl::string_view title, int64_t used, int64_t limit,
                 std::string (*format)(int64_t)) {
  if (limit == kUnlimited) return {title, format(used), "no limit", ""};
  const double part = static_cast<double>(used) / static_cast<double>(limit);
  return {title, format(used), absl::StrCat("of ", format(limit)),
          internal::Meter(part)};
}

// The hit ratio between the last two samples, if they tell one.
std::string LatestHitRatio(absl::Span<const CacheSample> samples) {
  if (samples.size() < 2) return "since its creation";
  const CacheSample& before = samples[samples.size() - 2];
  const CacheSample& after = samples.back();
  CacheStats between;
  between.hits = after.hits - before.hits;
  between.misses = after.misses - before.misses;
  const bool read = between.hits + between.misses > 0;
  return absl::StrCat(
      read ? HitRatio(between) : "no reads", " in last ",
      FormatSeconds(absl::ToDoubleSeconds(after.time - before.time)));
}

std::string Tiles(const CacheReport& report) {
  const CacheStats& stats = report.stats;
  return absl::StrCat(
      "<div class=\"tiles\">\n",
      Draw({"Hit ratio", HitRatio(stats), LatestHitRatio(report.samples),
            internal::Meter(stats.hit_ratio())}),
      Draw(LimitedTile("Entries", stats.entries, stats.max_entries,
                       FormatCount)),
      Draw(LimitedTile("Charged bytes", stats.bytes, stats.max_bytes,
                       FormatBytes)),
      Draw({"Resident", FormatBytes(stats.resident_bytes),
            "free blocks included", ""}),
      "</div>\n");
}

// What a near cache says of itself. `label` is that of the metric, or empty.
double NearValue(const CacheReport& report, absl::string_view name,
                 absl::string_view label = "") {
  for (const KeptMetric& kept : report.near) {
    if (kept.metric.name == name && kept.metric.label == label) {
      return kept.metric.value;
    }
  }
  return 0;
}

std::string NearCount(const CacheReport& report, absl::string_view name,
                      absl::string_view label = "") {
  return FormatCount(static_cast<int64_t>(NearValue(report, name, label)));
}

std::string NearTiles(const CacheReport& report) {
  if (report.near.empty()) return "";
  constexpr absl::string_view kReads = "wheelcache_near_reads_total";
  double reads = 0;
  for (const KeptMetric& kept : report.near) {
    if (kept.metric.name == kReads) reads += kept.metric.value;
  }
  const double local = NearValue(report, kReads, "outcome=\"local\"") +
                       NearValue(report, kReads, "outcome=\"local_absent\"");
  const double lease = NearValue(report, "wheelcache_near_lease_seconds");
  return absl::StrCat(
      "<div class=\"tiles near\">\n",
      Draw({"Read locally", reads > 0 ? FormatShare(local / reads) : "–",
            absl::StrCat("of ", FormatCount(static_cast<int64_t>(reads)),
                         " reads of the near cache"),
            internal::Meter(reads > 0 ? local / reads : 0)}),
      Draw({"Lease", lease > 0 ? FormatSeconds(lease) : "none",
            lease > 0 ? "left" : "all reads go to the store", ""}),
      Draw({"Sessions", NearCount(report, "wheelcache_near_sessions_total"),
            absl::StrCat(NearCount(report, "wheelcache_near_losses_total"),
                         " losses"),
            ""}),
      Draw({"Failed reads", NearCount(report, kReads, "outcome=\"failed\""),
            absl::StrCat(NearCount(report, "wheelcache_near_timeouts_total"),
                         " timeouts"),
            ""}),
      "</div>\n");
}

// Charts.

std::string Figure(absl::string_view title, absl::string_view content,
                   absl::string_view otherwise) {
  std::string body(content);
  if (content.empty()) {
    body = absl::StrCat("<p class=\"quiet\">", otherwise, "</p>");
  }
  return absl::StrCat("<div><h3>", title, "</h3>", body, "</div>\n");
}

struct Cause {
  absl::string_view name;
  int64_t count;
};

// A row for each cause, or nothing if there was none.
std::string Causes(absl::Span<const Cause> causes) {
  int64_t all = 0;
  for (const Cause& cause : causes) all += cause.count;
  if (all == 0) return "";
  std::string rows;
  for (const Cause& cause : causes) {
    const double part =
        static_cast<double>(cause.count) / static_cast<double>(all);
    absl::StrAppend(&rows, "<tr><td>", cause.name, "</td><td>",
                    internal::Meter(part), "</td><td class=\"number\">",
                    FormatCount(cause.count), "</td></tr>\n");
  }
  return absl::StrCat("<table class=\"removals\">\n", rows, "</table>");
}

std::string Removals(const CacheStats& stats) {
  return Causes({{"expired", stats.expirations},
                 {"evicted", stats.evictions},
                 {"deleted", stats.deletes},
                 {"replaced", stats.replaced}});
}

// What Cache::Advise tells.
std::string AdviceCharts(const CacheStats& stats) {
  if (!stats.advice.has_value()) return "";
  const CacheAdvice& advice = *stats.advice;
  const bool read = stats.hits + stats.misses > 0;
  return absl::StrCat(Figure("Hit ratio at other limits",
                             read ? internal::LimitsChart(advice) : "",
                             "Drawn from the first read on."),
                      Figure("Why reads missed",
                             Causes({{"first use", advice.first_uses},
                                     {"expired", advice.expired},
                                     {"evicted", advice.evicted},
                                     {"deleted", advice.deleted}}),
                             "None of the sampled reads has missed."));
}

std::string Charts(const CacheReport& report) {
  const CacheStats& stats = report.stats;
  if (stats.sets + stats.hits + stats.misses == 0) {
    return "<p class=\"unused quiet\">Nobody has used it yet.</p>\n";
  }
  const Histogram& ages = stats.eviction_age;
  const Histogram& left = stats.eviction_life_left;
  return absl::StrCat(
      "<div class=\"charts\">\n",
      Figure("Hit ratio over time", internal::HitRatioChart(report.samples),
             "Drawn from reads between two looks at this page."),
      Figure("Why entries left", Removals(stats), "None has left."),
      Figure("Age at eviction",
             ages.count() > 0 ? internal::AgeChart(ages) : "",
             "None was evicted."),
      Figure("Part of the TTL left at eviction",
             left.count() > 0 ? internal::ShareChart(left) : "",
             "None with a TTL was evicted."),
      AdviceCharts(stats), "</div>\n");
}

// All numbers, under their names.

std::string NumberRow(absl::string_view name, double value) {
  const std::string escaped = EscapeHtml(name);
  const std::string number =
      std::isinf(value) ? "no limit" : absl::StrFormat("%.15g", value);
  // A narrow page breaks names where their words end.
  const std::string shown = absl::StrReplaceAll(escaped, {{"_", "_<wbr>"}});
  return absl::StrCat("<tr><td><code>", shown,
                      "</code></td><td class=\"number\" data-metric=\"",
                      escaped, "\">", number, "</td></tr>\n");
}

std::string AllNumbers(const CacheReport& report) {
  std::string rows;
  report.ForEachMetric([&](const Metric& metric) {
    if (metric.histogram != nullptr) {
      rows += NumberRow(absl::StrCat(metric.name, "_count"),
                        static_cast<double>(metric.histogram->count()));
      rows += NumberRow(absl::StrCat(metric.name, "_sum"), metric.value);
    } else if (metric.label.empty()) {
      rows += NumberRow(metric.name, metric.value);
    } else {
      rows += NumberRow(absl::StrCat(metric.name, "{", metric.label, "}"),
                        metric.value);
    }
  });
  return absl::StrCat("<details><summary>All numbers</summary><table>\n", rows,
                      "</table></details>\n");
}

std::string Advice(const CacheStats& stats) {
  const std::vector<std::string> sentences = internal::Advise(stats);
  if (sentences.empty()) return "";
  std::string items;
  for (const std::string& sentence : sentences) {
    absl::StrAppend(&items, "<li>", KeepUnits(sentence), "</li>\n");
  }
  return absl::StrCat("<ul class=\"advice\">\n", items, "</ul>\n");
}

std::string Card(const CacheReport& report, size_t number) {
  const std::string name = EscapeHtml(report.name);
  return absl::StrCat("<section class=\"card\" id=\"cache-", number,
                      "\" data-cache=\"", name, "\" data-id=\"", report.id,
                      "\">\n<h2>", name, NumberOf(report), "</h2>\n",
                      Advice(report.stats), Tiles(report), NearTiles(report),
                      Charts(report), AllNumbers(report), "</section>\n");
}

// Shares: who has what, who asks for more, and why bytes moved.

std::string MemberRow(const ShareStats::Member& member, int64_t max_bytes) {
  const double part =
      static_cast<double>(member.bytes) / static_cast<double>(max_bytes);
  return absl::StrCat("<tr><td>", EscapeHtml(member.name), "</td><td>",
                      internal::Meter(part), "</td><td class=\"number\">",
                      FormatBytes(member.bytes), "</td><td class=\"number\">",
                      FormatBytes(member.used), "</td><td class=\"number\">",
                      absl::StrFormat("%.3g", member.gain),
                      "</td><td class=\"number\">",
                      absl::StrFormat("%.3g", member.loss), "</td></tr>\n");
}

std::string MoveItem(const ShareStats::Move& move, absl::Duration now) {
  std::string item = absl::StrCat(
      FormatSeconds(absl::ToDoubleSeconds(now - move.time)),
      " ago: ", FormatBytes(move.bytes), " to ", EscapeHtml(move.to),
      ", which gained ", absl::StrFormat("%.3g", move.gain),
      " hits a second for each MiB, from ");
  if (move.from.empty()) {
    item += "what was free";
  } else {
    absl::StrAppend(&item, EscapeHtml(move.from), ", which lost ",
                    absl::StrFormat("%.3g", move.loss));
  }
  return absl::StrCat("<li>", KeepUnits(item), "</li>\n");
}

std::string ShareCard(const ShareReport& share) {
  const ShareStats& stats = share.stats;
  std::string rows;
  for (const auto& member : stats.members) {
    rows += MemberRow(member, stats.max_bytes);
  }
  std::string moves;
  for (auto move = stats.latest.rbegin(); move != stats.latest.rend(); ++move) {
    moves += MoveItem(*move, share.now);
  }
  std::string limit = FormatBytes(stats.max_bytes);
  if (stats.limit < stats.max_bytes) {
    limit =
        absl::StrCat(FormatBytes(stats.limit), " of ", limit,
                     ", as memory is short: ", FormatBytes(stats.memory.used),
                     " of ", FormatBytes(stats.memory.limit), " in use");
  }
  const std::string name = EscapeHtml(share.name);
  return absl::StrCat(
      "<section class=\"card\" data-share=\"", name, "\" data-id=\"", share.id,
      "\">\n<h2>", name, "</h2>\n<p class=\"quiet\">", KeepUnits(limit), ", ",
      KeepUnits(FormatBytes(stats.free_bytes)),
      " free; gains and losses are hits a second for a MiB</p>\n<table "
      "class=\"removals\">\n<tr><th>Member</th><th></th><th class=\"number\">"
      "Limit</th><th class=\"number\">Used</th><th class=\"number\">Gain</th>"
      "<th class=\"number\">Loss</th></tr>\n",
      rows, "</table>\n<ul>\n", moves, "</ul></section>\n");
}

std::string Summary(absl::Span<const CacheReport> reports) {
  int64_t resident = 0;
  for (const CacheReport& report : reports) {
    resident += report.stats.resident_bytes;
  }
  const size_t caches = reports.size();
  std::string summary =
      absl::StrCat(FormatCount(static_cast<int64_t>(caches)),
                   caches == 1 ? " cache, " : " caches, ",
                   FormatBytes(resident), " resident, at ",
                   absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(),
                                    absl::UTCTimeZone()));
  if (caches > kMostShown) {
    absl::StrAppend(&summary, ". Below are the ", kMostShown,
                    " that need attention first; PrometheusText tells of all.");
  }
  return KeepUnits(summary);
}

}  // namespace

std::string StatusPage() { return StatusPage(ReportCaches(), ReportShares()); }

std::string StatusPage(absl::Span<const CacheReport> reports,
                       absl::Span<const ShareReport> shares) {
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<title>Caches</title>\n<style>",
      internal::kStyleSheet,
      "</style>\n</head>\n<body>\n<h1>Caches</h1>\n<p class=\"quiet\">",
      Summary(reports), "</p>\n");
  const std::vector<const CacheReport*> shown = Select(reports);
  if (shown.size() > 1) page += Overview(shown);
  for (const ShareReport& share : shares) page += ShareCard(share);
  for (size_t i = 0; i < shown.size(); ++i) page += Card(*shown[i], i);
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace wheelcache
