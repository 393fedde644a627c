// Draws the curves of a sweep for one TTL, as SVG within HTML. Colours come
// from the page's style sheet: each line has the class line and its number,
// series0 and so on, bound, or sampled.

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_CHART_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_CHART_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {

// A curve to draw.
struct SweepLine {
  std::string css_class;
  std::string title;  // HTML.
  const std::vector<int64_t>* hits;
};

// The line of a sample.
inline constexpr absl::string_view kSampledClass = "sampled";
inline constexpr absl::string_view kSampledTitle = "LRU, from a sample";

struct SweepChart {
  std::string name;  // HTML; for those who do not see the picture.
  std::vector<SweepLine> lines;
  size_t chosen_limit;  // Marked by a line down.
  // Of a sample; null for none.
  const SweepSample* sample = nullptr;
};

// The limits have a logarithmic axis. All charts of a sweep have the same axes.
std::string DrawSweepChart(const Sweep& sweep, const SweepChart& chart);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_CHART_H_
