"""The section on resident memory through histories."""

import ctypes.util
import functools

from . import chart, targets
from .programs import Run
from .section import Section, Target, picture, table

KEY = "histories"

HISTORIES = {
    "small_medium_small": "64 to 128 B, 8 to 16 KiB, small again",
    "small_large_small": "64 to 128 B, 64 to 512 KiB, small again",
    "kept_by_use": "64 to 128 B, every 64th kept by use, 16 KiB",
    "creep": "64 B to 18 KiB in 24 steps",
    "sawtooth": "100 B and 12 KiB alternate",
    "log_uniform": "16 B to 1 MiB, log-uniform",
    "threads": "64 to 128 B, 17 to 64 KiB, small again",
}

# Of a measurement that is no history: the figure, and the unit that it is shown in.
OTHERS = {
    "all_expire": ("part of the peak left after expiry", "left", 1),
    "clear": ("part of the peak left after Clear", "left", 1),
    "empty": ("an empty cache, kB", "resident", 1000),
}

OURS = "wheelcache"
ALLOCATORS = {"wheelcache_jemalloc": "jemalloc", "wheelcache_tcmalloc": "tcmalloc"}

# Of each of them, the name of the library and the Debian package that has it.
LIBRARIES = {"jemalloc": ("jemalloc", "libjemalloc2"), "tcmalloc": ("tcmalloc_minimal", "libtcmalloc-minimal4")}

PEER = "rocksdb_lru"
THREADS = ["1", "4"]

PANELS = 4

TITLE = "Resident memory through histories of sizes"

TEXT = """\
Values of the given sizes, up to three times max_bytes (256 MiB) in a phase, in a new process for each history: the
largest resident memory as a multiple of max_bytes, with malloc of glibc; for other allocators and RocksDB's LRUCache
the larger of 1 and 4 threads. A million entries, uint64 to uint64 or to strings, whichever keeps more: resident 2 s
after the last deadline or Clear. Bold figures break their limit. The chart shows the histories closest to it, or
farthest beyond."""


def runs(suite):
    if suite.with_peers:
        suite.install(*(package for _, package in LIBRARIES.values()))
    made = [Run("histories", lambda: _measure(suite, "--series"), once=True)]
    for allocator, (name, _) in LIBRARIES.items():
        if library := ctypes.util.find_library(name):
            measure = functools.partial(_measure_with, suite, allocator, library)
            made.append(Run(f"histories/{allocator}", measure, once=True))
    return made


def _measure(suite, *arguments, environment=None):
    lines = suite.output("memory_histories", *arguments, environment=environment).splitlines()
    values = {}
    for name, value in (line.split("\t") for line in lines):
        values[name] = list(map(float, value.split())) if name.endswith("/series") else float(value)
    return values


def _measure_with(suite, allocator, library):
    """Measures wheelcache alone, with another malloc."""
    values = _measure(suite, "wheelcache/", environment={"LD_PRELOAD": library})
    return {name.replace("/wheelcache/", f"/wheelcache_{allocator}/"): value for name, value in values.items()}


def section(result):
    histories = [history for history in HISTORIES if result.names(f"histories/{OURS}/{history}/")]
    others = [other for other in OTHERS if result.names(f"histories/{OURS}/{other}/")]
    if not histories and not others:
        return None
    subjects = [subject for subject in ALLOCATORS if result.names(f"histories/{subject}/")]
    peers = [PEER] if result.names(f"histories/{PEER}/") else []
    head = ["", "limit", "1 thread", "4 threads", *(ALLOCATORS[subject] for subject in subjects)]
    head += [*("RocksDB" for _ in peers), "thousand Sets/s, 1 and 4 threads"]
    rows = [_history_row(result, history, subjects + peers) for history in histories]
    rows += [_other_row(result, other, subjects, len(peers)) for other in others]
    charts = _charts(result, histories)
    pictures = [picture(TITLE, name) for name in charts]
    return Section(TITLE, TEXT, [*pictures, table(head, rows)], [_target(result)], charts)


class _Figure:
    """A measured figure and its limit, if it has one."""

    def __init__(self, result, name, figure, unit=1):
        self.value = result.median(f"{name}/{figure}") / unit
        limited = result.has(f"{name}/limit")
        self.limit = result.median(f"{name}/limit") / unit if limited else None

    def excess(self):
        return self.value / (self.limit or 1)

    def text(self):
        value = f"{self.value:.2f}" if self.value < 10 else f"{self.value:.0f}"
        return f"**{value}**" if self.limit and self.value > self.limit else value


def _figures(result, subject, measurement):
    """Returns the figures of a measurement: one for each number of threads, or for each type."""
    prefix = f"histories/{subject}/{measurement}/"
    figure, unit = OTHERS[measurement][1:] if measurement in OTHERS else ("worst", 1)
    if measurement == "empty":
        prefix += "500/"  # The mean of so many.
    names = [name.rpartition("/")[0] for name in result.names(prefix) if name.endswith(f"/{figure}")]
    return {name.split("/")[3]: _Figure(result, name, figure, unit) for name in names}


def _worst(figures):
    """Returns the one closest to its limit, or farthest beyond; None of none."""
    return max(figures.values(), key=_Figure.excess, default=None)


def _cells(figures):
    return [figure.text() if figure else "" for figure in figures]


def _history_row(result, history, others):
    ours = _figures(result, OURS, history)
    speeds = [f"histories/{OURS}/{history}/{threads}/sets_per_second" for threads in THREADS]
    return [
        HISTORIES[history],
        f"{_worst(ours).limit:.2f}",
        *_cells(ours.get(threads) for threads in THREADS),
        *_cells(_worst(_figures(result, subject, history)) for subject in others),
        ", ".join(f"{result.median(name) / 1e3:.0f}" for name in speeds if result.has(name)),
    ]


def _other_row(result, other, subjects, empty):
    worst = _worst(_figures(result, OURS, other))
    limit = f"{worst.limit:.2f}" if worst.limit < 10 else f"{worst.limit:.0f}"
    cells = _cells(_worst(_figures(result, subject, other)) for subject in subjects)
    return [OTHERS[other][0], limit, worst.text(), "", *cells, *[""] * empty, ""]


def _target(result):
    """Returns one target for all figures that have a limit."""
    figures = [
        figure
        for subject in [OURS, *ALLOCATORS]
        for measurement in [*HISTORIES, *OTHERS]
        for figure in _figures(result, subject, measurement).values()
    ]
    within = sum(figure.excess() <= 1 for figure in figures)
    what = "Figures of resident memory through histories within their limits"
    return Target(what, f"all {len(figures)}", targets.HISTORIES, f"{within}", within == len(figures))


def _charts(result, histories):
    """Draws the histories that come closest to their limits, under malloc of glibc."""
    worst = {history: _worst(_figures(result, OURS, history)) for history in histories}
    drawn = sorted(histories, key=lambda history: -worst[history].excess())[:PANELS]
    lines = {f"wheelcache, {'1 thread' if n == '1' else f'{n} threads'}": f"{OURS}/{{}}/{n}" for n in THREADS}
    lines["RocksDB LRUCache, 1 thread"] = f"{PEER}/{{}}/1"
    charts = {}
    for history in sorted(drawn, key=histories.index):
        series = {title: f"histories/{name.format(history)}" for title, name in lines.items()}
        present = {title: name for title, name in series.items() if result.has(f"{name}/series")}
        if not present:
            continue
        volumes = result.median(f"{next(iter(present.values()))}/volumes")
        values = {title: result.values[f"{name}/series"][-1] for title, name in present.items()}
        charts[HISTORIES[history]] = (values, volumes, worst[history].limit)
    if not charts:
        return {}
    unit = "resident memory by bytes Set, both as multiples of max_bytes"
    return {"Histories": chart.line_panels(TITLE, unit, charts, "limit")}
