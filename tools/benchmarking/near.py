"""The section on the near cache in front of a Redis server."""

import re

from .programs import Run
from .section import Section, at_least, at_most, duration, duration_chart, in_format, picture, table

KEY = "near"

PROGRAM = "near_benchmark"

TITLE = "Near cache"
ORIGIN = "issue: targets of the near cache"

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
    return [Run(KEY, lambda: suite.measure(PROGRAM, ".", _values))]


def _values(result):
    call = re.match(r"BM_([A-Za-z]+)", result["name"])[1]
    values = {"/nanos": result["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[result["time_unit"]]}
    values |= {f"/{key}": result[key] for key in ("p50", "p99") if key in result}
    if call == "Invalidations":
        values["/per_second"] = result["items_per_second"]
    return f"near/{call}", values


def _nanos(*calls):
    return [f"near/{call}/nanos" for call in calls]


def section(result):
    rows, bars = [], {"near cache": {}, "compared with": {}}
    for title, call, others in ROWS:
        ours, *theirs = map(result.median, _nanos(call, *others))
        compared = ", ".join(f"{duration(nanos)} ({other})" for nanos, other in zip(theirs, others.values()))
        rows.append([title, duration(ours), compared])
        bars["near cache"][title.replace("`", "")] = ours
        bars["compared with"][title.replace("`", "")] = theirs[0]
    latencies = [duration(result.median(f"near/Invalidations/{percentile}")) for percentile in ("p50", "p99")]
    rows.append(["local hit during invalidations, p50 and p99", ", ".join(latencies), ""])
    blocks = [picture(TITLE, "Near"), table(["", "near cache", "compared with"], rows)]
    charts = {"Near": duration_chart(TITLE, list(bars["near cache"]), bars)}
    return Section(TITLE, TEXT, blocks, list(_targets(result)), charts)


def _targets(result):
    extra = [near - cache for near, cache in zip(*map(result.values.get, _nanos("NearHit", "CacheHit")))]
    what = "Local hit of a near cache, beyond `Cache::Get`"
    yield at_most(what, 40, ORIGIN, extra, limit="{} ns", write=in_format("{:.1f} ns"))
    speed_ups = result.ratios(*_nanos("RawGet", "NearHit"))
    yield at_least("Local hit: speed-up over `GET` by hiredis", 100, ORIGIN, speed_ups, write=in_format("{:.0f}"))
    ratios = result.ratios(*_nanos("NearMiss", "RawMiss"))
    yield at_most("Miss of a near cache to `PTTL` and `GET` by hiredis", 1.15, ORIGIN, ratios)
    millions = [rate / 1e6 for rate in result.values["near/Invalidations/per_second"]]
    yield at_least("Million invalidations a second", 0.5, ORIGIN, millions)
    slowest = [max(result.values["near/Recovery/nanos"])]
    yield at_most("Recovery after a restart, slowest round", 6e9, ORIGIN, slowest, limit="6 s",
                  write=lambda figures: duration(figures[0]))  # fmt: skip
