// Shows a sweep as an HTML page: advice, the curves of each TTL, and their
// figures. The page names no script, style, font or picture of elsewhere.
//
//   std::string html = SweepPage("oltp.csv", sweep);

#ifndef WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_PAGE_H_
#define WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/tools/trace_replay/sweep.h"

namespace wheelcache::replay {

// `trace` is any text. Each TTL has a section with a data-cache that names it;
// the cells of its table have a data-metric like "lru 5000" or "bound 5000".
std::string SweepPage(absl::string_view trace, const Sweep& sweep);

}  // namespace wheelcache::replay

#endif  // WHEELCACHE_TOOLS_TRACE_REPLAY_SWEEP_PAGE_H_
