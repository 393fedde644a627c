"""Writes RESULTS.md and its charts."""

import re
import statistics

from . import growth, mass_expiry, memory, storm, throughput, timing_wheel
from .measurements import MOST_SHARED, MOST_STOLEN, PIECES
from .section import BAR_HEAD, table

HEAD = """\
# Results

Written by `tools/benchmark`; compare figures of one run only. The caches hold a million entries, with keys of 21 bytes and
values of 64. The floor is an `absl::flat_hash_map` of strings on one thread, without lock, TTL, order and limit: what a
cache pays for memory alone. The subjects of a workload, on one number of threads, and the floor ran in turn, in pieces of
some 60 ms in random order. Figures are medians of {rounds} rounds, and ratios are medians of the ratios to the floor
beside which they were measured, with the lowest and the highest in brackets beside a bar.
"""


def text(result, remarks=None):
    """Returns the report in Markdown.

    `remarks` maps keys of sections to what is to be said of them, and "all" to what is to be said of the whole run.
    """
    remarks = remarks or {}
    sections = _sections(result)
    bars = [bar for section in sections for bar in section.bars]
    parts = [HEAD.format(rounds=result.rounds())]
    parts.append("\n".join(f"- {what}: {said}" for what, said in result.machine.items()))
    parts[-1] += _stolen(result) + _shared(result)
    parts.append(f"## {sum(bar.reached for bar in bars)} of {len(bars)} bars reached")
    parts += [table(BAR_HEAD, [bar.row() for bar in bars]), remarks.get("all", "")]
    for section in sections:
        parts += [f"## {section.title}", section.text, remarks.get(section.key, "")]
        parts.append(f"![{section.title}](results/{section.key}.svg)")
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def write(result, folder):
    """Writes the report beside `folder`, and the charts into it."""
    remarks = folder / "remarks.md"
    said = _parse_remarks(remarks.read_text()) if remarks.exists() else {}
    (folder.parent / "RESULTS.md").write_text(text(result, said))
    for section in _sections(result):
        (folder / f"{section.key}.svg").write_text(section.chart)


def _sections(result):
    topics = (throughput, mass_expiry, storm, growth, memory, timing_wheel)
    return [section for topic in topics for section in topic.sections(result)]


def _stolen(result):
    """Returns a line on what the machine was not given of its processors while it measured."""
    stolen = [value for name in result.names("stolen/") for value in result.values[name]]
    if not stolen:
        return ""
    return (
        f"\n- Processor time that the host gave to others: {statistics.median(stolen):.1%} of what a measurement asked for"
        f" in the median, {max(stolen):.1%} at most; what lost more than {MOST_STOLEN:.0%} was measured again as long as there was"
        f" time, and {sum(value > MOST_STOLEN for value in stolen)} of {len(stolen)} still lost more"
    )


def _shared(result):
    """Returns a line on how much others worked on the cores that it measured on."""
    shared = [value for name in result.names("shared/") for value in result.values[name]]
    if not shared:
        return ""
    return (
        f"\n- Time in which others worked on the same core: {statistics.median(shared):.0%} of that of a measurement of"
        f" throughput in the median, {max(shared):.0%} at most; of its {PIECES} pieces those count in which it was at most"
        f" {MOST_SHARED:.0%}, and where there were too few, it was taken again as long as there was time; in"
        f" {sum(value > MOST_SHARED for value in shared)} of {len(shared)} it still was more"
    )


def _parse_remarks(written):
    """Returns {heading: text} of a Markdown file."""
    parts = re.split(r"^## (.*)$", written, flags=re.MULTILINE)[1:]
    return {heading.strip(): said.strip() for heading, said in zip(parts[::2], parts[1::2])}
