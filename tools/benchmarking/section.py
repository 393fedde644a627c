"""A section of the report, and what it consists of."""

import dataclasses
import statistics


@dataclasses.dataclass
class Bar:
    """Something to reach, and what was measured."""

    what: str
    bar: str
    measured: str
    reached: bool

    def row(self):
        return [self.what, self.bar, self.measured, "reached" if self.reached else "**not reached**"]


BAR_HEAD = ["", "bar", "measured", ""]


@dataclasses.dataclass
class Section:
    key: str  # Names its remarks, and its chart.
    title: str
    text: str
    bars: list = dataclasses.field(default_factory=list)
    chart: str = ""


def table(head, rows):
    """Returns a table in Markdown, whose first column is text and whose others are figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(ratios):
    """Writes a median and between which values it lies."""
    middle = f"{statistics.median(ratios):.2f}"
    return f"{middle} ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else middle
