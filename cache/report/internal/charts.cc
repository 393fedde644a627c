#include "wheelcache/cache/report/internal/charts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "wheelcache/cache/report/internal/format.h"

namespace wheelcache::internal {

std::string Picture(absl::string_view name, PictureSize size,
                    absl::string_view content) {
  return absl::StrFormat(
      "<svg class=\"chart\" role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %.0f "
      "%.0f\">%s</svg>\n",
      name, size.width, size.height, content);
}

std::string AxisLabel(double x, double y, Anchor anchor,
                      absl::string_view text) {
  constexpr const char* kNames[] = {"start", "middle", "end"};
  return absl::StrFormat(
      "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
      x, y, kNames[static_cast<int>(anchor)], text);
}

std::string GridLine(double left, double right, double y) {
  return absl::StrFormat(
      "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
      left, right, y, y);
}

namespace {

constexpr PictureSize kSize = {340, 120};
constexpr double kBottom = 100;  // Where bars stand and lines have zero.
constexpr double kTop = 8;
constexpr double kLeft = 46;  // Of the lines; room for the labels of the axis.
constexpr double kRight = 336;

// A label below the upper end of a bucket.
struct Tick {
  size_t bucket;
  std::string label;
};

struct BarChart {
  absl::string_view name;
  size_t bars;
  std::vector<Tick> ticks;
  std::string (*format)(double bound);
};

// What a bucket has, for those who point at its bar.
std::string DescribeBucket(const BarChart& chart, const Histogram& histogram,
                           size_t i) {
  const size_t bounds = histogram.bounds.size();
  const std::string count = FormatCount(histogram.counts[i]);
  if (i == bounds) {
    return absl::StrCat("over ", chart.format(histogram.bounds[i - 1]), ": ",
                        count);
  }
  const double lower = i == 0 ? 0 : histogram.bounds[i - 1];
  return absl::StrCat(lower == 0 ? "0" : chart.format(lower), " to ",
                      chart.format(histogram.bounds[i]), ": ", count);
}

std::string DrawBars(const BarChart& chart, const Histogram& histogram) {
  const double step = (kRight - 4) / static_cast<double>(chart.bars);
  const int64_t most = std::max<int64_t>(
      *std::max_element(histogram.counts.begin(), histogram.counts.end()), 1);
  std::string content = GridLine(4, kRight, kBottom);
  for (size_t i = 0; i < chart.bars; ++i) {
    const int64_t count = histogram.counts[i];
    double height = (kBottom - kTop) * static_cast<double>(count) /
                    static_cast<double>(most);
    if (count > 0) height = std::max(height, 2.0);  // Few are not none.
    absl::StrAppendFormat(
        &content,
        "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
        "height=\"%.1f\"><title>%s</title></rect>",
        4 + step * static_cast<double>(i) + 1, kBottom - height, step - 2,
        height, DescribeBucket(chart, histogram, i));
  }
  for (const Tick& tick : chart.ticks) {
    content += AxisLabel(4 + step * static_cast<double>(tick.bucket + 1),
                         kSize.height - 5, Anchor::kMiddle, tick.label);
  }
  return Picture(chart.name, kSize, content);
}

// The hit ratio from one sample to the next, or less than 0 without a read.
double RatioBetween(const CacheSample& before, const CacheSample& after) {
  CacheStats between;
  between.hits = after.hits - before.hits;
  between.misses = after.misses - before.misses;
  return between.hits + between.misses == 0 ? -1 : between.hit_ratio();
}

// Steps, for a ratio is that of the whole time between two samples; with gaps
// where nobody read. Empty if there is nothing else.
std::string RatioPath(absl::Span<const CacheSample> samples,
                      absl::Duration span) {
  std::string path;
  bool connected = false;
  for (size_t i = 1; i < samples.size(); ++i) {
    const double ratio = RatioBetween(samples[i - 1], samples[i]);
    const auto x = [&](const CacheSample& sample) {
      const absl::Duration since_first = sample.time - samples.front().time;
      return kLeft + (kRight - kLeft) * absl::FDivDuration(since_first, span);
    };
    const double y = kBottom - (kBottom - kTop) * ratio;
    if (ratio >= 0 && !connected) {
      absl::StrAppendFormat(&path, "M%.1f %.1f", x(samples[i - 1]), y);
    }
    if (ratio >= 0) {
      absl::StrAppendFormat(&path, "V%.1fH%.1f", y, x(samples[i]));
    }
    connected = ratio >= 0;
  }
  return path;
}

double HeightOf(double ratio) { return kBottom - (kBottom - kTop) * ratio; }

std::string RatioAxis() {
  std::string content;
  for (const double ratio : {0.0, 0.5, 1.0}) {
    content += GridLine(kLeft, kRight, HeightOf(ratio));
    content += AxisLabel(kLeft - 5, HeightOf(ratio) + 4, Anchor::kEnd,
                         absl::StrFormat("%.0f %%", 100 * ratio));
  }
  return content;
}

}  // namespace

std::string Meter(double fraction) {
  const double filled = std::min(std::max(fraction, 0.0), 1.0);
  return absl::StrFormat(
      "<svg class=\"meter\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\"><rect class=\"track\" width=\"100\" height=\"6\"/>"
      "<rect class=\"fill\" width=\"%.1f\" height=\"6\"/></svg>",
      100 * filled);
}

std::string HitRatioChart(absl::Span<const CacheSample> samples) {
  const absl::Duration span = samples.empty()
                                  ? absl::ZeroDuration()
                                  : samples.back().time - samples.front().time;
  const std::string path = RatioPath(samples, span);
  if (path.empty()) return "";
  std::string content = RatioAxis();
  absl::StrAppend(&content, "<path class=\"line\" d=\"", path, "\"/>");
  content += AxisLabel(
      kLeft, kSize.height - 5, Anchor::kStart,
      absl::StrCat(FormatSeconds(absl::ToDoubleSeconds(span)), " ago"));
  content += AxisLabel(kRight, kSize.height - 5, Anchor::kEnd, "last look");
  return Picture("Hit ratio over time", kSize, content);
}

std::string LimitsChart(const CacheAdvice& advice) {
  struct Point {
    double ratio;
    absl::string_view label;
  };
  const Point points[] = {{advice.half, "half"},
                          {advice.same, "the limits"},
                          {advice.twice, "twice"},
                          {advice.four_times, "4 times"}};
  constexpr double kMargin = 30;
  constexpr double kStep = (kRight - kLeft - 2 * kMargin) / 3;
  std::string path;
  std::string marks;
  double x = kLeft + kMargin;
  for (const Point& point : points) {
    const double y = HeightOf(point.ratio);
    absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", x, y);
    absl::StrAppendFormat(
        &marks,
        "<circle class=\"bar\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s: %s"
        "</title></circle>",
        x, y, point.label, FormatShare(point.ratio));
    // Above the point where there is room.
    marks += AxisLabel(x, y < kTop + 16 ? y + 17 : y - 8, Anchor::kMiddle,
                       FormatShare(point.ratio));
    marks += AxisLabel(x, kSize.height - 5, Anchor::kMiddle, point.label);
    x += kStep;
  }
  return Picture("Hit ratio at other limits", kSize,
                 absl::StrCat(RatioAxis(), "<path class=\"line\" d=\"", path,
                              "\"/>", marks));
}

std::string AgeChart(const Histogram& seconds) {
  BarChart chart = {
      "Age at eviction", seconds.bounds.size() + 1, {}, FormatSeconds};
  for (const size_t bucket : {0U, 2U, 4U, 6U, 10U, 13U, 16U}) {
    chart.ticks.push_back({bucket, FormatSeconds(seconds.bounds[bucket])});
  }
  return DrawBars(chart, seconds);
}

std::string ShareChart(const Histogram& fractions) {
  BarChart chart = {"Part of the TTL left at eviction",
                    fractions.bounds.size(),
                    {},
                    FormatShare};
  for (const size_t bucket : {1U, 3U, 5U, 7U}) {
    chart.ticks.push_back(
        {bucket, absl::StrFormat("%.0f %%", 100 * fractions.bounds[bucket])});
  }
  return DrawBars(chart, fractions);
}

}  // namespace wheelcache::internal
