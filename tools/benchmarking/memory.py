"""The section on resident memory."""

from . import chart, targets
from .measurements import FLOOR
from .programs import Run
from .section import Section, Target, picture, table

KEY = "memory"

TYPES = {
    "numbers": "uint64 to uint64",
    "strings": "21-byte to 64-byte strings",
}

TEXT = """\
Resident bytes per entry of a full cache of a million entries after two million Sets, in a process of its own. They
include keys, values, and the overhead of the cache and the allocator."""


def runs(suite):
    return [Run("memory", lambda: _measure(suite), once=True)]


def _measure(suite):
    lines = suite.output("memory_benchmark").splitlines()
    return {name: float(value) for name, value in (line.split("\t") for line in lines)}


def section(result):
    names = result.names("per_entry/")
    if not names:
        return None
    subjects = list(dict.fromkeys(name.split("/")[2] for name in names))
    subjects.sort(key=lambda subject: subject == FLOOR)  # Last, so that the others have the colors of the other charts.
    values = {
        subject: {
            title: result.median(f"per_entry/{kind}/{subject}")
            for kind, title in TYPES.items()
            if result.has(f"per_entry/{kind}/{subject}")
        }
        for subject in subjects
    }
    rows = [
        [f"`{subject}`", *(f"{of[title]:.1f}" if title in of else "" for title in TYPES.values())]
        for subject, of in values.items()
    ]
    drawn = chart.grouped_bars("Resident memory per entry", "bytes", list(TYPES.values()), values)
    reached = [_per_entry(result, kind) for kind in TYPES] + _mixed_sizes(result)
    blocks = [picture("Memory", "memory"), table(["", *TYPES.values()], rows)]
    return Section("Memory", TEXT, blocks, reached, {"memory": drawn})


def _per_entry(result, kind):
    measured = result.median(f"per_entry/{kind}/wheelcache")
    most, origin = targets.PER_ENTRY[kind]
    return Target(f"Bytes per entry, {TYPES[kind]}", f"at most {most}", origin, f"{measured:.1f}", measured <= most)


def _mixed_sizes(result):
    least, most = (result.median(f"mixed_sizes/wheelcache/{end}") for end in ("least", "most"))
    low, high = targets.MIXED_SIZES
    what = "Resident memory to max_bytes (256 MiB), 10 million Sets of 16 B to 4 KiB"
    measured = f"{least:.3f} to {most:.3f}"
    return [Target(what, f"{low:.3f} to {high:.3f}", targets.LIMIT, measured, low <= least and most <= high)]
