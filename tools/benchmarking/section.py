"""A section of the report, and the pieces it consists of."""

import dataclasses
import statistics

from . import chart


@dataclasses.dataclass
class Section:
    """Text and blocks are in Markdown; the text may be wrapped, the blocks are tables, lists and pictures."""

    title: str
    text: str
    blocks: list
    targets: list = dataclasses.field(default_factory=list)
    charts: dict = dataclasses.field(default_factory=dict)  # The SVG by the name of its file.


@dataclasses.dataclass
class Target:
    """A target, where it comes from, and what was measured.

    Targets that differ in one argument alone have the same name, and share a row: `case` says for which one this is.
    """

    what: str
    target: str
    origin: str
    measured: str
    reached: bool
    case: str = ""


def spread(figures):
    """Formats the median, with the minimum and the maximum in brackets."""
    middle = f"{statistics.median(figures):.2f}"
    return f"{middle} ({min(figures):.2f} to {max(figures):.2f})" if len(figures) > 1 else middle


def at_least(what, least, origin, figures, case="", limit="{:g}", write=spread):
    """A target for the median of figures; `limit` and `write` format both."""
    return Target(what, limit.format(least), origin, write(figures), statistics.median(figures) >= least, case)


def at_most(what, most, origin, figures, case="", limit="{:g}", write=spread):
    reached = statistics.median(figures) <= most
    return Target(what, f"at most {limit.format(most)}", origin, write(figures), reached, case)


def in_format(text):
    """Formats the median of figures, for the above."""
    return lambda figures: text.format(statistics.median(figures))


def unwrapped(text):
    return " ".join(text.split())


def picture(title, name):
    """Returns a line that shows a chart."""
    return f"![{title}](results/{name}.svg)"


def table(head, rows):
    """Returns a Markdown table: text in the first column, figures in the others."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def duration(nanos):
    """Formats a duration with three digits."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanos >= unit * 0.9995:
            return f"{float(f'{nanos / unit:.3g}'):g} {name}"
    return f"{nanos:.0f} ns"


def duration_chart(title, groups, series):
    """Returns the SVG of durations, {name: {group: nanoseconds}}."""
    return chart.draw(title, [chart.Bars("logarithmic", groups, series, logarithmic=True, write=duration)])
