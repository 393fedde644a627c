"""The section on resident memory."""

from . import chart
from .measurements import FLOOR
from .programs import Run, numbers
from .section import Section, Target, at_most, in_format, picture, table

KEY = "memory"

TYPES = {
    "numbers": "uint64 to uint64",
    "strings": "21-byte to 64-byte strings",
}

# The most bytes per entry, everything included, and the origin of the target.
PER_ENTRY = {
    "numbers": (64, "project: bytes per entry"),
    "strings": (150, "prototype: 137 bytes, plus slack"),
}

# Resident memory as a ratio to the limit of 256 MiB: within 10 % and 1 MiB of it.
MIXED_SIZES = (0.9 - 1 / 256, 1.1 + 1 / 256)

TEXT = """\
Resident bytes per entry of a full cache of a million entries after two million Sets, in a process of its own. They
include keys, values, and the overhead of the cache and the allocator."""


def runs(suite):
    yield Run("memory", lambda: numbers(suite.output("memory_benchmark")), once=True)


def section(result):
    subjects = result.parts("per_entry/", 2)
    subjects.sort(key=lambda subject: subject == FLOOR)  # Last, so that the others have the colors of the other charts.
    series = {
        subject: result.medians({title: f"per_entry/{kind}/{subject}" for kind, title in TYPES.items()})
        for subject in subjects
    }
    rows = [
        [f"`{subject}`", *(f"{of[title]:.1f}" if title in of else "" for title in TYPES.values())]
        for subject, of in series.items()
    ]
    svg = chart.draw("Resident memory per entry", [chart.Bars("bytes", list(TYPES.values()), series)])
    blocks = [picture("Memory", "memory"), table(["", *TYPES.values()], rows)]
    return Section("Memory", TEXT, blocks, list(_targets(result)), {"memory": svg})


def _targets(result):
    for kind, (most, origin) in PER_ENTRY.items():
        measured = [result.median(f"per_entry/{kind}/wheelcache")]
        yield at_most(f"Bytes per entry, {TYPES[kind]}", most, origin, measured, write=in_format("{:.1f}"))
    least, most = (result.median(f"mixed_sizes/wheelcache/{end}") for end in ("least", "most"))
    low, high = MIXED_SIZES
    what = "Resident memory to max_bytes (256 MiB), 10 million Sets of 16 B to 4 KiB"
    origin = "promise: max_bytes, with 10 % + 1 MiB of slack"
    reached = low <= least and most <= high
    yield Target(what, f"{low:.3f} to {high:.3f}", origin, f"{least:.3f} to {most:.3f}", reached)
