"""Draws charts of bars and of lines as self-contained SVG files, readable on light and dark backgrounds."""

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


class Plot:
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


def grouped_bars(title, unit, groups, series, line=None, logarithmic=False, write=None):
    """Returns the SVG of one chart.

    `series` is {name: {group: value}}, where a missing value leaves a gap; `line` is (name, value), drawn as a dashed
    line across the plot; `write` formats a value.
    """
    write = write or short
    values = _values(series) + ([line[1]] if line else [])
    plot = Plot(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, values, logarithmic)
    parts = [
        *_legend(list(series), line[0] if line else None),
        *_plot(plot, unit, groups, series, write),
        *([_dashed(plot, line[1])] if line else []),
    ]
    return _svg(title, HEIGHT, parts)


def panels(title, unit, groups, charts, line_name):
    """Returns the SVG of several charts, two in a row, with one legend and an axis each.

    `charts` is {title: (series, value of the dashed line)}. Only bars of the first series are labelled with values.
    """
    names = list(dict.fromkeys(name for series, _ in charts.values() for name in series))
    parts = list(_legend(names, line_name))
    for number, (heading, (series, line)) in enumerate(charts.items()):
        plot = _panel(number, [*_values(series), line])
        parts.append(_heading(plot, heading))
        parts += _plot(plot, unit, groups, series, short, names, labelled=names[:1])
        parts.append(_dashed(plot, line))
    return _svg(title, _panels_height(charts), parts)


def line_panels(title, unit, charts, line_name):
    """Returns the SVG of several charts of lines, two in a row, with one legend and an axis each.

    `charts` is {title: ({name: values}, length of the horizontal axis, value of the dashed line)}; the values of a line
    are at equal distances.
    """
    names = list(dict.fromkeys(name for series, _, _ in charts.values() for name in series))
    parts = list(_legend(names, line_name))
    for number, (heading, (series, length, line)) in enumerate(charts.items()):
        plot = _panel(number, [*(value for values in series.values() for value in values), line])
        parts += [_heading(plot, heading), _unit(plot, unit), *_grid(plot, short), *_ruler(plot, length)]
        parts += [_line(plot, values, COLORS[names.index(name)]) for name, values in series.items()]
        parts.append(_dashed(plot, line))
    return _svg(title, _panels_height(charts), parts)


def _panel(number, values):
    """Returns the plot of a chart by its number, from left to right and from top to bottom."""
    width = (WIDTH - RIGHT + GAP) / 2
    row, column = divmod(number, 2)
    left = LEFT + column * width
    top = PANELS_TOP + row * PANEL_HEIGHT + 40
    return Plot(left, left + width - LEFT - GAP, top, top + PANEL_HEIGHT - 76, values, logarithmic=False)


def _panels_height(charts):
    return PANELS_TOP + PANEL_HEIGHT * math.ceil(len(charts) / 2)


def _heading(plot, text):
    return f'<text x="{plot.left:g}" y="{plot.top - 26}" font-size="13" font-weight="600">{_escaped(text)}</text>'


def _svg(title, height, parts):
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}">',
        f"<title>{_escaped(title)}</title>",
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="600">{_escaped(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _escaped(text):
    return html.escape(str(text))


def _values(series):
    return [value for bars in series.values() for value in bars.values()]


def _plot(plot, unit, groups, series, write, names=None, labelled=None):
    """Draws axis, groups and bars. `names` gives the order of colors, `labelled` the series to write values for."""
    yield _unit(plot, unit)
    yield from _grid(plot, write)
    yield from _bars(plot, groups, series, write, names or list(series), labelled)


def _unit(plot, unit):
    return f'<text x="{plot.left:.0f}" y="{plot.top - 12}" font-size="11">{_escaped(unit)}</text>'


def _dashed(plot, value):
    y = plot.y(value)
    return f'<path d="M{plot.left:.0f} {y:.1f}H{plot.right:.0f}" stroke="{TEXT}" stroke-dasharray="5 4"/>'


def _grid(plot, write):
    for tick in plot.ticks:
        y = plot.y(tick)
        yield f'<path d="M{plot.left:.0f} {y:.1f}H{plot.right:.0f}" stroke="{TEXT}" stroke-opacity=".25"/>'
        yield f'<text x="{plot.left - 8:.0f}" y="{y + 4:.1f}" text-anchor="end">{write(tick)}</text>'


def _ruler(plot, length):
    """Labels the horizontal axis, from 0 to `length`."""
    step = _round_step(length / 6)
    for i in range(math.floor(length / step) + 1):
        x = plot.left + (plot.right - plot.left) * step * i / length
        yield f'<text x="{x:.1f}" y="{plot.bottom + 20}" text-anchor="middle">{short(step * i)}</text>'


def _line(plot, values, color):
    step = (plot.right - plot.left) / len(values)
    points = " ".join(f"{plot.left + step * (i + 0.5):.1f},{plot.y(value):.1f}" for i, value in enumerate(values))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'


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
        yield f'<text x="{x + 16:.0f}" y="{y + 4}">{_escaped(name)}</text>'
        x += width


def _bars(plot, groups, series, write, names, labelled):
    group_width = (plot.right - plot.left) / len(groups)
    for g, group in enumerate(groups):
        present = [name for name in names if group in series.get(name, {})]
        width = min(44, group_width * 0.84 / max(1, len(present)))
        middle = plot.left + group_width * (g + 0.5)
        x = middle - width * len(present) / 2
        yield f'<text x="{middle:.1f}" y="{plot.bottom + 20}" text-anchor="middle">{_escaped(group)}</text>'
        for name in present:
            value = series[name][group]
            y = plot.y(value)
            color = COLORS[names.index(name)]
            height = plot.bottom - y
            yield f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{color}"/>'
            if (width >= LETTER * 5) if labelled is None else (name in labelled):
                at = f'x="{x + width / 2:.1f}" y="{y - 4:.1f}"'
                yield f'<text {at} text-anchor="middle" font-size="10">{write(value)}</text>'
            x += width


def short(value):
    """Formats a number with three digits, and a letter for thousands, millions and billions."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{float(f'{value / factor:.3g}'):g}{letter}"
    return f"{value:.3g}"
