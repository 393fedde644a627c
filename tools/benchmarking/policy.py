"""The section on the eviction policies: hit ratios, which are the same in every run, and what they cost."""

import functools

from .programs import Run, numbers
from .section import Section, at_least, at_most, in_format, table

KEY = "policy"

OURS, LRU = "scan_resistant", "wheelcache"
THREADS = [1, 2]

# The columns of hit ratios.
POLICIES = {"lru": "LRU", OURS: "scan-resistant", "belady": "Belady's bound"}

ADVERSARIES = {
    "collisions": "a flood of keys that collide",
    "scans": "scans that reset each hot key",
    "loop": "a loop that fits, between scans",
    "change": "an abrupt change of the keys",
    "change_that_fits": "a change to other keys that fit",
    "sessions": "sessions",
    "too_many_sessions": "more sessions than fit",
    "news": "news",
    "pairs": "pairs",
    "heated_then_loop": "a set that is heated, then a loop",
    "hot_set_dies": "a hot set that dies",
}

# Compared with LRU: points of hit ratio that an adversary may cost, bytes per entry, throughput of Sets of new keys.
MOST_LOSS, MOST_BYTES, LEAST_SETS = 2, 18, 0.75
ORIGIN = "issue: the scan-resistant policy"

TEXT = """\
Read through without TTLs, one shard: hit ratios with the given numbers of entries. Points that the scan-resistant policy gains against LRU in workloads made to defeat it, in a cache of
10,000 entries:"""


def runs(suite):
    memory = [f"per_entry/numbers/{subject}" for subject in (LRU, OURS)]
    yield Run("policy/ratios", lambda: numbers(suite.output("policy_figures")), once=True)
    yield Run("policy/memory", lambda: numbers("".join(suite.output("memory_benchmark", name) for name in memory)), True)
    for threads in THREADS:
        benchmarks = {f"BM_SetNew<{subject}>/real_time/threads:{threads}": f"SetNew/{subject}/{threads}"
                      for subject in (LRU, OURS)}  # fmt: skip
        yield Run(f"policy/SetNew/{threads}", functools.partial(suite.measure_interleaved, "cache_benchmark", benchmarks))


def section(result):
    gains = {}  # In points.
    for adversary, title in ADVERSARIES.items():
        ours, lru = (result.median(f"policy/adversary/{adversary}/{policy}") for policy in (OURS, "lru"))
        gains[title] = 100 * (ours - lru)
    gained = "; ".join(f"{title} {gain:+.1f}" for title, gain in gains.items())
    blocks = [table(["entries", *POLICIES.values()], _rows(result))]
    return Section("Eviction policies", f"{TEXT} {gained}.", blocks, list(_targets(result, gains)))


def _rows(result):
    sizes = {}  # {trace: numbers of entries}.
    for name in result.names("policy/"):
        _, trace, entries, policy = name.split("/")
        if policy == "belady":
            sizes.setdefault(trace, []).append(entries)
    for trace, entries in sizes.items():
        cells = [", ".join(f"{result.median(f'policy/{trace}/{count}/{policy}'):.3f}" for count in entries)
                 for policy in POLICIES]  # fmt: skip
        yield [f"{trace}: {'; '.join(f'{int(count):,}' for count in entries)}", *cells]


def _targets(result, gains):
    what = "Scan-resistant policy, against adversaries: points below LRU"
    yield at_most(what, MOST_LOSS, ORIGIN, [max(0, -min(gains.values()))], write=in_format("{:.1f}"))
    ours, lru = (result.median(f"per_entry/numbers/{subject}") for subject in (OURS, LRU))
    what = "Scan-resistant policy: bytes per entry besides those with LRU"
    yield at_most(what, MOST_BYTES, ORIGIN, [ours - lru], write=in_format("{:.1f}"))
    for threads in THREADS:
        ratios = result.ratios(*(f"SetNew/{subject}/{threads}" for subject in (OURS, LRU)))
        what = "Scan-resistant policy: Set of new keys, ratio to LRU; threads"
        yield at_least(what, LEAST_SETS, ORIGIN, ratios, f"{threads}")
