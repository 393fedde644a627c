"""The section on latencies during storms."""

from . import chart
from .mass_expiry import PERCENTILES, duration
from .section import Section, table

STORMS = {
    "calm": "calm",
    "one_tick": "a million deadlines in one tick",
    "touches": "a million Touches",
    "new_keys": "a million Sets of new keys, 2 threads",
}

TEXT = """\
A cache of two million entries. One thread reads one half of them (Zipf 0.99) while nothing else happens, while the other
half expires in one tick, while another thread gives each of the other half a new TTL, and while two threads Set new keys
at the limit, each of which evicts. The lengths are those of Get, each from the end of one to the end of the next, in real
time; the threads of the storm and the reaper's have the same processors."""


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
    return [Section("Storm", "Storms", f"{TEXT}\n\n{table(['Get', *PERCENTILES], rows)}", [], picture)]
