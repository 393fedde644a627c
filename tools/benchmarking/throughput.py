"""The sections on operations per second."""

import statistics

from . import bars, chart
from .measurements import FLOOR
from .section import Bar, Section, spread, table

OURS = "wheelcache"
THREADS = [1, 2, 4, 8]

WORKLOADS = {
    "GetHit": (
        "Get, read in place",
        "All keys are resident, with a TTL of 60 s, and follow a Zipf distribution of 0.99. All 64 bytes of a value are"
        " read where they lie.",
    ),
    "GetHitCopy": ("Get, copied", "The same, but that each value is returned as a string of its own."),
    "Mixed": (
        "Nine Gets to a Set",
        "With a TTL of 30 s and a Zipf distribution of 0.99 over twice as many keys as fit, from the state of a cache that"
        " has been in use for long. A miss is followed by a Set. What has no limit starts with the same entries and grows.",
    ),
    "SetExisting": (
        "Set of resident keys",
        "With a TTL of 60 s, all keys equally popular. A new string takes the place of the old one;"
        " `flat_hash_map_overwriting` shows what a map gains that writes over it, as it can when nobody reads meanwhile.",
    ),
    "SetNew": (
        "Set of new keys",
        "Into a full cache, so that each evicts another entry. What keeps no order is told the oldest key, and erases it.",
    ),
}


def sections(result):
    return [_section(result, key) for key in WORKLOADS if _floors(result, key)]


def _section(result, key):
    title, text = WORKLOADS[key]
    subjects = list(dict.fromkeys(name.split("/")[1] for name in result.names(f"{key}/")))
    rows = [[f"`{subject}`", *(_cell(result, key, subject, threads) for threads in THREADS)] for subject in subjects]
    body = [text, table(["million operations a second (to the floor)", *map(_threads, THREADS)], rows)]
    if key == "Mixed":
        measured = [subject for subject in subjects if result.has(f"{key}/{subject}/1")]
        misses = [f"`{subject}` {result.median(f'{key}/{subject}/1/misses'):.1%}" for subject in measured]
        if misses:
            body.append(f"Missed on one thread: {', '.join(misses)}.")
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
    drawn = chart.grouped_bars(title, "operations a second", list(map(_threads, THREADS)), series, floor)
    return Section(key, title, "\n\n".join(body), _bars(result, key, title), drawn)


def _bars(result, key, title):
    reached = []
    for threads, bar in bars.THROUGHPUT.get(key, {}).items():
        name = f"{key}/{OURS}/{threads}"
        if result.has(name):
            ratios = result.ratios(name, _floor(key, threads))
            reached.append(
                Bar(f"{title}, {_threads(threads)}", f"{bar:.2f}", spread(ratios), statistics.median(ratios) >= bar)
            )
    return reached


def _floor(key, threads):
    """What those on so many threads are compared with, as it was measured in turn with them."""
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
