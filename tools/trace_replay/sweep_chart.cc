#include "wheelcache/tools/trace_replay/sweep_chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/report/internal/charts.h"
#include "wheelcache/cache/report/internal/format.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {
namespace {

using internal::Anchor;
using internal::AxisLabel;

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
        internal::FormatShare(ratio));
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

}  // namespace

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

std::string LimitText(const Sweep& sweep, int64_t limit) {
  return sweep.by == SweepBy::kEntries ? internal::FormatCount(limit)
                                       : internal::FormatBytes(limit);
}

}  // namespace wheelcache::replay
