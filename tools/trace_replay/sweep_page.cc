#include "wheelcache/tools/trace_replay/sweep_page.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/cache/report/internal/charts.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/cache/report/internal/style_sheet.h"
#include "wheelcache/tools/trace_replay/report.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_advice.h"

namespace wheelcache::replay {
namespace {

using internal::Anchor;
using internal::AxisLabel;
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

// Returns a limit of the sweep as people read it.
std::string LimitText(const Sweep& sweep, int64_t limit) {
  return sweep.by == SweepBy::kEntries ? internal::FormatCount(limit)
                                       : internal::FormatBytes(limit);
}

// A curve to draw.
struct SweepLine {
  std::string css_class;
  std::string title;  // HTML.
  const SweepCurve* curve;
};

// In units of the picture.
constexpr internal::PictureSize kSize = {340, 250};
constexpr double kLeft = 42;
constexpr double kRight = 330;
constexpr double kTop = 18;  // The label of the chosen limit is above.
constexpr double kBottom = 225;

// Maps limits and hit ratios to places in the picture.
class Axes {
 public:
  explicit Axes(const Sweep& sweep)
      : first_(std::log(static_cast<double>(sweep.limits.front()))),
        last_(std::log(static_cast<double>(sweep.limits.back()))) {
    double low = 1;
    double high = 0;
    const auto include = [&](const SweepCurve& curve) {
      for (const int64_t hits : curve.hits) {
        low = std::min(low, sweep.hit_ratio(hits));
        high = std::max(high, sweep.hit_ratio(hits));
      }
    };
    for (const SweepSection& section : sweep.sections) {
      for (const SweepCurve& curve : section.curves) include(curve);
      if (section.sample.has_value()) include(*section.sample);
    }
    // To tens of percents, so that curves that are high are not flat.
    low_ = static_cast<int>(std::floor(low * 10));
    high_ = std::max(static_cast<int>(std::ceil(high * 10)), low_ + 1);
  }

  double x(int64_t limit) const {
    if (first_ == last_) return kLeft;
    const double log = std::log(static_cast<double>(limit));
    return kLeft + (kRight - kLeft) * (log - first_) / (last_ - first_);
  }
  double y(double ratio) const {
    return kBottom - (kBottom - kTop) * (10 * ratio - low_) / (high_ - low_);
  }

  // The lines of the grid, in tenths.
  int low() const { return low_; }
  int high() const { return high_; }

 private:
  const double first_;
  const double last_;
  int low_;
  int high_;
};

std::string DrawGrid(const Sweep& sweep, const Axes& axes) {
  std::string content;
  for (int tenth = axes.low(); tenth <= axes.high(); ++tenth) {
    const double y = axes.y(tenth / 10.0);
    content += internal::GridLine(kLeft, kRight, y);
    content += AxisLabel(kLeft - 5, y + 4, Anchor::kEnd,
                         absl::StrCat(10 * tenth, " %"));
  }
  // As many limits as have room for their labels.
  constexpr size_t kLabels = 4;
  const size_t last = sweep.limits.size() - 1;
  const size_t step = std::max<size_t>(1, (last + kLabels - 2) / (kLabels - 1));
  for (size_t i = 0; i <= last; i += step) {
    const Anchor anchor = i == 0      ? Anchor::kStart
                          : i == last ? Anchor::kEnd
                                      : Anchor::kMiddle;
    content += AxisLabel(axes.x(sweep.limits[i]), kBottom + 16, anchor,
                         LimitText(sweep, sweep.limits[i]));
  }
  return content;
}

std::string DrawLine(const Sweep& sweep, const Axes& axes,
                     const SweepLine& line) {
  const SweepCurve& curve = *line.curve;
  std::string path;
  std::string marks;
  for (size_t i = 0; i < curve.limits.size(); ++i) {
    const double ratio = sweep.hit_ratio(curve.hits[i]);
    const double x = axes.x(curve.limits[i]);
    const double y = axes.y(ratio);
    absl::StrAppendFormat(&path, "%s%.1f %.1f", i == 0 ? "M" : "L", x, y);
    absl::StrAppendFormat(
        &marks,
        "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"><title>%s, "
        "%s: %s</title></circle>",
        x, y, line.title, LimitText(sweep, curve.limits[i]),
        FormatShare(ratio));
  }
  return absl::StrCat("<g class=\"", line.css_class,
                      "\"><path class=\"line\" d=\"", path, "\"/>", marks,
                      "</g>");
}

std::string DrawChosen(const Sweep& sweep, const Axes& axes, int64_t limit) {
  const double x = axes.x(limit);
  const Anchor anchor = x < kLeft + 60    ? Anchor::kStart
                        : x > kRight - 60 ? Anchor::kEnd
                                          : Anchor::kMiddle;
  return absl::StrCat(
      absl::StrFormat("<line class=\"chosen\" x1=\"%.1f\" x2=\"%.1f\" "
                      "y1=\"%.1f\" y2=\"%.1f\"/>",
                      x, x, kTop, kBottom),
      AxisLabel(x, kTop - 6, anchor,
                absl::StrCat("knee: ", LimitText(sweep, limit))));
}

// All charts of a sweep have the same axes; that of the limits is logarithmic.
// The chosen limit is marked by a line down. `name` is HTML, for those who do
// not see the picture.
std::string DrawSweepChart(const Sweep& sweep, absl::string_view name,
                           const std::vector<SweepLine>& lines,
                           size_t chosen_limit) {
  const Axes axes(sweep);
  std::string content =
      absl::StrCat(DrawGrid(sweep, axes),
                   DrawChosen(sweep, axes, sweep.limits[chosen_limit]));
  for (const SweepLine& line : lines) content += DrawLine(sweep, axes, line);
  return internal::Picture(name, kSize, content);
}

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

std::string Chart(const Sweep& sweep, absl::string_view name,
                  const std::vector<SweepLine>& lines, size_t chosen_limit) {
  return DrawSweepChart(
      sweep, absl::StrCat("Hit ratio by ", sweep.limit_name(), ", ", name),
      lines, chosen_limit);
}

// A chart with the legend of its lines, beside a table.
std::string ChartAndTable(const std::vector<SweepLine>& lines,
                          absl::string_view chart, absl::string_view table) {
  return absl::StrCat(Legend(lines), "<div class=\"charts\">\n<div>", chart,
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
  return absl::StrCat(
      "<section class=\"card\" data-cache=\"",
      absl::FormatDuration(section.ttl), "\" data-id=\"1\">\n<h2>", name,
      "</h2>\n",
      ChartAndTable(lines, Chart(sweep, name, lines, chosen_limit),
                    LimitTable(sweep, section, chosen_limit)),
      "</section>\n");
}

// What a longer TTL gains, if there are several.
std::string CompareTtls(const Sweep& sweep, const SweepChoice& choice) {
  if (sweep.sections.size() < 2) return "";
  const std::vector<SweepLine> lines = LinesByTtl(sweep, choice.policy);
  return absl::StrCat(
      "<div class=\"card\">\n<h2>All TTLs, ",
      sweep.policies[choice.policy].title, "</h2>\n",
      ChartAndTable(lines, Chart(sweep, "for each TTL", lines, choice.limit),
                    TtlTable(sweep, choice)),
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
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Hit ratios of ",
      name, "</title>\n<style>", internal::kStyleSheet, kStyle,
      "</style>\n</head>\n<body>\n<h1>Hit ratio by ", sweep.limit_name(),
      "</h1>\n<p class=\"quiet\">", name, ": ",
      WithoutBreaks(SweepSummary(sweep)), "</p>\n<p class=\"advice\">",
      WithoutBreaks(Advise(sweep, choice)), "</p>\n", Tiles(sweep, choice),
      CompareTtls(sweep, choice));
  for (const SweepSection& section : sweep.sections) {
    page += Section(sweep, section, choice.limit);
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace wheelcache::replay
