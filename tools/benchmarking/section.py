"""A section of the report, and the pieces it consists of."""

import dataclasses
import statistics


@dataclasses.dataclass
class Target:
    """A target, where it comes from, and what was measured."""

    what: str
    target: str
    origin: str
    measured: str
    reached: bool

    def row(self):
        return [self.what, self.target, self.measured, "reached" if self.reached else "**missed**", self.origin]


TARGET_HEAD = ["", "target", "measured", "", "origin of the target"]


@dataclasses.dataclass
class Section:
    key: str  # Names the file of its chart.
    title: str
    text: str
    tables: list
    targets: list = dataclasses.field(default_factory=list)
    chart: str = ""

    def parts(self):
        """Returns its paragraphs and tables in Markdown, the chart below the text."""
        text = " ".join(self.text.split())
        return [f"## {self.title}\n{text}\\\n![{self.title}](results/{self.key}.svg)", *self.tables]


def table(head, rows):
    """Returns a Markdown table: text in the first column, figures in the others."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(ratios):
    """Formats the median, with the minimum and the maximum in brackets."""
    middle = f"{statistics.median(ratios):.2f}"
    return f"{middle} ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else middle


def duration(nanos):
    """Formats a duration with three digits."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanos >= unit * 0.9995:
            return f"{float(f'{nanos / unit:.3g}'):g} {name}"
    return f"{nanos:.0f} ns"
