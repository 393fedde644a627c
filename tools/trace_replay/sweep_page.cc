#include "wheelcache/tools/trace_replay/sweep_page.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/status/escape.h"
#include "wheelcache/cache/internal/status/format.h"
#include "wheelcache/cache/internal/status/style_sheet.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_chart.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"
#include "wheelcache/tools/trace_replay/sweep_report.h"

namespace wheelcache::replay {
namespace {

using internal::FormatBytes;
using internal::FormatCount;
using internal::FormatShare;

// On top of the style sheet of the status page.
constexpr absl::string_view kStyle = R"css(
:root { --other: #c2570c; --third: #1a7f5a; --fourth: #8a3ea8; }
@media (prefers-color-scheme: dark) {
  :root { --other: #f0913e; --third: #3fbf8f; --fourth: #c58be0; }
}
.series0 { --line: var(--data); }
.series1 { --line: var(--other); }
.series2 { --line: var(--third); }
.series3 { --line: var(--fourth); }
.bound { --line: var(--quiet); }
.sampled { --line: var(--text); }
.line { stroke: var(--line); stroke-linejoin: round; }
.point { fill: var(--line); }
.bound .line { stroke-width: 1.5; stroke-dasharray: 5 4; }
.bound .point { opacity: 0; }
.sampled .line { stroke-width: 1; stroke-dasharray: 2 3; }
.chosen { stroke: var(--note-rule); stroke-width: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; }
.legend span::before {
  content: ""; display: inline-block; width: 1.3em; margin-right: .45em;
  vertical-align: middle; border-top: 3px solid var(--line);
}
.legend .bound::before { border-top-style: dashed; }
.legend .sampled::before { border-top-style: dotted; }
.advice { padding-left: .8rem; margin: 1rem 0 0; }
.chosen-row td { font-weight: 600; background: var(--note); }
.chart { margin-top: .5rem; max-width: 34rem; }
.wide { overflow-x: auto; }
@media (min-width: 48rem) { .chart .axis { font-size: 8px; } }
)css";

std::string TtlName(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return "No TTL";
  return absl::StrCat("TTL ",
                      internal::FormatSeconds(absl::ToDoubleSeconds(ttl)));
}

std::string LimitText(const Sweep& sweep, int64_t limit) {
  if (sweep.by == SweepBy::kEntries) return FormatCount(limit);
  return FormatBytes(limit);
}

// The style sheet has colours for so many lines; they repeat.
std::string SeriesClass(size_t i) {
  constexpr size_t kColours = 4;
  return absl::StrCat("series", i % kColours);
}

// The lines of a TTL: its policies and its bound.
std::vector<SweepLine> LinesOf(const Sweep& sweep, size_t ttl) {
  std::vector<SweepLine> lines;
  for (size_t i = 0; i < sweep.policies(); ++i) {
    const SweepCurve& curve = sweep.curves[ttl * sweep.policies() + i];
    lines.push_back(
        {SeriesClass(i), std::string(curve.policy.title), &curve.hits});
  }
  lines.push_back(
      {"bound", std::string(BoundName(sweep)), &sweep.bounds[ttl].hits});
  return lines;
}

// The curves of the chosen policy, one for each TTL.
std::vector<SweepLine> LinesByTtl(const Sweep& sweep,
                                  const SweepChoice& choice) {
  std::vector<SweepLine> lines;
  const size_t policy = choice.curve % sweep.policies();
  for (size_t ttl = 0; ttl < sweep.bounds.size(); ++ttl) {
    const SweepCurve& curve = sweep.curves[ttl * sweep.policies() + policy];
    lines.push_back({SeriesClass(ttl), TtlName(curve.ttl), &curve.hits});
  }
  return lines;
}

std::string LegendItem(absl::string_view css_class, absl::string_view title) {
  return absl::StrCat("<span class=\"", css_class, "\">", title, "</span>\n");
}

std::string Legend(const std::vector<SweepLine>& lines, bool has_sample) {
  std::string items;
  for (const SweepLine& line : lines) {
    items += LegendItem(line.css_class, line.title);
  }
  if (has_sample) items += LegendItem(kSampledClass, kSampledTitle);
  return absl::StrCat("<div class=\"legend quiet\">\n", items, "</div>\n");
}

// What the cells of a column are named after.
std::string ColumnName(const Sweep& sweep, size_t ttl, size_t column) {
  if (column == sweep.policies()) return "bound";
  return std::string(sweep.curves[ttl * sweep.policies() + column].policy.name);
}

std::string Row(const Sweep& sweep, const std::vector<SweepLine>& lines,
                size_t ttl, size_t limit) {
  std::string cells;
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppendFormat(
        &cells, "<td class=\"number\" data-metric=\"%s %d\">%s</td>",
        ColumnName(sweep, ttl, i), sweep.limits[limit],
        FormatShare(sweep.hit_ratio((*lines[i].hits)[limit])));
  }
  return absl::StrCat("<td class=\"number\" title=\"",
                      FormatCount(sweep.limits[limit]), "\">",
                      LimitText(sweep, sweep.limits[limit]), "</td>", cells);
}

std::string Table(const Sweep& sweep, const SweepChoice& choice, size_t ttl) {
  const std::vector<SweepLine> lines = LinesOf(sweep, ttl);
  std::string html =
      absl::StrCat("<div class=\"wide\"><table>\n<tr><th class=\"number\">",
                   LimitName(sweep), "</th>");
  for (const SweepLine& line : lines) {
    absl::StrAppend(&html, "<th class=\"number\">", line.title, "</th>");
  }
  html += "</tr>\n";
  for (size_t limit = 0; limit < sweep.limits.size(); ++limit) {
    absl::StrAppend(
        &html, limit == choice.limit ? "<tr class=\"chosen-row\">" : "<tr>",
        Row(sweep, lines, ttl, limit), "</tr>\n");
  }
  html += "</table></div>\n";
  return html;
}

std::string ChartName(const Sweep& sweep, absl::string_view name) {
  return absl::StrCat("Hit ratio by ", LimitName(sweep), ", ", name);
}

std::string Section(const Sweep& sweep, const SweepChoice& choice, size_t ttl) {
  const absl::Duration value = sweep.bounds[ttl].ttl;
  const std::string name = TtlName(value);
  const std::vector<SweepLine> lines = LinesOf(sweep, ttl);
  SweepChart chart = {ChartName(sweep, name), lines, choice.limit};
  if (!sweep.samples.empty()) chart.sample = &sweep.samples[ttl];
  return absl::StrCat(
      "<section class=\"card\" data-cache=\"", absl::FormatDuration(value),
      "\" data-id=\"1\">\n<h2>", name, "</h2>\n",
      Legend(lines, chart.sample != nullptr), "<div class=\"charts\">\n<div>",
      DrawSweepChart(sweep, chart), "</div>\n<div>", Table(sweep, choice, ttl),
      "</div>\n</div>\n</section>\n");
}

// The hit ratios with the chosen limit, a row for each TTL.
std::string TtlTable(const Sweep& sweep, const SweepChoice& choice) {
  const auto cell = [&](const std::vector<int64_t>& hits) {
    return absl::StrCat("<td class=\"number\">",
                        FormatShare(sweep.hit_ratio(hits[choice.limit])),
                        "</td>");
  };
  std::string html =
      absl::StrCat("<div class=\"wide\"><table>\n<tr><th>With ",
                   LimitText(sweep, sweep.limits[choice.limit]), "</th>");
  for (const SweepLine& line : LinesOf(sweep, 0)) {
    absl::StrAppend(&html, "<th class=\"number\">", line.title, "</th>");
  }
  for (size_t ttl = 0; ttl < sweep.bounds.size(); ++ttl) {
    const bool chosen = ttl == choice.curve / sweep.policies();
    absl::StrAppend(&html, "</tr>\n<tr", chosen ? " class=\"chosen-row\"" : "",
                    "><td>", TtlName(sweep.bounds[ttl].ttl), "</td>");
    for (const SweepLine& line : LinesOf(sweep, ttl)) html += cell(*line.hits);
  }
  html += "</tr>\n</table></div>\n";
  return html;
}

// What a longer TTL gains, if there are several.
std::string CompareTtls(const Sweep& sweep, const SweepChoice& choice) {
  if (sweep.bounds.size() < 2) return "";
  const std::vector<SweepLine> lines = LinesByTtl(sweep, choice);
  return absl::StrCat(
      "<div class=\"card\">\n<h2>All TTLs, ",
      sweep.curves[choice.curve].policy.title, "</h2>\n",
      Legend(lines, /*has_sample=*/false), "<div class=\"charts\">\n<div>",
      DrawSweepChart(sweep,
                     {ChartName(sweep, "for each TTL"), lines, choice.limit}),
      "</div>\n<div>", TtlTable(sweep, choice), "</div>\n</div>\n</div>\n");
}

std::string Tile(absl::string_view title, absl::string_view big,
                 absl::string_view small) {
  return absl::StrCat("<div class=\"tile\"><h3>", title, "</h3><b>", big,
                      "</b><span class=\"quiet\">", small, "</span></div>\n");
}

std::string Tiles(const Sweep& sweep, const SweepChoice& choice) {
  const SweepCurve& curve = sweep.curves[choice.curve];
  const SweepBound& bound = sweep.bounds[choice.curve / sweep.policies()];
  return absl::StrCat(
      "<div class=\"card tiles\">\n",
      Tile("Limit", LimitText(sweep, sweep.limits[choice.limit]),
           LimitName(sweep)),
      Tile("Hit ratio", FormatShare(sweep.hit_ratio(curve.hits[choice.limit])),
           "of the reads"),
      Tile("Policy", curve.policy.title, TtlName(curve.ttl)),
      Tile(BoundName(sweep),
           FormatShare(sweep.hit_ratio(bound.hits[choice.limit])),
           "no policy hits more often"),
      "</div>\n");
}

// Keeps numbers and their units on one line.
std::string WithoutBreaks(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{" %", "&nbsp;%"}, {" = ", "&nbsp;=&nbsp;"}});
}

std::string Summary(const Sweep& sweep) {
  return absl::StrCat(FormatCount(sweep.requests), " requests, ",
                      FormatCount(sweep.reads), " reads, ",
                      FormatCount(sweep.keys), " keys");
}

}  // namespace

std::string SweepPage(absl::string_view trace, const Sweep& sweep) {
  const SweepChoice choice = Choose(sweep);
  const std::string name = internal::EscapeHtml(trace);
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Hit ratios of ",
      name, "</title>\n<style>", internal::kStyleSheet, kStyle,
      "</style>\n</head>\n<body>\n<h1>Hit ratio by ", LimitName(sweep),
      "</h1>\n<p class=\"quiet\">", name, ": ", Summary(sweep),
      "</p>\n<p class=\"advice\">", WithoutBreaks(Advise(sweep, choice)),
      "</p>\n", Tiles(sweep, choice), CompareTtls(sweep, choice));
  for (size_t ttl = 0; ttl < sweep.bounds.size(); ++ttl) {
    page += Section(sweep, choice, ttl);
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace wheelcache::replay
