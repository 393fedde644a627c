"""The section on latencies during storms."""

from . import chart
from .section import Section, duration, table

PERCENTILES = ["p50", "p99", "p99.9", "max"]

STORMS = {
    "calm": "calm",
    "one_tick": "a million deadlines in one tick",
    "touches": "a million Touches",
    "new_keys": "a million Sets of new keys, 2 threads",
}

TEXT = """\
A cache of two million entries. One thread reads one half (Zipf 0.99) while the other half is left alone, expires in
one tick, gets new TTLs from another thread, or is evicted by two threads that Set new keys at the limit. Latencies
of Get in wall time, each from the end of one Get to the end of the next; the threads of the storm and the reaper
share the CPUs."""


def sections(result):
    storms = [storm for storm in STORMS if result.has(f"Storm/{storm}/get_p50")]
    if not storms:
        return []
    rows, drawn = [], {}
    for storm in storms:
        medians = [result.median(f"Storm/{storm}/get_{percentile}") for percentile in PERCENTILES]
        rows.append([STORMS[storm], *map(duration, medians)])
        drawn[STORMS[storm]] = dict(zip(PERCENTILES, medians))
    picture = chart.grouped_bars(
        "Get during storms", "logarithmic", PERCENTILES, drawn, logarithmic=True, write=duration
    )
    return [Section("Storm", "Storms", TEXT, [table(["Get", *PERCENTILES], rows)], [], picture)]
