"""The section on throughput, with the overview chart of all workloads."""

import functools
import re

from . import chart
from .measurements import FLOOR
from .programs import Run
from .section import Section, at_least, table

KEY = "throughput"

PROGRAM = "cache_benchmark"
BENCHMARK = re.compile(r"BM_(?P<workload>\w+)<(?P<subject>\w+)>/real_time/threads:(?P<threads>\d+)")

THREADS = {threads: "1 thread" if threads == 1 else f"{threads} threads" for threads in (1, 2, 4, 8)}

TEXT = """\
Of the subjects, those without a limit grow, and those without an order are told the oldest key, and erase it;
`flat_hash_map_overwriting` overwrites a value in place, which is safe on one thread alone. Figures on 1, 2, 4 and 8
threads: first million operations per second, then the ratio to the floor."""

WORKLOADS = {
    "GetHit": (
        "Get, read in place",
        "All keys are resident with a TTL of 60 s; accesses follow a Zipf distribution of 0.99. Each Get reads all 64"
        " bytes of the value in place.",
    ),
    "GetHitCopy": ("Get, copied", "The same, but each Get returns the value as a new string."),
    "Mixed": (
        "Nine Gets to a Set",
        "TTL of 30 s, Zipf 0.99 over twice as many keys as fit, from the state of a cache in long use. A Set follows"
        " each miss.",
    ),
    "SetExisting": ("Set of resident keys", "TTL of 60 s, uniform keys. A new string replaces the old one."),
    "SetNew": ("Set of new keys", "The cache is full, so each Set evicts an entry."),
}

# Operations per second by number of threads, as a ratio to the floor on one thread.
TARGETS = {
    "GetHit": {1: 1.0, 2: 2.0, 8: 2.0},
    "Mixed": {1: 1.0, 2: 1.7, 8: 1.7},
    "SetExisting": {1: 0.95, 2: 1.9, 8: 1.9},
    "SetNew": {1: 1.35, 2: 1.7, 8: 1.75},
}

# The overview: fewer workloads and numbers of threads, and subjects by the names of their libraries.
OVERVIEW = {
    "GetHit": "Get, all hits",
    "Mixed": "9 Gets to 1 Set, with misses and evictions",
    "SetExisting": "Set of resident keys",
    "SetNew": "Set of new keys, each evicts",
}
LIBRARIES = {
    "wheelcache": "wheelcache",
    "sharded_mutex": "hash map + LRU list, 16 mutexes",
    "rocksdb_hyper_clock": "RocksDB HyperClockCache",
    "rocksdb_lru": "RocksDB LRUCache",
    "leveldb_lru": "LevelDB LRU cache",
    "tbb_concurrent_hash_map": "oneTBB concurrent_hash_map",
}


def runs(suite):
    """Returns a run for each workload and number of threads."""
    groups = {}
    for benchmark in suite.list(PROGRAM):
        if (match := BENCHMARK.fullmatch(benchmark)) and int(match["threads"]) in THREADS:
            name = f"{match['workload']}/{match['subject']}/{match['threads']}"
            groups.setdefault((match["workload"], match["threads"]), {})[benchmark] = name
    return [Run(f"{workload}/{threads}", functools.partial(_measure, suite, workload, threads, benchmarks))
            for (workload, threads), benchmarks in groups.items()]  # fmt: skip


def _measure(suite, workload, threads, benchmarks):
    """Measures all subjects on `threads` threads, interleaved with the floor on one."""
    floor = f"BM_{workload}<{FLOOR}>/real_time/threads:1"
    name = f"floor/{workload}/{threads}"
    values = suite.measure_interleaved(PROGRAM, {floor: name, **benchmarks})
    return {name: values[benchmarks[floor]], **values} if floor in benchmarks else values


def section(result):
    heads = [title for title, _ in WORKLOADS.values()]
    subjects = list(dict.fromkeys(subject for key in WORKLOADS for subject in result.parts(f"{key}/", 1)))

    def rows(shown, write):
        return [[f"`{subject}`", *(_cell(result, key, subject, write) for key in WORKLOADS)] for subject in shown]

    rates = rows(subjects, lambda name, _: f"{result.median(name) / 1e6:#.3g}")
    ratios = rows([subject for subject in subjects if subject != FLOOR], lambda *names: f"{result.ratio(*names):.2f}")
    return Section(
        "Throughput",
        TEXT,
        [
            "\n".join(_described(result, key) for key in WORKLOADS),
            table(["million operations per second", *heads], rates),
            table(["ratio to the floor", *heads], ratios),
        ],
        [target for key in WORKLOADS for target in _targets(result, key)],
        {key: _chart(result, key) for key in WORKLOADS},
    )


def _described(result, key):
    """Returns the item of a workload in the list of them."""
    title, text = WORKLOADS[key]
    if key == "Mixed":
        names = {name.split("/")[1]: name for name in result.names(f"{key}/") if name.endswith("/1/misses")}
        misses = [f"`{subject}` {share:.1%}" for subject, share in result.medians(names).items()]
        text += f" Misses on one thread: {', '.join(misses)}." if misses else ""
    return f"- {title} ([chart](results/{key}.svg)): {text}"


def _bars(result, key, subjects, threads):
    """Returns {title: {number of threads: operations per second}} of {subject: title}."""
    return {
        title: result.medians({THREADS[count]: f"{key}/{subject}/{count}" for count in threads})
        for subject, title in subjects.items()
    }


def _chart(result, key):
    subjects = {subject: subject for subject in result.parts(f"{key}/", 1) if subject != FLOOR}
    series = _bars(result, key, subjects, THREADS)
    bars = chart.Bars("operations per second", list(THREADS.values()), series, result.median(f"floor/{key}/1"))
    return chart.draw(WORKLOADS[key][0], [bars], f"{FLOOR}, one thread")


def overview(result, memory):
    """Returns a chart of wheelcache and its peers in each workload, and of their memory."""
    threads = [1, 2, 8]
    panels = []
    for key, heading in OVERVIEW.items():
        measured = {subject: library for subject, library in LIBRARIES.items() if result.names(f"{key}/{subject}/")}
        groups, series = [THREADS[count] for count in threads], _bars(result, key, measured, threads)
        panels.append(chart.Bars("operations per second", groups, series, result.median(f"floor/{key}/1"), heading,
                                 labelled=["wheelcache"]))  # fmt: skip
    group = "a full cache, everything included"
    series = {library: memory.medians({group: f"per_entry/strings/{subject}"})
              for subject, library in LIBRARIES.items()}  # fmt: skip
    floor = memory.median(f"per_entry/strings/{FLOOR}")
    panels.append(chart.Bars("resident bytes per entry", [group], series, floor, "Memory"))
    cpu, cores = re.match(r"(.*?)(?: \(.*\))?, (\d+ cores)", result.machine["Processor"]).groups()
    title = f"{cores}, {cpu}: throughput and memory; a million entries, 21-byte keys, 64-byte values"
    return chart.draw(title, panels, "absl::flat_hash_map without a lock, one thread")


def _targets(result, key):
    for threads, least in TARGETS.get(key, {}).items():
        ratios = result.ratios(f"{key}/wheelcache/{threads}", f"floor/{key}/{threads}")
        what = f"{WORKLOADS[key][0]}; threads"
        yield at_least(what, least, "issue: ratio to the floor", ratios, f"{threads}", "{:.2f}")


def _cell(result, key, subject, write):
    """Returns the figures of a subject, one for each number of threads that it was measured on."""
    names = [(f"{key}/{subject}/{threads}", f"floor/{key}/{threads}") for threads in THREADS]
    return ", ".join(write(*pair) for pair in names if result.has(*pair))
