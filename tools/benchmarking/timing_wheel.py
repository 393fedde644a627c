"""The section on timers."""

import statistics

from . import bars, chart
from .section import Bar, Section, spread, table

OURS = "PointerWheel"
BASE = "MultimapTimers"

SUBJECTS = {
    "PointerWheel": "TimingWheel",
    "CompactWheel": "the cache's wheel",
    "MultimapTimers": "std::multimap",
    "BtreeTimers": "absl::btree_map",
    "HeapTimers": "binary heap",
    "RoundsTimers": "wheel with rounds",
}

TEXT = """\
A million timers are pending, their delays uniform over 3.6 million ticks. Nanoseconds for each timer, or for each call of
`NextWakeup` and of a jump over idle ticks; in brackets how many times faster than std::multimap. The cache's wheel is the
same one over 32-bit references; the wheel with rounds walks each timer once in a revolution of 300 ticks. In each
round, all subjects run in one process, for each operation one after the other."""


def sections(result):
    operations = list(dict.fromkeys(tuple(name.split("/")[1:3]) for name in result.names("TimingWheel/")))
    if not operations:
        return []
    rows = [
        [_title(*operation), *(_cell(result, operation, subject) for subject in SUBJECTS)] for operation in operations
    ]
    compared = [operation for operation in operations if all(result.has(_name(operation, s)) for s in (OURS, BASE))]
    series = {
        title: {
            operation[0]: result.median(_name(operation, subject))
            for operation in reversed(compared)
            if result.has(_name(operation, subject))
        }
        for subject, title in SUBJECTS.items()
    }
    groups = list(dict.fromkeys(operation[0] for operation in compared))
    drawn = chart.grouped_bars("Timers", "nanoseconds, in powers of ten", groups, series, logarithmic=True)
    text = f"{TEXT}\n\n{table(['', *SUBJECTS.values()], rows)}"
    return [Section("TimingWheel", "Timing wheel", text, _bars(result, compared) + _flat_bars(result, compared), drawn)]


def _bars(result, operations):
    reached = []
    for operation in operations:
        peer, most = bars.TIMING_WHEEL.get(operation[0], (None, None))
        if peer and result.has(_name(operation, peer)):
            # The peer's time to ours reads better than the other way round.
            times = result.ratios(_name(operation, peer), _name(operation, OURS))
            what = f"{_title(*operation)}: times faster than {SUBJECTS[peer]}"
            reached.append(Bar(what, f"{1 / most:.0f}", spread(times), statistics.median(times) >= 1 / most))
    return reached


def _flat_bars(result, operations):
    reached = []
    for name, (far, near, most) in bars.TIMING_WHEEL_FLAT.items():
        if (name, far) in operations and (name, near) in operations:
            ratios = result.ratios(_name((name, far), OURS), _name((name, near), OURS))
            what = f"{name}: {far} to {near}"
            reached.append(Bar(what, f"at most {most:g}", spread(ratios), statistics.median(ratios) <= most))
    return reached


def _cell(result, operation, subject):
    name, base = _name(operation, subject), _name(operation, BASE)
    if not result.has(name):
        return ""
    nanos = chart.short(result.median(name))
    return f"{nanos} ({chart.short(result.ratio(base, name))})" if result.has(base) and subject != BASE else nanos


def _name(operation, subject):
    return f"TimingWheel/{operation[0]}/{operation[1]}/{subject}"


def _title(operation, arguments):
    return f"{operation}, {arguments}" if arguments else operation
