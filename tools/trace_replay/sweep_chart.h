// Draws the curves of a sweep as SVG within HTML. Colours come from the page's
// style sheet: each curve has a class of its own, whose line and points are of
// the classes line and point.

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
  const SweepCurve* curve;
};

// The limits have a logarithmic axis. All charts of a sweep have the same axes.
// The chosen limit, by its number, is marked by a line down. `name` is HTML,
// for those who do not see the picture.
std::string DrawSweepChart(const Sweep& sweep, absl::string_view name,
                           const std::vector<SweepLine>& lines,
                           size_t chosen_limit);

// Returns a limit of the sweep as people read it.
std::string LimitText(const Sweep& sweep, int64_t limit);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_CHART_H_
