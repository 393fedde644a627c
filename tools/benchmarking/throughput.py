"""The sections on throughput, and the overview chart of all of them."""

import statistics

from . import chart, targets
from .measurements import FLOOR
from .section import Section, Target, spread, table

OURS = "wheelcache"
THREADS = [1, 2, 4, 8]

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
        " each miss. Subjects without a limit start with the same entries and grow.",
    ),
    "SetExisting": (
        "Set of resident keys",
        "TTL of 60 s, uniform keys. A new string replaces the old one; `flat_hash_map_overwriting` overwrites it in"
        " place, which is safe on one thread alone.",
    ),
    "SetNew": (
        "Set of new keys",
        "The cache is full, so each Set evicts an entry. Subjects without an order are told the oldest key, and erase"
        " it.",
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


def sections(result):
    return [_section(result, key) for key in WORKLOADS if _floors(result, key)]


def overview(result):
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


def _section(result, key):
    title, text = WORKLOADS[key]
    subjects = list(dict.fromkeys(name.split("/")[1] for name in result.names(f"{key}/")))
    rows = [[f"`{subject}`", *(_cell(result, key, subject, threads) for threads in THREADS)] for subject in subjects]
    figures = table(["million operations per second (ratio to the floor)", *map(_threads, THREADS)], rows)
    if key == "Mixed":
        measured = [subject for subject in subjects if result.has(f"{key}/{subject}/1")]
        misses = [f"`{subject}` {result.median(f'{key}/{subject}/1/misses'):.1%}" for subject in measured]
        if misses:
            text += f" Misses on one thread: {', '.join(misses)}."
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
    drawn = chart.grouped_bars(title, "operations per second", list(map(_threads, THREADS)), series, floor)
    return Section(key, title, text, [figures], _targets(result, key, title), drawn)


def _targets(result, key, title):
    reached = []
    for threads, least in targets.THROUGHPUT.get(key, {}).items():
        name = f"{key}/{OURS}/{threads}"
        if result.has(name):
            ratios = result.ratios(name, _floor(key, threads))
            what = f"{title}, {_threads(threads)}"
            enough = statistics.median(ratios) >= least
            reached.append(Target(what, f"{least:.2f}", targets.FLOOR, spread(ratios), enough))
    return reached


def _floor(key, threads):
    """Names the measurement of the floor that was interleaved with the subjects on so many threads."""
    return f"floor/{key}/{threads}"


def _floors(result, key):
    return [_floor(key, threads) for threads in THREADS if result.has(_floor(key, threads))]


def _cell(result, key, subject, threads):
    name = f"{key}/{subject}/{threads}"
    if not result.has(name):
        return ""
    return f"{result.median(name) / 1e6:.2f} ({result.ratio(name, _floor(key, threads)):.2f})"


def _threads(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"
