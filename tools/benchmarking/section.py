"""A section of the report, and the pieces it consists of."""

import dataclasses
import itertools
import statistics


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

    def outcome(self):
        return "reached" if self.reached else "**missed**"


def target_table(targets):
    """Returns the table of all targets."""
    groups = itertools.groupby(targets, lambda target: (target.what, target.origin))
    return table(["", "target", "measured", "", "origin of the target"], [_row(list(group)) for _, group in groups])


def _row(targets):
    first = targets[0]
    outcomes = [target.outcome() for target in targets]
    return [
        first.what + (f": {', '.join(target.case for target in targets)}" if first.case else ""),
        "; ".join(target.target for target in targets),
        "; ".join(target.measured for target in targets),
        outcomes[0] if len(set(outcomes)) == 1 else "; ".join(outcomes),
        first.origin,
    ]


@dataclasses.dataclass
class Section:
    """Text and blocks are in Markdown; the text may be wrapped, the blocks are tables, lists and pictures."""

    title: str
    text: str
    blocks: list
    targets: list = dataclasses.field(default_factory=list)
    charts: dict = dataclasses.field(default_factory=dict)  # The SVG by the name of its file.

    def parts(self):
        return [f"## {self.title}\n{unwrapped(self.text)}", *self.blocks]


def unwrapped(text):
    return " ".join(text.split())


def picture(title, name):
    """Returns a line that shows a chart."""
    return f"![{title}](results/{name}.svg)"


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
