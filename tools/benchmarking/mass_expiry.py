"""The section on latencies during a mass expiry."""

import statistics

from . import chart, targets
from .section import Section, Target, duration, spread, table

PERCENTILES = ["p50", "p99", "p99.9", "max"]

TEXT = """\
A cache of two million entries, half of which expire evenly within one second, while pairs of a reader and a writer
work on the other half (Zipf 0.99); and the same without expiry. Latencies in wall time, each from the end of one
operation to the end of the next, from the first deadline to 200 ms after the last. The reaper shares the CPUs, with
default options."""


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
            reached.append(_target(result, what, count, f"{operation}_p99.9"))
    drawn = chart.grouped_bars(
        "Mass expiry: p99.9", "logarithmic", list(series["calm"]), series, logarithmic=True, write=duration
    )
    return Section("MassExpiry", "Mass expiry", TEXT, [table(["", *PERCENTILES], rows)], reached, drawn)


def _target(result, what, count, counter):
    most = targets.MASS_EXPIRY[counter]
    ratios = result.ratios(f"MassExpiry/{count}/expiring/{counter}", f"MassExpiry/{count}/calm/{counter}")
    return Target(
        f"p99.9 of {what}, expiring to calm",
        f"at most {most:g}",
        targets.CALM,
        spread(ratios),
        statistics.median(ratios) <= most,
    )


def _pairs(count):
    return "1 pair" if count == "1" else f"{count} pairs"
