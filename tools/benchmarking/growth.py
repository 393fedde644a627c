"""The section on latencies while a cache grows."""

from . import chart
from .section import Section, duration, table

PERCENTILES = ["p50", "p99", "p99.9", "p99.99", "max"]

TEXT = """\
One thread Sets four million new keys in an empty cache limited to 1 GiB alone, whose index grows to an unknown final
size, and in a map without reserve(). Latencies of Set in wall time, each from the end of one Set to the end of the
next."""


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
    return [Section("Growth", "Growth", TEXT, [table(["Set", *PERCENTILES], rows)], [], picture)]
