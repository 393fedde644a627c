#include "wheelcache/cache/report/internal/style_sheet.h"

namespace wheelcache::internal {

const absl::string_view kStyleSheet = R"css(
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #fff; --text: #1c2128; --quiet: #57606a;
  --rule: #d8dee4; --data: #2f6fd0; --track: #e6eaef; --note: #fff6e0;
  --note-rule: #d9a520;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1318; --card: #171c23; --text: #e2e7ed; --quiet: #9aa5b1;
    --rule: #2c343e; --data: #5b9bf0; --track: #262e38; --note: #2a2413;
    --note-rule: #a8841f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 72rem; padding: 1.25rem 1rem 3rem;
  background: var(--page); color: var(--text);
  font: 16px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere;
}
h1 { margin: 0; font-size: 1.5rem; }
h2 { margin: 0 0 .75rem; font-size: 1.2rem; }
h3 { margin: 0 0 .35rem; font-size: .9rem; font-weight: 600; }
small { color: var(--quiet); font-weight: 400; }
a { color: var(--data); }
p { margin: 0; }
.quiet { color: var(--quiet); font-size: .9rem; }
.card {
  margin-top: 1rem; padding: 1rem; background: var(--card);
  border: 1px solid var(--rule); border-radius: .6rem;
}
.tiles, .charts { display: grid; gap: 1.25rem 1.5rem; }
@media (max-width: 30rem) { .tiles, .charts { gap: 1rem; } }
.tiles { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); }
.charts {
  margin-top: 1.25rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr));
}
.tile b { display: block; font-size: 1.5rem; line-height: 1.25; }
.tile .quiet { display: block; min-height: 1.3em; }
.advice {
  margin: 0 0 1rem; padding: .6rem .8rem .6rem 1.8rem; background: var(--note);
  border-left: 3px solid var(--note-rule); border-radius: .3rem;
}
.advice li + li { margin-top: .3rem; }
svg { display: block; }
.meter { width: 100%; height: 6px; margin-top: .35rem; border-radius: 3px; }
.chart { width: 100%; height: auto; max-width: 30rem; }
.track { fill: var(--track); }
.fill, .bar { fill: var(--data); }
.line { fill: none; stroke: var(--data); stroke-width: 2; }
.grid { stroke: var(--rule); stroke-width: 1; }
.axis { fill: var(--quiet); font-size: 11px; }
table { width: 100%; border-collapse: collapse; font-size: .95rem; }
th, td { padding: .3rem .5rem .3rem 0; text-align: left; vertical-align: top; }
th { color: var(--quiet); font-size: .85rem; font-weight: 500; }
tr + tr { border-top: 1px solid var(--rule); }
.number {
  padding-right: 0; padding-left: .5rem; text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap;
}
.removals td:nth-child(2) { width: 45%; vertical-align: middle; }
.removals .meter { margin-top: 0; }
.unused { margin-top: 1rem; }
details { margin-top: 1.25rem; }
summary { cursor: pointer; color: var(--quiet); }
code { font: .85em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
)css";

}  // namespace wheelcache::internal
