"""The section on the cache lines that operations move between cores, by a model, which a busy machine does not disturb."""

import re

from . import chart
from .programs import Run
from .section import Section, at_most, in_format, picture, table

KEY = "lines"

CORES = [2, 4, 8, 16, 32, 64]
HITS = ["hit", "hit, a Set to nine"]
SETS = ["Set of a new key", "Set of a resident key"]

MOST, ORIGIN = 1 / 64, "issue: many cores"

TEXT = """\
Lines that an operation fetches from another core, counted by `tools/shared_lines --entries=1000000`: threads take
turns, and each access goes to a model of private caches. Values of 16 to 400 bytes, at a byte limit. A model of lines
has no time: it does not show what cores wait for that want a line at once, NUMA, or memory bandwidth.
[docs/scaling.md](../docs/scaling.md) says what is shared."""


def runs(suite):
    def count():
        return _values(suite.tool("shared_lines", "--entries=1000000", f"--cores={','.join(map(str, CORES))}"))

    yield Run("lines", count, once=True)


def _values(output):
    """Of each row: the cores, the operation, the lines by what they belong to, and two that stand in these as well."""
    values = {}
    for cores, operation, figures in re.findall(r"^ *(\d+)  (\S.*?)  +([\d. ]+)$", output, re.MULTILINE):
        *owners, used, common = map(float, figures.split())
        name = f"{operation}/{cores}"
        values |= {name: sum(owners), f"{name}/used": used, f"{name}/common": common}
    return values


def section(result):
    series = {operation: {f"{cores}": result.median(f"{operation}/{cores}") for cores in CORES} for operation in HITS + SETS}
    rows = [[operation, *(f"{value:.1f}" for value in of.values())] for operation, of in series.items()]
    groups = [f"{cores}" for cores in CORES]
    svg = chart.draw("Lines fetched from other cores", [chart.Bars("lines per operation", groups, series)])
    blocks = [picture("Lines", "lines"), table(["cores", *groups], rows)]
    return Section("Lines that move between cores", TEXT, blocks, list(_targets(result)), {"lines": svg})


def _targets(result):
    for operations, of, what in (
        (HITS, "used", "Lines that only hits had written, fetched on 64 cores; by"),
        (SETS, "common", "Lines that most cores write, fetched on 64 cores; by"),
    ):
        for operation in operations:
            measured = [result.median(f"{operation}/64/{of}")]
            yield at_most(what, MOST, ORIGIN, measured, operation, limit="{:.3f}", write=in_format("{:.3f}"))
