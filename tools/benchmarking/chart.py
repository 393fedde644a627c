"""Draws groups of bars as an SVG file that can be read on white and on black, and needs nothing else."""

import html
import math

# Of middling lightness all, for the same reason; ours stands out.
COLORS = ["#2f81f7", "#8b949e", "#d29922", "#a371f7", "#3fb950", "#db61a2", "#e5534b", "#39a0a0"]
TEXT = "#7d8590"

WIDTH = 860
HEIGHT = 376
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 92, 36
LETTER = 6.8  # The average width, in the fonts that browsers choose.
PLOT_WIDTH = WIDTH - LEFT - RIGHT
PLOT_HEIGHT = HEIGHT - TOP - BOTTOM


class Axis:
    """The vertical one: from 0, or over powers of ten."""

    def __init__(self, values, logarithmic):
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
        return TOP + PLOT_HEIGHT * (1 - part)


def _round_step(at_least):
    """Returns the next number of the form 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(at_least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= at_least)


def grouped_bars(title, unit, groups, series, line=None, logarithmic=False, write=None):
    """Returns the SVG.

    `series` is {name: {group: value}}, a missing value leaves a gap; `line` is (name, value), drawn across; `write`
    turns a value into text.
    """
    write = write or short
    values = [value for bars in series.values() for value in bars.values()] + ([line[1]] if line else [])
    axis = Axis(values, logarithmic)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="600">{html.escape(title)}</text>',
        f'<text x="{LEFT}" y="{TOP - 12}" font-size="11">{html.escape(unit)}</text>',
        *_grid(axis, write),
        *_legend(series, line),
        *_bars(axis, groups, series, write),
    ]
    if line:
        y = axis.y(line[1])
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{TEXT}" stroke-dasharray="5 4"/>')
    return "\n".join(parts + ["</svg>", ""])


def _grid(axis, write):
    for tick in axis.ticks:
        y = axis.y(tick)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{TEXT}" stroke-opacity=".25"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{write(tick)}</text>'


def _legend(series, line):
    """In as many rows as it takes; there is room for two."""
    x, y = LEFT, 40
    for i, name in enumerate([*series, *(line or [])[:1]]):
        width = 34 + LETTER * len(name)
        if x + width > WIDTH:
            x, y = LEFT, y + 18
        if i < len(series):
            yield f'<rect x="{x:.0f}" y="{y - 6}" width="11" height="11" rx="2" fill="{COLORS[i]}"/>'
        else:
            yield f'<path d="M{x:.0f} {y}h12" stroke="{TEXT}" stroke-dasharray="5 2"/>'
        yield f'<text x="{x + 16:.0f}" y="{y + 4}">{html.escape(name)}</text>'
        x += width


def _bars(axis, groups, series, write):
    group_width = PLOT_WIDTH / len(groups)
    for g, group in enumerate(groups):
        present = [name for name in series if group in series[name]]
        width = min(44, group_width * 0.84 / max(1, len(present)))
        middle = LEFT + group_width * (g + 0.5)
        x = middle - width * len(present) / 2
        yield f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{html.escape(str(group))}</text>'
        for name in present:
            value = series[name][group]
            y = axis.y(value)
            color = COLORS[list(series).index(name)]
            height = TOP + PLOT_HEIGHT - y
            yield f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{color}"/>'
            if width >= LETTER * 5:
                center = x + width / 2
                yield f'<text x="{center:.1f}" y="{y - 4:.1f}" text-anchor="middle" font-size="10">{write(value)}</text>'
            x += width


def short(value):
    """Writes a number with three digits, with a letter for its thousands."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{float(f'{value / factor:.3g}'):g}{letter}"
    return f"{value:.3g}"
