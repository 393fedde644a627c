"""The section on the eviction policies: hit ratios, which are the same in every run, and what they cost."""

import functools

from . import targets
from .programs import Run
from .section import Section, Target, spread, table

KEY = "policy"

PROGRAM = "cache_benchmark"

OURS = "scan_resistant"
LRU = "wheelcache"

THREADS = [1, 2]

# The columns of hit ratios.
POLICIES = {"lru": "LRU", OURS: "scan-resistant", "belady": "Belady's bound"}

ADVERSARIES = {
    "collisions": "a flood of keys that collide in the sketch",
    "scans": "scans that reset each hot key",
    "loop": "a loop that fits, between scans",
    "change": "an abrupt change of the keys",
    "change_that_fits": "a change to other keys that fit",
    "sessions": "sessions",
    "too_many_sessions": "more sessions than fit",
    "news": "news",
}

TITLE = "Eviction policies"

TEXT = """\
Read through without TTLs, one shard: hit ratios with the given numbers of entries."""

ADVERSARIES_TEXT = """\
Points that the scan-resistant policy gains against LRU in workloads made to defeat it, in a cache of 10,000 entries:"""


def runs(suite):
    made = [
        Run("policy/ratios", lambda: _numbers(suite.output("policy_figures")), once=True),
        Run("policy/memory", lambda: _measure_memory(suite), once=True),
    ]
    made += [Run(f"policy/SetNew/{threads}", functools.partial(_measure_sets, suite, threads)) for threads in THREADS]
    return made


def _numbers(output):
    return {name: float(value) for name, value in (line.split("\t") for line in output.splitlines())}


def _measure_memory(suite):
    values = {}
    for subject in (LRU, OURS):
        values |= _numbers(suite.output("memory_benchmark", f"per_entry/numbers/{subject}"))
    return values


def _measure_sets(suite, threads):
    """Measures both policies, interleaved."""
    benchmarks = {f"BM_SetNew<{subject}>/real_time/threads:{threads}": subject for subject in (LRU, OURS)}
    values = {}
    for benchmark, counters in suite.benchmark_in_pieces(PROGRAM, benchmarks).items():
        name = f"SetNew/{benchmarks[benchmark]}/{threads}"
        values[name] = counters["items_per_second"]
        values[f"stolen/{name}"] = counters["stolen"]
        values[f"shared/{name}"] = counters["shared"]
    return values


def section(result):
    rows, adversaries = _ratio_rows(result), _adversary_rows(result)
    text = f"{TEXT} {ADVERSARIES_TEXT} {'; '.join(adversaries)}." if adversaries else TEXT
    blocks = [table(["entries", *POLICIES.values()], rows)] if rows else []
    reached = [*_worst_loss(result), *_memory(result), *_sets(result)]
    return Section(TITLE, text, blocks, reached) if blocks or reached else None


def _sizes(result):
    """Returns {trace: numbers of entries}."""
    sizes = {}
    for name in result.names("policy/"):
        _, trace, entries, policy = name.split("/")
        if policy == "belady":
            sizes.setdefault(trace, []).append(entries)
    return sizes


def _ratio_rows(result):
    rows = []
    for trace, sizes in _sizes(result).items():
        cells = [
            ", ".join(f"{result.median(f'policy/{trace}/{entries}/{policy}'):.3f}" for entries in sizes)
            for policy in POLICIES
        ]
        rows.append([f"{trace}: {'; '.join(f'{int(entries):,}' for entries in sizes)}", *cells])
    return rows


def _gain(result, adversary):
    """In points."""
    ours, lru = (result.median(f"policy/adversary/{adversary}/{policy}") for policy in (OURS, "lru"))
    return 100 * (ours - lru)


def _measured_adversaries(result):
    return [adversary for adversary in ADVERSARIES if result.has(f"policy/adversary/{adversary}/lru")]


def _adversary_rows(result):
    return [f"{ADVERSARIES[adversary]} {_gain(result, adversary):+.1f}" for adversary in _measured_adversaries(result)]


def _worst_loss(result):
    gains = [_gain(result, adversary) for adversary in _measured_adversaries(result)]
    if not gains:
        return []
    most, origin = targets.POLICY_LOSS
    loss = max(0, -min(gains))
    what = "Scan-resistant policy, against adversaries: points below LRU"
    return [Target(what, f"at most {most}", origin, f"{loss:.1f}", loss <= most)]


def _memory(result):
    names = [f"per_entry/numbers/{subject}" for subject in (OURS, LRU)]
    if not all(map(result.has, names)):
        return []
    ours, lru = map(result.median, names)
    most, origin = targets.POLICY_BYTES
    what = "Scan-resistant policy: bytes per entry besides those with LRU"
    return [Target(what, f"at most {most}", origin, f"{ours - lru:.1f}", ours - lru <= most)]


def _sets(result):
    """The Sets of new keys into a full cache of a million entries, as a ratio to those with LRU."""
    made = []
    for threads in THREADS:
        ours, lru = (f"SetNew/{subject}/{threads}" for subject in (OURS, LRU))
        if not result.has(ours):
            continue
        least, origin = targets.POLICY_SETS
        what = "Scan-resistant policy: Set of new keys, ratio to LRU; threads"
        measured = spread(result.ratios(ours, lru))
        made.append(Target(what, f"{least}", origin, measured, result.ratio(ours, lru) >= least, str(threads)))
    return made
