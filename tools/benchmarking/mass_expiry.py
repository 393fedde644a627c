"""The section on latencies during a mass expiry."""

import statistics

from . import bars, chart
from .section import Bar, Section, spread, table

PERCENTILES = ["p50", "p99", "p99.9", "max"]

TEXT = """\
A cache of two million entries, of which one million expire within a second, evenly, while pairs of a reader and a
writer work on the other million (Zipf 0.99); and the same while none expires. Measured from the first deadline to
200 ms after the last one, in real time, with the reaper of the default options on the same processors, each from the end
of one operation to the end of the next."""


def sections(result):
    pairs = sorted({name.split("/")[1] for name in result.names("MassExpiry/")})
    return [_section(result, pairs)] if pairs else []


def _section(result, pairs):
    rows, reached, series = [], [], {}
    for count in pairs:
        for operation in ("get", "set"):
            what = f"{operation.capitalize()}, {_pairs(count)}"
            for kind in ("calm", "expiring"):
                names = [f"MassExpiry/{count}/{kind}/{operation}_{percentile}" for percentile in PERCENTILES]
                medians = [result.median(name) for name in names]
                rows.append([f"{what}, {kind}", *map(duration, medians)])
                series.setdefault(kind, {})[what] = medians[PERCENTILES.index("p99.9")]
            reached.append(_bar(result, what, count, f"{operation}_p99.9"))
    drawn = chart.grouped_bars(
        "Mass expiry: p99.9", "logarithmic", list(series["calm"]), series, logarithmic=True, write=duration
    )
    text = f"{TEXT}\n\n{table(['', *PERCENTILES], rows)}"
    return Section("MassExpiry", "Mass expiry", text, reached, drawn)


def _bar(result, what, count, counter):
    most = bars.MASS_EXPIRY[counter]
    ratios = result.ratios(f"MassExpiry/{count}/expiring/{counter}", f"MassExpiry/{count}/calm/{counter}")
    return Bar(
        f"p99.9 of {what}, to that without expiry", f"at most {most:g}", spread(ratios), statistics.median(ratios) <= most
    )


def duration(nanos):
    """Writes a duration with three digits."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanos >= unit * 0.9995:
            return f"{float(f'{nanos / unit:.3g}'):g} {name}"
    return f"{nanos:.0f} ns"


def _pairs(count):
    return "1 pair" if count == "1" else f"{count} pairs"
