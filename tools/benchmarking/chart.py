"""Draws charts of bars and of lines as self-contained SVG files, readable on light and dark backgrounds."""

import dataclasses
import html
import math

# All of medium lightness, which is what makes them readable on both backgrounds. The first one is wheelcache's.
COLORS = ["#2f81f7", "#8b949e", "#d29922", "#a371f7", "#3fb950", "#db61a2", "#e5534b", "#39a0a0"]
TEXT = "#7d8590"

WIDTH = 860
HEIGHT = 376
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 92, 36
PANELS_TOP = 72  # Below the legend.
PANEL_HEIGHT = 242  # Of a row of panels: 40 for a title above the plot, 36 for group names below it.
GAP = 8  # Between the right edge of a plot and the axis labels of the next panel.
LETTER = 6.8  # Average width of a letter in the default fonts of browsers.


def short(value):
    """Formats a number with three digits, and a letter for thousands, millions and billions."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{float(f'{value / factor:.3g}'):g}{letter}"
    return f"{value:.3g}"


@dataclasses.dataclass
class Bars:
    """Groups of bars: `series` is {name: {group: value}}, where a missing value leaves a gap."""

    unit: str
    groups: list
    series: dict
    line: float = None  # Of a dashed line across the plot.
    heading: str = ""
    logarithmic: bool = False
    write: object = short  # Formats a value.
    labelled: list = None  # The series whose bars have their value; without it, bars that are wide enough.

    def values(self):
        return [value for bars in self.series.values() for value in bars.values()]

    def draw(self, plot, names):
        group_width = (plot.right - plot.left) / len(self.groups)
        for g, group in enumerate(self.groups):
            present = [name for name in names if group in self.series.get(name, {})]
            width = min(44, group_width * 0.84 / max(1, len(present)))
            middle = plot.left + group_width * (g + 0.5)
            x = middle - width * len(present) / 2
            yield f'<text x="{middle:.1f}" y="{plot.bottom + 20}" text-anchor="middle">{html.escape(group)}</text>'
            for name in present:
                value = self.series[name][group]
                y = plot.y(value)
                color, height = COLORS[names.index(name)], plot.bottom - y
                yield f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{color}"/>'
                if (width >= LETTER * 5) if self.labelled is None else (name in self.labelled):
                    at = f'x="{x + width / 2:.1f}" y="{y - 4:.1f}"'
                    yield f'<text {at} text-anchor="middle" font-size="10">{self.write(value)}</text>'
                x += width


@dataclasses.dataclass
class Lines:
    """Lines over a horizontal axis from 0 to `length`: `series` is {name: values at equal distances}."""

    unit: str
    length: float
    series: dict
    line: float = None
    heading: str = ""
    logarithmic: bool = False
    write: object = short

    def values(self):
        return [value for values in self.series.values() for value in values]

    def draw(self, plot, names):
        step = _round_step(self.length / 6)
        for i in range(math.floor(self.length / step) + 1):
            x = plot.left + (plot.right - plot.left) * step * i / self.length
            yield f'<text x="{x:.1f}" y="{plot.bottom + 20}" text-anchor="middle">{short(step * i)}</text>'
        for name, values in self.series.items():
            step = (plot.right - plot.left) / len(values)
            points = " ".join(f"{plot.left + step * (i + 0.5):.1f},{plot.y(value):.1f}" for i, value in enumerate(values))
            yield f'<polyline points="{points}" fill="none" stroke="{COLORS[names.index(name)]}" stroke-width="1.5"/>'


class _Plot:
    """The rectangle that bars or lines are drawn in, with its vertical axis: from 0, or over powers of ten."""

    def __init__(self, left, right, top, bottom, values, logarithmic):
        self.left, self.right, self.top, self.bottom = left, right, top, bottom
        self._logarithmic = logarithmic
        if logarithmic:
            self._low = math.floor(math.log10(min(values)))
            self._high = math.ceil(math.log10(max(values)))
            self.ticks = [10**exponent for exponent in range(self._low, self._high + 1)]
        else:
            step = _round_step(max(values) / 5)
            self._high = step * math.ceil(max(values) * 1.02 / step)
            self.ticks = [step * i for i in range(round(self._high / step) + 1)]

    def y(self, value):
        if self._logarithmic:
            part = (math.log10(value) - self._low) / (self._high - self._low)
        else:
            part = value / self._high
        return self.bottom - (self.bottom - self.top) * part


def _round_step(at_least):
    """Returns the next number of the form 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(at_least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= at_least)


def draw(title, charts, line_name=None):
    """Returns the SVG of one chart, or of several, two in a row, with one legend and an axis each."""
    names = list(dict.fromkeys(name for chart in charts for name in chart.series))
    parts = list(_legend(names, line_name))
    for number, chart in enumerate(charts):
        parts += _panel(chart, names, _area(number, len(charts)))
    height = HEIGHT if len(charts) == 1 else PANELS_TOP + PANEL_HEIGHT * math.ceil(len(charts) / 2)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="600">{html.escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _area(number, count):
    """Returns left, right, top and bottom of the plot of a chart by its number."""
    if count == 1:
        return LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM
    width = (WIDTH - RIGHT + GAP) / 2
    row, column = divmod(number, 2)
    left, top = LEFT + column * width, PANELS_TOP + row * PANEL_HEIGHT + 40
    return left, left + width - LEFT - GAP, top, top + PANEL_HEIGHT - 76


def _panel(chart, names, area):
    limit = [] if chart.line is None else [chart.line]
    plot = _Plot(*area, [*chart.values(), *limit], chart.logarithmic)
    if chart.heading:
        yield f'<text x="{plot.left:g}" y="{plot.top - 26}" font-size="13" font-weight="600">{html.escape(chart.heading)}</text>'
    yield f'<text x="{plot.left:.0f}" y="{plot.top - 12}" font-size="11">{html.escape(chart.unit)}</text>'
    for tick in plot.ticks:
        y = plot.y(tick)
        yield f'<path d="M{plot.left:.0f} {y:.1f}H{plot.right:.0f}" stroke="{TEXT}" stroke-opacity=".25"/>'
        yield f'<text x="{plot.left - 8:.0f}" y="{y + 4:.1f}" text-anchor="end">{chart.write(tick)}</text>'
    yield from chart.draw(plot, names)
    for value in limit:
        yield f'<path d="M{plot.left:.0f} {plot.y(value):.1f}H{plot.right:.0f}" stroke="{TEXT}" stroke-dasharray="5 4"/>'


def _legend(names, line):
    """Names the colors, and the dashed line if there is one, in at most two rows."""
    x, y = LEFT, 40
    for i, name in enumerate([*names, *([line] if line else [])]):
        width = 34 + LETTER * len(name)
        if x + width > WIDTH:
            x, y = LEFT, y + 18
        if i < len(names):
            yield f'<rect x="{x:.0f}" y="{y - 6}" width="11" height="11" rx="2" fill="{COLORS[i]}"/>'
        else:
            yield f'<path d="M{x:.0f} {y}h12" stroke="{TEXT}" stroke-dasharray="5 2"/>'
        yield f'<text x="{x + 16:.0f}" y="{y + 4}">{html.escape(name)}</text>'
        x += width
