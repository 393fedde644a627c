"""The section on throughput, with the overview chart of all workloads."""

import functools
import re
import statistics

from . import chart, targets
from .measurements import FLOOR
from .programs import Run
from .section import Section, Target, spread, table

KEY = "throughput"

PROGRAM = "cache_benchmark"
BENCHMARK = re.compile(r"BM_(?P<workload>\w+)<(?P<subject>\w+)>/real_time/threads:(?P<threads>\d+)")

OURS = "wheelcache"
THREADS = [1, 2, 4, 8]

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
    "SetExisting": (
        "Set of resident keys",
        "TTL of 60 s, uniform keys. A new string replaces the old one.",
    ),
    "SetNew": (
        "Set of new keys",
        "The cache is full, so each Set evicts an entry.",
    ),
}

# The overview: fewer workloads and numbers of threads, and subjects by the names of their libraries.
OVERVIEW = {
    "GetHit": "Get, all hits",
    "Mixed": "9 Gets to 1 Set, with misses and evictions",
    "SetExisting": "Set of resident keys",
    "SetNew": "Set of new keys, each evicts",
}
OVERVIEW_THREADS = [1, 2, 8]
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
    for name in suite.list(PROGRAM):
        if match := BENCHMARK.fullmatch(name):
            groups.setdefault((match["workload"], match["threads"]), []).append(name)
    return [
        Run(f"{workload}/{threads}", functools.partial(_measure, suite, workload, threads, names))
        for (workload, threads), names in groups.items()
    ]


def _measure(suite, workload, threads, benchmarks):
    """Measures all subjects on `threads` threads, interleaved with the floor on one."""
    floor = f"BM_{workload}<{FLOOR}>/real_time/threads:1"
    values = {}
    for benchmark, counters in suite.benchmark_in_pieces(PROGRAM, dict.fromkeys([*benchmarks, floor])).items():
        names = [f"floor/{workload}/{threads}"] if benchmark == floor else []
        if benchmark in benchmarks:
            names.append(f"{workload}/{BENCHMARK.fullmatch(benchmark)['subject']}/{threads}")
        values.update(dict.fromkeys(names, counters["items_per_second"]))
        values[f"{names[-1]}/misses"] = counters["miss_ratio"]
        values[f"stolen/{names[-1]}"] = counters["stolen"]
        values[f"shared/{names[-1]}"] = counters["shared"]
    return values


def section(result):
    workloads = [key for key in WORKLOADS if _floors(result, key)]
    if not workloads:
        return None
    names = [name.split("/") for key in workloads for name in result.names(f"{key}/")]
    subjects = list(dict.fromkeys(name[1] for name in names))
    heads = [WORKLOADS[key][0] for key in workloads]
    others = [subject for subject in subjects if subject != FLOOR]

    def rows(cell, shown):
        return [[f"`{subject}`", *(_cell(result, key, subject, cell) for key in workloads)] for subject in shown]

    charts = {key: _chart(result, key) for key in workloads}
    if overview := _overview(result):
        charts["overview"] = overview
    return Section(
        "Throughput",
        TEXT,
        [
            "\n".join(_described(result, key) for key in workloads),
            table(["million operations per second", *heads], rows(_rate, subjects)),
            table(["ratio to the floor", *heads], rows(_ratio, others)),
        ],
        [target for key in workloads for target in _targets(result, key)],
        charts,
    )


def _overview(result):
    """Returns a chart of wheelcache and its peers in each workload, or nothing where none was measured."""
    charts = {}
    for key, title in OVERVIEW.items():
        if not _floors(result, key):
            continue
        series = {
            library: {
                _threads(threads): result.median(f"{key}/{subject}/{threads}")
                for threads in OVERVIEW_THREADS
                if result.has(f"{key}/{subject}/{threads}")
            }
            for subject, library in LIBRARIES.items()
            if result.names(f"{key}/{subject}/")
        }
        charts[title] = (series, result.median(_floors(result, key)[0]))
    if not charts:
        return None
    return chart.panels(
        f"Throughput: a million entries, 21-byte keys, 64-byte values; {_cpu(result)}",
        "operations per second",
        [_threads(threads) for threads in OVERVIEW_THREADS],
        charts,
        "absl::flat_hash_map without a lock, one thread",
    )


def _cpu(result):
    """Returns the name of the CPU and its number of cores, without the sizes of its caches."""
    return ", ".join(result.machine["Processor"].split(", ")[:2])


def _described(result, key):
    """Returns the item of a workload in the list of them."""
    title, text = WORKLOADS[key]
    if key == "Mixed":
        subjects = [name.split("/")[1] for name in result.names(f"{key}/") if name.endswith("/1/misses")]
        misses = [f"`{subject}` {result.median(f'{key}/{subject}/1/misses'):.1%}" for subject in subjects]
        text += f" Misses on one thread: {', '.join(misses)}." if misses else ""
    return f"- {title} ([chart](results/{key}.svg)): {text}"


def _chart(result, key):
    subjects = list(dict.fromkeys(name.split("/")[1] for name in result.names(f"{key}/")))
    series = {
        subject: {
            _threads(threads): result.median(f"{key}/{subject}/{threads}")
            for threads in THREADS
            if result.has(f"{key}/{subject}/{threads}")
        }
        for subject in subjects
        if subject != FLOOR
    }
    floor = (f"{FLOOR}, one thread", result.median(_floors(result, key)[0]))
    return chart.grouped_bars(WORKLOADS[key][0], "operations per second", list(map(_threads, THREADS)), series, floor)


def _targets(result, key):
    reached = []
    for threads, least in targets.THROUGHPUT.get(key, {}).items():
        name = f"{key}/{OURS}/{threads}"
        if result.has(name):
            ratios = result.ratios(name, _floor(key, threads))
            what = f"{WORKLOADS[key][0]}; threads"
            enough = statistics.median(ratios) >= least
            reached.append(Target(what, f"{least:.2f}", targets.FLOOR, spread(ratios), enough, f"{threads}"))
    return reached


def _floor(key, threads):
    """Names the measurement of the floor that was interleaved with the subjects on so many threads."""
    return f"floor/{key}/{threads}"


def _floors(result, key):
    return [_floor(key, threads) for threads in THREADS if result.has(_floor(key, threads))]


def _cell(result, key, subject, cell):
    """Returns the figures of a subject, one for each number of threads that anything was measured on."""
    measured = [threads for threads in THREADS if result.has(f"{key}/{subject}/{threads}")]
    return ", ".join(cell(result, f"{key}/{subject}/{threads}", _floor(key, threads)) for threads in measured)


def _rate(result, name, _):
    return f"{result.median(name) / 1e6:#.3g}"


def _ratio(result, name, floor):
    return f"{result.ratio(name, floor):.2f}"


def _threads(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"
