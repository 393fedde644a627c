"""The section on resident memory."""

from . import bars, chart
from .measurements import FLOOR
from .section import Bar, Section, table

TYPES = {
    "numbers": "uint64 to uint64",
    "strings": "21 bytes to 64 bytes, strings",
}

TEXT = """\
Bytes of resident memory for each entry of a full cache of a million, after twice as many Sets, in a process that does
nothing else; keys, values and all that the cache and the allocator add to them."""


def sections(result):
    names = result.names("per_entry/")
    if not names:
        return []
    subjects = list(dict.fromkeys(name.split("/")[2] for name in names))
    subjects.sort(key=lambda subject: subject == FLOOR)  # Each other has the color of the other charts.
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
    drawn = chart.grouped_bars("Resident memory for each entry", "bytes", list(TYPES.values()), values)
    reached = [_per_entry(result, kind) for kind in TYPES] + _mixed_sizes(result)
    return [Section("memory", "Memory", f"{TEXT}\n\n{table(['', *TYPES.values()], rows)}", reached, drawn)]


def _per_entry(result, kind):
    measured = result.median(f"per_entry/{kind}/wheelcache")
    most = bars.PER_ENTRY[kind]
    return Bar(f"Bytes for an entry, {TYPES[kind]}", f"at most {most}", f"{measured:.1f}", measured <= most)


def _mixed_sizes(result):
    least, most = (result.median(f"mixed_sizes/wheelcache/{end}") for end in ("least", "most"))
    low, high = bars.MIXED_SIZES
    what = "Resident memory to max_bytes (256 MiB), during 10 million Sets of 16 B to 4 KiB"
    return [Bar(what, f"{low:.3f} to {high:.3f}", f"{least:.3f} to {most:.3f}", low <= least and most <= high)]
