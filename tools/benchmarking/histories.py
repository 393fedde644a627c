"""The section on resident memory through histories."""

import ctypes.util
import functools

from . import chart
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
        suite.tool("install_packages", *(package for _, package in LIBRARIES.values()))
    yield Run("histories", functools.partial(_measure, suite, "--series"), once=True)
    for allocator, (name, _) in LIBRARIES.items():
        if library := ctypes.util.find_library(name):
            # wheelcache alone, with another malloc.
            measure = functools.partial(_measure, suite, "wheelcache/", LD_PRELOAD=library)
            yield Run(f"histories/{allocator}", functools.partial(_renamed, allocator, measure), once=True)


def _measure(suite, argument, **environment):
    lines = suite.output("memory_histories", argument, environment=environment).splitlines()
    values = {}
    for name, value in (line.split("\t") for line in lines):
        values[name] = list(map(float, value.split())) if name.endswith("/series") else float(value)
    return values


def _renamed(allocator, measure):
    return {name.replace("/wheelcache/", f"/wheelcache_{allocator}/"): value for name, value in measure().items()}


def section(result):
    subjects = [subject for subject in ALLOCATORS if result.names(f"histories/{subject}/")]
    peers = [PEER] if result.names(f"histories/{PEER}/") else []
    head = ["", "limit", "1 thread", "4 threads", *(ALLOCATORS[subject] for subject in subjects)]
    head += [*("RocksDB" for _ in peers), "thousand Sets/s, 1 and 4 threads"]
    rows = [_history_row(result, history, subjects + peers) for history in HISTORIES]
    rows += [_other_row(result, other, subjects, [""] * len(peers)) for other in OTHERS]
    blocks = [picture(TITLE, "Histories"), table(head, rows)]
    return Section(TITLE, TEXT, blocks, [_target(result)], {"Histories": _chart(result)})


class _Figure:
    """A measured figure and its limit, if it has one."""

    def __init__(self, result, name, figure, unit):
        self.value = result.median(f"{name}/{figure}") / unit
        self.limit = result.median(f"{name}/limit") / unit if result.has(f"{name}/limit") else None

    def excess(self):
        return self.value / (self.limit or 1)

    def text(self):
        return f"**{_short(self.value)}**" if self.limit and self.value > self.limit else _short(self.value)


def _short(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _figures(result, subject, measurement):
    """Returns the figures of a measurement: one for each number of threads, or for each type."""
    prefix = f"histories/{subject}/{measurement}/"
    _, figure, unit = OTHERS.get(measurement, ("", "worst", 1))
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


def _other_row(result, other, subjects, peers):
    worst = _worst(_figures(result, OURS, other))
    cells = _cells(_worst(_figures(result, subject, other)) for subject in subjects)
    return [OTHERS[other][0], _short(worst.limit), worst.text(), "", *cells, *peers, ""]


def _target(result):
    """Returns one target for all figures that have a limit."""
    figures = [
        figure
        for subject in [OURS, *ALLOCATORS]
        for measurement in [*HISTORIES, *OTHERS]
        for figure in _figures(result, subject, measurement).values()
    ]
    within = sum(figure.excess() <= 1 for figure in figures)
    what, origin = "Figures of resident memory through histories within their limits", "issue: limits of resident memory"
    return Target(what, f"all {len(figures)}", origin, f"{within}", within == len(figures))


def _chart(result):
    """Draws the histories that come closest to their limits, under malloc of glibc."""
    worst = {history: _worst(_figures(result, OURS, history)) for history in HISTORIES}
    drawn = sorted(HISTORIES, key=lambda history: -worst[history].excess())[:PANELS]
    lines = {f"wheelcache, {'1 thread' if n == '1' else f'{n} threads'}": f"{OURS}/{{}}/{n}" for n in THREADS}
    lines["RocksDB LRUCache, 1 thread"] = f"{PEER}/{{}}/1"
    unit = "resident memory by bytes Set, both as multiples of max_bytes"
    panels = []
    for history in filter(drawn.__contains__, HISTORIES):
        names = {title: f"histories/{name.format(history)}" for title, name in lines.items()}
        series = {title: result.values[f"{name}/series"][-1] for title, name in names.items()
                  if result.has(f"{name}/series")}  # fmt: skip
        length = next(result.median(f"{names[title]}/volumes") for title in series)
        panels.append(chart.Lines(unit, length, series, worst[history].limit, HISTORIES[history]))
    return chart.draw(TITLE, panels, "limit")
