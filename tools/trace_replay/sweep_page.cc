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
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/report/internal/style_sheet.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"
#include "wheelcache/tools/trace_replay/sweep_chart.h"

namespace wheelcache::replay {
namespace {

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

// Keeps numbers and their units on one line, and what is set to a number.
std::string WithoutBreaks(absl::string_view text) {
  return absl::StrReplaceAll(internal::KeepUnits(text),
                             {{" = ", "&nbsp;=&nbsp;"}});
}

std::string TtlName(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return "No TTL";
  return WithoutBreaks(absl::StrCat(
      "TTL ", internal::FormatSeconds(absl::ToDoubleSeconds(ttl))));
}

// The style sheet has colours for so many lines; they repeat.
std::string SeriesClass(size_t i) {
  constexpr size_t kColours = 4;
  return absl::StrCat("series", i % kColours);
}

// The lines of a TTL: its policies and its bound.
std::vector<SweepLine> LinesOf(const SweepSection& section) {
  std::vector<SweepLine> lines;
  for (const SweepCurve& curve : section.curves) {
    lines.push_back(
        {SeriesClass(lines.size()), std::string(curve.title), &curve});
  }
  lines.back().css_class = "bound";
  return lines;
}

// The curves of the chosen policy, one for each TTL.
std::vector<SweepLine> LinesByTtl(const Sweep& sweep, size_t policy) {
  std::vector<SweepLine> lines;
  for (const SweepSection& section : sweep.sections) {
    lines.push_back({SeriesClass(lines.size()), TtlName(section.ttl),
                     &section.curves[policy]});
  }
  return lines;
}

std::string Legend(const std::vector<SweepLine>& lines) {
  std::string items;
  for (const SweepLine& line : lines) {
    absl::StrAppend(&items, "<span class=\"", line.css_class, "\">", line.title,
                    "</span>\n");
  }
  return absl::StrCat("<div class=\"legend quiet\">\n", items, "</div>\n");
}

// The figures are in columns, one for each curve.
std::string Table(absl::string_view first_head,
                  const std::vector<SweepCurve>& curves,
                  absl::string_view rows) {
  std::string head(first_head);
  for (const SweepCurve& curve : curves) {
    absl::StrAppend(&head, "<th class=\"number\">", curve.title, "</th>");
  }
  return absl::StrCat("<div class=\"wide\"><table>\n<tr>", head, "</tr>\n",
                      rows, "</table></div>\n");
}

absl::string_view RowTag(bool chosen) {
  return chosen ? "<tr class=\"chosen-row\">" : "<tr>";
}

// The hit ratios with one TTL, a row for each limit.
std::string LimitTable(const Sweep& sweep, const SweepSection& section,
                       size_t chosen_limit) {
  std::string rows;
  for (size_t i = 0; i < sweep.limits.size(); ++i) {
    absl::StrAppend(&rows, RowTag(i == chosen_limit),
                    "<td class=\"number\" title=\"",
                    FormatCount(sweep.limits[i]), "\">",
                    LimitText(sweep, sweep.limits[i]), "</td>");
    for (const SweepCurve& curve : section.curves) {
      absl::StrAppendFormat(
          &rows, "<td class=\"number\" data-metric=\"%s %d\">%s</td>",
          curve.name, sweep.limits[i],
          FormatShare(sweep.hit_ratio(curve.hits[i])));
    }
    rows += "</tr>\n";
  }
  return Table(
      absl::StrCat("<th class=\"number\">", sweep.limit_name(), "</th>"),
      section.curves, rows);
}

// The hit ratios with the chosen limit, a row for each TTL.
std::string TtlTable(const Sweep& sweep, const SweepChoice& choice) {
  std::string rows;
  for (size_t i = 0; i < sweep.sections.size(); ++i) {
    absl::StrAppend(&rows, RowTag(i == choice.section), "<td>",
                    TtlName(sweep.sections[i].ttl), "</td>");
    for (const SweepCurve& curve : sweep.sections[i].curves) {
      absl::StrAppend(&rows, "<td class=\"number\">",
                      FormatShare(sweep.hit_ratio(curve.hits[choice.limit])),
                      "</td>");
    }
    rows += "</tr>\n";
  }
  return Table(
      absl::StrCat("<th>With ",
                   WithoutBreaks(LimitText(sweep, sweep.limits[choice.limit])),
                   "</th>"),
      sweep.sections[0].curves, rows);
}

// A chart with its legend, beside a table.
std::string ChartAndTable(const Sweep& sweep, absl::string_view name,
                          const std::vector<SweepLine>& lines,
                          size_t chosen_limit, absl::string_view table) {
  return absl::StrCat(
      Legend(lines), "<div class=\"charts\">\n<div>",
      DrawSweepChart(
          sweep, absl::StrCat("Hit ratio by ", sweep.limit_name(), ", ", name),
          lines, chosen_limit),
      "</div>\n<div>", table, "</div>\n</div>\n");
}

std::string Section(const Sweep& sweep, const SweepSection& section,
                    size_t chosen_limit) {
  const std::string name = TtlName(section.ttl);
  std::vector<SweepLine> lines = LinesOf(section);
  if (section.sample.has_value()) {
    lines.push_back(
        {"sampled", std::string(section.sample->title), &*section.sample});
  }
  return absl::StrCat("<section class=\"card\" data-cache=\"",
                      absl::FormatDuration(section.ttl),
                      "\" data-id=\"1\">\n<h2>", name, "</h2>\n",
                      ChartAndTable(sweep, name, lines, chosen_limit,
                                    LimitTable(sweep, section, chosen_limit)),
                      "</section>\n");
}

// What a longer TTL gains, if there are several.
std::string CompareTtls(const Sweep& sweep, const SweepChoice& choice) {
  if (sweep.sections.size() < 2) return "";
  return absl::StrCat(
      "<div class=\"card\">\n<h2>All TTLs, ",
      sweep.policies[choice.policy].title, "</h2>\n",
      ChartAndTable(sweep, "for each TTL", LinesByTtl(sweep, choice.policy),
                    choice.limit, TtlTable(sweep, choice)),
      "</div>\n");
}

std::string Tile(absl::string_view title, absl::string_view big,
                 absl::string_view small) {
  return absl::StrCat("<div class=\"tile\"><h3>", title, "</h3><b>",
                      WithoutBreaks(big), "</b><span class=\"quiet\">", small,
                      "</span></div>\n");
}

std::string Tiles(const Sweep& sweep, const SweepChoice& choice) {
  const SweepSection& section = sweep.sections[choice.section];
  const SweepCurve& curve = section.curves[choice.policy];
  const auto ratio = [&](const SweepCurve& of) {
    return FormatShare(sweep.hit_ratio(of.hits[choice.limit]));
  };
  return absl::StrCat(
      "<div class=\"card tiles\">\n",
      Tile("Limit", LimitText(sweep, sweep.limits[choice.limit]),
           sweep.limit_name()),
      Tile("Hit ratio", ratio(curve), "of the reads"),
      Tile("Policy", curve.title, TtlName(section.ttl)),
      Tile(section.bound().title, ratio(section.bound()),
           "no policy hits more often"),
      "</div>\n");
}

}  // namespace

std::string SweepPage(absl::string_view trace, const Sweep& sweep) {
  const SweepChoice choice = Choose(sweep);
  const std::string name = internal::EscapeHtml(trace);
  const std::string summary = absl::StrCat(
      FormatCount(sweep.requests), " requests, ", FormatCount(sweep.reads),
      " reads, ", FormatCount(sweep.keys), " keys");
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Hit ratios of ",
      name, "</title>\n<style>", internal::kStyleSheet, kStyle,
      "</style>\n</head>\n<body>\n<h1>Hit ratio by ", sweep.limit_name(),
      "</h1>\n<p class=\"quiet\">", name, ": ", WithoutBreaks(summary),
      "</p>\n<p class=\"advice\">", WithoutBreaks(Advise(sweep, choice)),
      "</p>\n", Tiles(sweep, choice), CompareTtls(sweep, choice));
  for (const SweepSection& section : sweep.sections) {
    page += Section(sweep, section, choice.limit);
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace wheelcache::replay
