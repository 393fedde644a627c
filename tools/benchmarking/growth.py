"""The section on latencies while a cache grows."""

from . import chart
from .mass_expiry import duration
from .section import Section, table

PERCENTILES = ["p50", "p99", "p99.9", "p99.99", "max"]

TEXT = """\
One thread Sets four million new keys in an empty cache that is limited by bytes alone, to 1 GiB, so that its index grows
without knowing how large it will become; and in a map for which nothing was reserved. The lengths are those of Set, each
from the end of one to the end of the next, in real time."""


def sections(result):
    rows, drawn = [], {}
    for subject in ("wheelcache", "flat_hash_map"):
        if not result.has(f"Growth/{subject}/set_p50"):
            continue
        medians = [result.median(f"Growth/{subject}/set_{percentile}") for percentile in PERCENTILES]
        rows.append([f"`{subject}`", *map(duration, medians)])
        drawn[subject] = dict(zip(PERCENTILES, medians))
    if not rows:
        return []
    picture = chart.grouped_bars(
        "Set while the cache grows", "logarithmic", PERCENTILES, drawn, logarithmic=True, write=duration
    )
    return [Section("Growth", "Growth", f"{TEXT}\n\n{table(['Set', *PERCENTILES], rows)}", [], picture)]
