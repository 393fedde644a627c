"""The section on the near cache in front of a Redis server."""

import re
import statistics

from . import chart, targets
from .programs import Run
from .section import Section, Target, duration, picture, spread, table

KEY = "near"

PROGRAM = "near_benchmark"

TITLE = "Near cache"

# The rows of the table: what the near cache does, and what that is compared with.
ROWS = [
    ("local hit", "NearHit", {"CacheHit": "`Cache::Get`", "RawGet": "`GET`"}),
    ("miss", "NearMiss", {"RawMiss": "`PTTL` and `GET`"}),
    (
        "`GetMany` of 100 keys, all missing",
        "NearMany",
        {"RawMany": "100 `PTTL` and `MGET`", "RawMget": "`MGET` alone"},
    ),
]

TEXT = """\
Values of 64 bytes, a Redis server on the same machine, one thread that calls; commands in capitals are sent by hiredis,
in a pipeline. The misses are of keys that a full local tier of 1,000 entries lacks. The chart compares with what stands
first. Invalidations: another client sets a thousand keys a command. Recovery: from the start of a server that was
killed to the next lease."""


def runs(suite):
    return [Run(KEY, lambda: _measure(suite))] if suite.has(PROGRAM) else []


def _measure(suite):
    values = {}
    for result in suite.benchmark(PROGRAM, "."):
        name = f"near/{re.match(r'BM_([A-Za-z]+)', result['name'])[1]}"
        values[f"{name}/nanos"] = result["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[result["time_unit"]]
        values[f"stolen/{name}"] = result["stolen"]
        values.update((f"{name}/{key}", result[key]) for key in ("p50", "p99") if key in result)
        if "Invalidations" in name:
            values[f"{name}/per_second"] = result["items_per_second"]
    return values


def section(result):
    rows, bars = [], {"near cache": {}, "compared with": {}}
    for title, call, others in ROWS:
        if not all(result.has(_nanos(name)) for name in (call, *others)):
            continue
        nanos = {name: result.median(_nanos(name)) for name in (call, *others)}
        compared = ", ".join(f"{duration(nanos[name])} ({other})" for name, other in others.items())
        rows.append([title, duration(nanos[call]), compared])
        bars["near cache"][title.replace("`", "")] = nanos[call]
        bars["compared with"][title.replace("`", "")] = nanos[next(iter(others))]
    if not rows:
        return None
    if result.has("near/Invalidations/p99"):
        latencies = [duration(result.median(f"near/Invalidations/{percentile}")) for percentile in ("p50", "p99")]
        rows.append(["local hit during invalidations, p50 and p99", ", ".join(latencies), ""])
    svg = chart.grouped_bars(
        TITLE, "logarithmic", list(bars["near cache"]), bars, logarithmic=True, write=duration
    )
    blocks = [picture(TITLE, "Near"), table(["", "near cache", "compared with"], rows)]
    return Section(TITLE, TEXT, blocks, _targets(result), {"Near": svg})


def _nanos(call):
    return f"near/{call}/nanos"


def _targets(result):
    """Returns the targets of which both figures were measured."""
    found = []

    def add(what, target, figures, reached, write):
        if all(result.has(name) for name in figures):
            values = list(zip(*(result.values[name] for name in figures)))
            found.append(Target(what, target, targets.NEAR_ORIGIN, write(values), reached(values)))

    most, times, miss = targets.NEAR_HIT_EXTRA, targets.NEAR_HIT_SPEED_UP, targets.NEAR_MISS
    add(
        "Local hit of a near cache, beyond `Cache::Get`",
        f"at most {most} ns",
        [_nanos("NearHit"), _nanos("CacheHit")],
        lambda pairs: _median(near - cache for near, cache in pairs) <= most,
        lambda pairs: f"{_median(near - cache for near, cache in pairs):.1f} ns",
    )
    add(
        "Local hit: speed-up over `GET` by hiredis",
        str(times),
        [_nanos("NearHit"), _nanos("RawGet")],
        lambda pairs: _median(raw / near for near, raw in pairs) >= times,
        lambda pairs: f"{_median(raw / near for near, raw in pairs):.0f}",
    )
    add(
        "Miss of a near cache to `PTTL` and `GET` by hiredis",
        f"at most {miss}",
        [_nanos("NearMiss"), _nanos("RawMiss")],
        lambda pairs: _median(near / raw for near, raw in pairs) <= miss,
        lambda pairs: spread([near / raw for near, raw in pairs]),
    )
    add(
        "Million invalidations a second",
        f"{targets.NEAR_INVALIDATIONS / 1e6}",
        ["near/Invalidations/per_second"],
        lambda rates: _median(rate for (rate,) in rates) >= targets.NEAR_INVALIDATIONS,
        lambda rates: spread([rate / 1e6 for (rate,) in rates]),
    )
    add(
        "Recovery after a restart, slowest round",
        f"at most {targets.NEAR_RECOVERY_SECONDS} s",
        [_nanos("Recovery")],
        lambda times: max(nanos for (nanos,) in times) <= targets.NEAR_RECOVERY_SECONDS * 1e9,
        lambda times: duration(max(nanos for (nanos,) in times)),
    )
    return found


def _median(values):
    return statistics.median(values)
