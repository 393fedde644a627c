"""The section on loads, conditional writes and calls on a whole cache."""

import functools
import re

from . import chart
from .programs import Run
from .section import Section, duration, picture, table

KEY = "calls"

THREADS = [1, 2]

# The program that measures them, what they are compared with, and the calls: {name in the program: title}.
GROUPS = [
    (
        "load_benchmark",
        ("Get", "`Get`"),
        {"GetOrLoadHit": "`GetOrLoad`, a hit", "FindOrLoadHit": "`FindOrLoad`, a hit"},
    ),
    (
        "load_benchmark",
        ("SetAndDel", "`Del` and `Set`"),
        {
            "FindOrLoadMiss": "`Del` and `FindOrLoad`",
            "TicketMiss": "`Del`, `BeginLoad` and `Finish`",
            "LoadManyMiss": "`Del` and `FindOrLoadMany`, 100 keys at a time",
        },
    ),
    (
        "conditional_benchmark",
        ("Set", "`Set`"),
        {"SetIf": "`Find` and `SetIf`", "Update": "`Update`"},
    ),
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
    made = []
    for number, (program, (base, _), calls) in enumerate(GROUPS):
        for threads in THREADS:
            measure = functools.partial(_measure_throughput, suite, number, threads)
            made.append(Run(f"calls/{program}/{base}/{threads}", measure))
    made.append(Run("RefreshStorm", lambda: _measure_refresh_storm(suite)))
    made.append(Run("whole_cache", lambda: _measure_whole_cache(suite)))
    return made


def _measure_throughput(suite, number, threads):
    """Measures the calls of a group, interleaved with what they are compared with."""
    program, (base, _), calls = GROUPS[number]
    benchmarks = {f"BM_{call}<wheelcache>/real_time/threads:{threads}": call for call in [base, *calls]}
    values = {}
    for benchmark, counters in suite.benchmark_in_pieces(program, benchmarks).items():
        name = _name(number, benchmarks[benchmark], threads)
        values[name] = counters["items_per_second"]
        values[f"stolen/{name}"] = counters["stolen"]
        values[f"shared/{name}"] = counters["shared"]
    return values


def _measure_refresh_storm(suite):
    values = {}
    for result in suite.benchmark("load_benchmark", "^BM_RefreshStorm/"):
        storm = int(re.search(r"refresh:(\d)", result["name"])[1])
        name = f"RefreshStorm/{('calm', 'storm')[storm]}"
        values.update((f"{name}/{percentile}", result[percentile]) for percentile in PERCENTILES)
        values[f"stolen/{name}"] = result["stolen"]
    return values


def _measure_whole_cache(suite):
    values = {}
    for result in suite.benchmark("whole_cache_benchmark", "."):
        storm, others = re.match(r"BM_(\w+)/\w+:(\d)", result["name"]).groups()
        kind = "storm" if others == "1" else "alone"
        values[f"{storm}/{kind}/nanos"] = result["real_time"] * 1e6
        values[f"{storm}/{kind}/cpu_nanos_per_entry"] = result["cpu_ns"]
        values[f"stolen/{storm}/{kind}"] = result["stolen"]
        if others == "1":
            for percentile in PERCENTILES:
                values[f"{storm}/calm/{percentile}"] = result[f"calm_{percentile}"]
                values[f"{storm}/storm/{percentile}"] = result[percentile]
    return values


def section(result):
    calls, storms = _call_rows(result), _storm_rows(result)
    blocks = []
    if calls:
        heads = [f"{threads} thread{'s' * (threads > 1)}" for threads in THREADS]
        blocks.append(table(["million keys per second", *heads, "compared with"], calls))
    charts = {}
    if storms:
        charts["Calls"] = _chart(result)
        blocks += [picture(TITLE, "Calls"), table(["", *PERCENTILES, "p99.9, calm"], storms)]
    return Section(TITLE, TEXT, blocks, [], charts) if blocks else None


def _call_rows(result):
    rows = []
    for number, (_, (base, compared), calls) in enumerate(GROUPS):
        for call, title in calls.items():
            cells = [_cell(result, number, call, base, threads) for threads in THREADS]
            if any(cells):
                rows.append([title, *cells, compared])
    return rows


def _cell(result, number, call, base, threads):
    name, base = _name(number, call, threads), _name(number, base, threads)
    return f"{result.median(name) / 1e6:#.3g} ({result.ratio(name, base):.2f})" if result.has(name) else ""


def _name(number, call, threads):
    return f"calls/{GROUPS[number][0]}/{call}/{threads}"


def _storm_rows(result):
    rows = []
    for storm, (who, what) in STORMS.items():
        if result.has(f"{storm}/storm/p50"):
            figures = [*(f"{storm}/storm/{percentile}" for percentile in PERCENTILES), f"{storm}/calm/p99.9"]
            cells = [duration(result.median(figure)) for figure in figures]
            rows.append([f"{who} {what}{_length(result, storm)}", *cells])
    return rows


def _length(result, storm):
    """Returns how long a call took while others were running, and its CPU time."""
    name = f"{storm}/storm"
    if not result.has(f"{name}/nanos"):
        return ""
    nanos, cpu = (result.median(f"{name}/{figure}") for figure in ("nanos", "cpu_nanos_per_entry"))
    return f" ({duration(nanos)}, {duration(cpu)})"


def _chart(result):
    measured = {storm: who.replace("`", "") for storm, (who, _) in STORMS.items() if result.has(f"{storm}/storm/p99.9")}
    series = {
        kind: {f"{who}, {storm}": result.median(f"{storm}/{key}/p99.9") for storm, who in measured.items()}
        for kind, key in (("calm", "calm"), ("meanwhile", "storm"))
    }
    return chart.grouped_bars(
        "p99.9 of calls while another thread works on the whole cache",
        "logarithmic",
        list(series["calm"]),
        series,
        logarithmic=True,
        write=duration,
    )
