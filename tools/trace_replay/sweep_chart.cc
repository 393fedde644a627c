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
#include "wheelcache/cache/internal/status/format.h"
#include "wheelcache/cache/internal/status/picture.h"
#include "wheelcache/tools/trace_replay/sweep.h"
#include "wheelcache/tools/trace_replay/sweep_options.h"

namespace wheelcache::replay {
namespace {

using internal::Anchor;
using internal::AxisLabel;
using internal::FormatShare;

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
      : sweep_(sweep),
        first_(std::log(static_cast<double>(sweep.limits.front()))),
        last_(std::log(static_cast<double>(sweep.limits.back()))) {
    double low = 1;
    double high = 0;
    const auto include = [&](const std::vector<int64_t>& hits) {
      for (const int64_t count : hits) {
        low = std::min(low, sweep.hit_ratio(count));
        high = std::max(high, sweep.hit_ratio(count));
      }
    };
    for (const SweepCurve& curve : sweep.curves) include(curve.hits);
    for (const SweepBound& bound : sweep.bounds) include(bound.hits);
    for (const SweepSample& sample : sweep.samples) {
      for (const double ratio : sample.hit_ratios) {
        low = std::min(low, ratio);
        high = std::max(high, ratio);
      }
    }
    // To tens of percents, so that curves that are high are not flat.
    low_ = static_cast<int>(std::floor(low * 10));
    high_ = std::max(static_cast<int>(std::ceil(high * 10)), low_ + 1);
  }

  double x(size_t limit) const { return XOf(sweep_.limits[limit]); }
  double XOf(int64_t limit) const {
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
  const Sweep& sweep_;
  const double first_;
  const double last_;
  int low_;
  int high_;
};

std::string LabelOf(const Sweep& sweep, int64_t limit) {
  return sweep.by == SweepBy::kEntries ? internal::FormatCount(limit)
                                       : internal::FormatBytes(limit);
}

std::string LimitLabel(const Sweep& sweep, size_t limit) {
  return LabelOf(sweep, sweep.limits[limit]);
}

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
    content += AxisLabel(axes.x(i), kBottom + 16, anchor, LimitLabel(sweep, i));
  }
  return content;
}

// A curve by limits and ratios of its own.
struct Points {
  absl::string_view css_class;
  absl::string_view title;  // HTML.
  const std::vector<int64_t>& limits;
  const std::vector<double>& ratios;
};

std::string DrawPoints(const Sweep& sweep, const Axes& axes,
                       const Points& points) {
  std::string path;
  std::string marks;
  for (size_t i = 0; i < points.limits.size(); ++i) {
    const double x = axes.XOf(points.limits[i]);
    const double y = axes.y(points.ratios[i]);
    absl::StrAppendFormat(&path, "%s%.1f %.1f", i == 0 ? "M" : "L", x, y);
    absl::StrAppendFormat(
        &marks,
        "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"><title>%s, "
        "%s: %s</title></circle>",
        x, y, points.title, LabelOf(sweep, points.limits[i]),
        FormatShare(points.ratios[i]));
  }
  return absl::StrCat("<g class=\"", points.css_class,
                      "\"><path class=\"line\" d=\"", path, "\"/>", marks,
                      "</g>");
}

std::string DrawLine(const Sweep& sweep, const Axes& axes,
                     const SweepLine& line) {
  std::vector<double> ratios;
  for (const int64_t hits : *line.hits) ratios.push_back(sweep.hit_ratio(hits));
  return DrawPoints(sweep, axes,
                    {line.css_class, line.title, sweep.limits, ratios});
}

std::string DrawChosen(const Sweep& sweep, const Axes& axes, size_t limit) {
  const double x = axes.x(limit);
  const Anchor anchor = x < kLeft + 60    ? Anchor::kStart
                        : x > kRight - 60 ? Anchor::kEnd
                                          : Anchor::kMiddle;
  return absl::StrCat(
      absl::StrFormat("<line class=\"chosen\" x1=\"%.1f\" x2=\"%.1f\" "
                      "y1=\"%.1f\" y2=\"%.1f\"/>",
                      x, x, kTop, kBottom),
      AxisLabel(x, kTop - 6, anchor,
                absl::StrCat("knee: ", LimitLabel(sweep, limit))));
}

}  // namespace

std::string DrawSweepChart(const Sweep& sweep, const SweepChart& chart) {
  const Axes axes(sweep);
  std::string content = DrawGrid(sweep, axes);
  content += DrawChosen(sweep, axes, chart.chosen_limit);
  for (const SweepLine& line : chart.lines) {
    content += DrawLine(sweep, axes, line);
  }
  if (chart.sample != nullptr) {
    content += DrawPoints(sweep, axes,
                          {kSampledClass, kSampledTitle, chart.sample->limits,
                           chart.sample->hit_ratios});
  }
  return internal::Picture(chart.name, kSize, content);
}

}  // namespace wheelcache::replay
