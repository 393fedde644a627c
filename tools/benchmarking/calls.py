"""The section on loads, conditional writes and calls on a whole cache."""

import functools
import re

from .programs import Run
from .section import Section, duration, duration_chart, picture, table

KEY = "calls"
THREADS = {1: "1 thread", 2: "2 threads"}

# The program that measures them, what they are compared with, and the calls: {name in the program: title}.
GROUPS = [
    (
        "load_benchmark",
        ("Get", "`Get`"),
        {"GetOrLoadHit": "`GetOrLoad`, a hit", "FindOrLoadHit": "`FindOrLoad`, a hit"},
    ),
    ("load_benchmark", ("Find", "`Find`"), {"FindMany": "`FindMany`, 32 keys at a time"}),
    (
        "load_benchmark",
        ("SetAndDel", "`Del` and `Set`"),
        {
            "FindOrLoadMiss": "`Del` and `FindOrLoad`",
            "TicketMiss": "`Del`, `BeginLoad` and `Finish`",
            "LoadManyMiss": "`Del` and `FindOrLoadMany`, 100 keys at a time",
        },
    ),
    ("conditional_benchmark", ("Set", "`Set`"), {"SetIf": "`Find` and `SetIf`", "Update": "`Update`"}),
    (
        "conditional_benchmark",
        ("DelAndSet", "`Del` and `Set`"),
        {"DelIf": "`Find`, `DelIf` and `SetIf`", "Take": "`Take` and `Set`"},
    ),
]

PERCENTILES = ["p50", "p99", "p99.9", "max"]

# For each storm: who feels it, and what it is.
STORMS = {
    "RefreshStorm": ("hits of `FindOrLoad`", "while 100,000 keys are refreshed"),
    "ForEach": ("`Get`", "during `ForEach` over a million entries"),
    "EraseIf": ("`Get`", "during `EraseIf` of half of a million entries"),
    "SetLimits": ("`Set` of new keys", "during `SetLimits` to half of a million entries"),
}

TITLE = "Loads, conditional writes, calls on a whole cache"

TEXT = """\
A million resident keys, uniform; values are copied. In brackets the ratio to the calls that they are compared with,
interleaved with them. Then latencies, in wall time, each from the end of one call to the end of the next, of one thread
while another does what the row says; in brackets how long that took, and its CPU time for each entry. The last column
is without it. The refreshes of 100,000 stale keys run on an executor with one thread."""


def runs(suite):
    for program, (base, _), calls in GROUPS:
        for threads in THREADS:
            benchmarks = {f"BM_{call}<wheelcache>/real_time/threads:{threads}": f"calls/{program}/{call}/{threads}"
                          for call in [base, *calls]}  # fmt: skip
            measure = functools.partial(suite.measure_interleaved, program, benchmarks)
            yield Run(f"calls/{program}/{base}/{threads}", measure)
    yield Run("RefreshStorm", lambda: suite.measure("load_benchmark", "^BM_RefreshStorm/", _refresh_storm))
    yield Run("whole_cache", lambda: suite.measure("whole_cache_benchmark", ".", _whole_cache))


def _refresh_storm(result):
    kind = ("calm", "storm")[int(re.search(r"refresh:(\d)", result["name"])[1])]
    return f"RefreshStorm/{kind}", {f"/{percentile}": result[percentile] for percentile in PERCENTILES}


def _whole_cache(result):
    storm, others = re.match(r"BM_(\w+)/\w+:(\d)", result["name"]).groups()
    values = {"/nanos": result["real_time"] * 1e6, "/cpu_nanos_per_entry": result["cpu_ns"]}
    if others != "1":
        return f"{storm}/alone", values
    for percentile in PERCENTILES:
        values |= {f"/{percentile}": result[percentile], f"/calm_{percentile}": result[f"calm_{percentile}"]}
    return f"{storm}/storm", values


def section(result):
    blocks = [
        table(["million keys per second", *THREADS.values(), "compared with"], _call_rows(result)),
        picture(TITLE, "Calls"),
        table(["", *PERCENTILES, "p99.9, calm"], [_storm_row(result, storm) for storm in STORMS]),
    ]
    return Section(TITLE, TEXT, blocks, [], {"Calls": _chart(result)})


def _call_rows(result):
    for program, (other, compared), calls in GROUPS:
        for call, title in calls.items():
            names = [(f"calls/{program}/{call}/{threads}", f"calls/{program}/{other}/{threads}") for threads in THREADS]
            cells = [f"{result.median(name) / 1e6:#.3g} ({result.ratio(name, base):.2f})" for name, base in names]
            yield [title, *cells, compared]


def _calm(result, storm):
    """Returns the p99.9 without the storm: measured by itself, or before it in the same run."""
    apart = f"{storm}/calm/p99.9"
    return result.median(apart if result.has(apart) else f"{storm}/storm/calm_p99.9")


def _storm_row(result, storm):
    name = f"{storm}/storm"
    title = " ".join(STORMS[storm])
    if result.has(f"{name}/nanos"):  # How long it took while others were running, and its CPU time.
        nanos, cpu = (result.median(f"{name}/{figure}") for figure in ("nanos", "cpu_nanos_per_entry"))
        title += f" ({duration(nanos)}, {duration(cpu)})"
    figures = [result.median(f"{name}/{percentile}") for percentile in PERCENTILES]
    return [title, *map(duration, [*figures, _calm(result, storm)])]


def _chart(result):
    titles = {storm: f"{who}, {storm}".replace("`", "") for storm, (who, _) in STORMS.items()}
    series = {
        "calm": {title: _calm(result, storm) for storm, title in titles.items()},
        "meanwhile": {title: result.median(f"{storm}/storm/p99.9") for storm, title in titles.items()},
    }
    return duration_chart("p99.9 of calls while another thread works on the whole cache", list(titles.values()), series)
