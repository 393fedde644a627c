"""The section on timers."""

import re
import statistics

from . import chart, targets
from .programs import Run
from .section import Section, Target, picture, spread, table

KEY = "wheel"

PROGRAM = "timing_wheel_benchmark"

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

# Stored, but not shown: their neighbours tell the same.
HIDDEN = {
    ("Expire", "step:1 until:300"),
    ("IdleJump", "ticks:1"),
    ("IdleJump", "ticks:1000"),
    ("NextWakeup", "pending:1000"),
    ("NextWakeup", "pending:30000"),
}

TEXT = """\
A million timers are pending, with delays uniform over 3.6 million ticks. Nanoseconds per timer, or per call of
`NextWakeup` and of a jump over idle ticks; in brackets the speed-up over std::multimap. The cache's wheel is the
same wheel over 32-bit references; the wheel with rounds visits each timer once per revolution of 300 ticks. In each
round, all subjects run in one process, next to each other for each operation."""


def runs(suite):
    return [Run("TimingWheel", lambda: _measure(suite))] if suite.has(PROGRAM) else []


def _measure(suite):
    values = {}
    for result in suite.benchmark(PROGRAM, "."):
        operation, subject, arguments = re.match(r"BM_(\w+)<(\w+)>/?(.*?)/?iterations", result["name"]).groups()
        name = f"TimingWheel/{operation}/{arguments.replace('/', ' ')}/{subject}"
        values[name] = result["real_time"]
        if "stolen" in result:
            values[f"stolen/{name}"] = result["stolen"]
    return values


def section(result):
    operations = list(dict.fromkeys(tuple(name.split("/")[1:3]) for name in result.names("TimingWheel/")))
    if not operations:
        return None
    rows = [
        [_title(*operation), *(_cell(result, operation, subject) for subject in SUBJECTS)]
        for operation in operations
        if operation not in HIDDEN
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
    drawn = chart.grouped_bars("Timers", "nanoseconds, logarithmic", groups, series, logarithmic=True)
    reached = _targets(result, compared) + _flat_targets(result, compared)
    blocks = [picture("Timing wheel", "TimingWheel"), table(["", *SUBJECTS.values()], rows)]
    return Section("Timing wheel", TEXT, blocks, reached, {"TimingWheel": drawn})


def _targets(result, operations):
    reached = []
    for operation in operations:
        peer, least, origin = targets.TIMING_WHEEL.get(operation[0], (None, None, None))
        if peer and result.has(_name(operation, peer)):
            speedups = result.ratios(_name(operation, peer), _name(operation, OURS))
            what = f"{_title(*operation)}: speed-up over {SUBJECTS[peer]}"
            enough = statistics.median(speedups) >= least
            reached.append(Target(what, f"{least}", origin, spread(speedups), enough))
    return reached


def _flat_targets(result, operations):
    reached = []
    for name, (far, near, most, origin) in targets.TIMING_WHEEL_FLAT.items():
        if (name, far) in operations and (name, near) in operations:
            ratios = result.ratios(_name((name, far), OURS), _name((name, near), OURS))
            what = f"{name}: {far} to {near}"
            flat = statistics.median(ratios) <= most
            reached.append(Target(what, f"at most {most:g}", origin, spread(ratios), flat))
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
