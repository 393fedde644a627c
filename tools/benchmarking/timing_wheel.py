"""The section on timers."""

import re

from . import chart
from .programs import Run
from .section import Section, at_least, at_most, picture, table

KEY = "wheel"

PROGRAM = "timing_wheel_benchmark"

OURS, BASE = "PointerWheel", "MultimapTimers"

SUBJECTS = {
    "PointerWheel": "TimingWheel",
    "CompactWheel": "the cache's wheel",
    "MultimapTimers": "std::multimap",
    "BtreeTimers": "absl::btree_map",
    "HeapTimers": "binary heap",
    "RoundsTimers": "wheel with rounds",
}

# Stored, but not shown: their neighbours tell the same.
HIDDEN = {"Expire/step:1 until:300", "IdleJump/ticks:1", "IdleJump/ticks:1000", "NextWakeup/pending:1000",
          "NextWakeup/pending:30000"}  # fmt: skip

# How many times as fast as another structure an operation of the wheel is at least.
MULTIMAP, HEAP = "project: ratio to std::multimap", "project: no slower than a heap"
SPEED_UPS = {
    "Fill": ("MultimapTimers", 80, MULTIMAP),
    "Add": ("MultimapTimers", 20, MULTIMAP),
    "Move": ("MultimapTimers", 30, MULTIMAP),
    "Cancel": ("MultimapTimers", 22, MULTIMAP),
    "Expire": ("HeapTimers", 1, HEAP),
}

# The largest ratio of the time of an operation with one argument to that with another.
FLAT = {
    "IdleJump": ("ticks:100000000", "ticks:1", 3, "promise: cost independent of ticks passed"),
    "NextWakeup": ("pending:1000000", "pending:1000", 1.5, "promise: cost independent of pending timers"),
}

TEXT = """\
A million timers are pending, with delays uniform over 3.6 million ticks. Nanoseconds per timer, or per call of
`NextWakeup` and of a jump over idle ticks; in brackets the speed-up over std::multimap. The cache's wheel is the
same wheel over 32-bit references; the wheel with rounds visits each timer once per revolution of 300 ticks. In each
round, all subjects run in one process, next to each other for each operation."""


def runs(suite):
    return [Run("TimingWheel", lambda: suite.measure(PROGRAM, ".", _values))]


def _values(result):
    operation, subject, arguments = re.match(r"BM_(\w+)<(\w+)>/?(.*?)/?iterations", result["name"]).groups()
    return _name(f"{operation}/{arguments.replace('/', ' ')}", subject), {"": result["real_time"]}


def _name(operation, subject):
    """An operation is its name and its arguments, such as "Expire/step:1 until:300"."""
    return f"TimingWheel/{operation}/{subject}"


def section(result):
    names = [name.split("/") for name in result.names("TimingWheel/")]
    operations = list(dict.fromkeys(f"{name[1]}/{name[2]}" for name in names))
    rows = [[_title(operation), *(_cell(result, operation, subject) for subject in SUBJECTS)]
            for operation in operations if operation not in HIDDEN]  # fmt: skip
    # Those of which both were measured; of those with the same name, the first.
    compared = [operation for operation in operations if result.has(_name(operation, OURS), _name(operation, BASE))]
    drawn = {operation.partition("/")[0]: operation for operation in reversed(compared)}
    series = {title: result.medians({name: _name(operation, subject) for name, operation in drawn.items()})
              for subject, title in SUBJECTS.items()}  # fmt: skip
    groups = list(dict.fromkeys(operation.partition("/")[0] for operation in compared))
    bars = chart.Bars("nanoseconds, logarithmic", groups, series, logarithmic=True)
    blocks = [picture("Timing wheel", "TimingWheel"), table(["", *SUBJECTS.values()], rows)]
    return Section("Timing wheel", TEXT, blocks, list(_targets(result, compared)),
                   {"TimingWheel": chart.draw("Timers", [bars])})  # fmt: skip


def _targets(result, operations):
    for operation in operations:
        peer, least, origin = SPEED_UPS.get(operation.partition("/")[0], (None, None, None))
        if peer and result.has(_name(operation, peer)):
            speed_ups = result.ratios(_name(operation, peer), _name(operation, OURS))
            yield at_least(f"{_title(operation)}: speed-up over {SUBJECTS[peer]}", least, origin, speed_ups)
    for operation, (far, near, most, origin) in FLAT.items():
        ratios = result.ratios(*(_name(f"{operation}/{arguments}", OURS) for arguments in (far, near)))
        yield at_most(f"{operation}: {far} to {near}", most, origin, ratios)


def _cell(result, operation, subject):
    name, base = _name(operation, subject), _name(operation, BASE)
    if not result.has(name):
        return ""
    nanos = chart.short(result.median(name))
    return f"{nanos} ({chart.short(result.ratio(base, name))})" if result.has(base) and subject != BASE else nanos


def _title(operation):
    return ", ".join(filter(None, operation.split("/")))
