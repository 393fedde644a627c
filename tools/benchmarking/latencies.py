"""The section on latencies while much happens: a mass expiry, storms, and the growth of a cache."""

import re
import statistics

from . import chart, targets
from .programs import Run
from .section import Section, Target, duration, picture, spread, table, unwrapped

KEY = "latencies"

PROGRAM = "cache_benchmark"

PERCENTILES = ["p50", "p99", "p99.9", "p99.99", "max"]

TEXT = """\
In wall time, each from the end of one operation to the end of the next. The reaper, with default options, and all other
threads share the CPUs."""

MASS_EXPIRY = """\
Mass expiry: a cache of two million entries, half of which expire evenly within one second, while pairs of a reader and
a writer work on the other half (Zipf 0.99); and the same without expiry. From the first deadline to 200 ms after the
last."""

STORM = """\
Storms: a cache of two million entries. One thread reads one half (Zipf 0.99) while the other half is left alone,
expires in one tick, gets new TTLs from another thread, or is evicted by two threads that Set new keys at the limit."""

GROWTH = """\
Growth: one thread Sets four million new keys in an empty cache limited to 1 GiB alone, whose index grows to an unknown
final size, and in a map without reserve()."""

STORMS = {
    "calm": "no storm",
    "one_tick": "a million deadlines in one tick",
    "touches": "a million Touches",
    "new_keys": "a million Sets of new keys, 2 threads",
}

GROWING = {"wheelcache": "growth of wheelcache", "flat_hash_map": "growth of flat_hash_map"}


def runs(suite):
    return [
        Run("MassExpiry", lambda: _measure_mass_expiry(suite)),
        Run("Storm", lambda: _measure_family(suite, "Storm")),
        Run("Growth", lambda: _measure_family(suite, "Growth")),
    ]


def _measure_mass_expiry(suite):
    values = {}
    for result in suite.benchmark(PROGRAM, "^BM_MassExpiry/"):
        expiring, pairs = re.search(r"expiring:(\d)/pairs:(\d+)", result["name"]).groups()
        name = f"MassExpiry/{pairs}/{('calm', 'expiring')[int(expiring)]}"
        for counter in result:
            if re.match("[gs]et", counter) or counter == "left":
                values[f"{name}/{counter}"] = result[counter]
        values[f"stolen/{name}"] = result["stolen"]
    return values


def _measure_family(suite, family):
    values = {}
    for result in suite.benchmark(PROGRAM, f"^BM_{family}/"):
        part = result["name"].split("/")[1]
        values.update((f"{family}/{part}/{name}", result[name]) for name in result if re.match("[gs]et_", name))
        values[f"stolen/{family}/{part}"] = result["stolen"]
    return values


def section(result):
    parts = [part for part in (_mass_expiry(result), _storm(result), _growth(result)) if part]
    if not parts:
        return None
    items, reached, rows, charts = [], [], [], {}
    for name, text, their_rows, their_targets, drawn in parts:
        items.append(f"- {unwrapped(text)}\\\n  {picture(unwrapped(text).partition(':')[0], name)}")
        reached += their_targets
        rows += their_rows
        charts[name] = drawn
    return Section("Latencies", TEXT, ["\n".join(items), table(["", *PERCENTILES], rows)], reached, charts)


def _mass_expiry(result):
    rows, reached, series = [], {}, {}
    for count in sorted({name.split("/")[1] for name in result.names("MassExpiry/")}):
        for operation in ("get", "set"):
            what = f"{operation.capitalize()}, {_pairs(count)}"
            for kind in ("calm", "expiring"):
                name = f"MassExpiry/{count}/{kind}/{operation}_"
                rows.append(_row(result, f"{what}, {kind}", name))
                series.setdefault(kind, {})[what] = result.median(f"{name}p99.9")
            reached.setdefault(operation, []).append(_target(result, operation, count))
    if not rows:
        return None
    drawn = chart.grouped_bars(
        "Mass expiry: p99.9", "logarithmic", list(series["calm"]), series, logarithmic=True, write=duration
    )
    return "MassExpiry", MASS_EXPIRY, rows, sum(reached.values(), []), drawn


def _target(result, operation, count):
    counter = f"{operation}_p99.9"
    most = targets.MASS_EXPIRY[counter]
    ratios = result.ratios(f"MassExpiry/{count}/expiring/{counter}", f"MassExpiry/{count}/calm/{counter}")
    what = f"p99.9 of {operation.capitalize()}, expiring to calm; pairs"
    within = statistics.median(ratios) <= most
    return Target(what, f"at most {most:g}", targets.CALM, spread(ratios), within, count)


def _pairs(count):
    return "1 pair" if count == "1" else f"{count} pairs"


def _storm(result):
    storms = {f"Storm/{storm}/get_": title for storm, title in STORMS.items()}
    rows, drawn = _table_and_chart(result, "Get", storms, "Get during storms")
    return ("Storm", STORM, rows, [], drawn) if rows else None


def _growth(result):
    subjects = {f"Growth/{subject}/set_": title for subject, title in GROWING.items()}
    rows, drawn = _table_and_chart(result, "Set", subjects, "Set while the cache grows")
    return ("Growth", GROWTH, rows, [], drawn) if rows else None


def _table_and_chart(result, operation, families, title):
    """Returns the rows and the chart of those of `families` ({beginning of the names: title}) that were measured."""
    measured = {name: what for name, what in families.items() if result.has(f"{name}p50")}
    if not measured:
        return [], ""
    rows = [_row(result, f"{operation}, {what}", name) for name, what in measured.items()]
    series = {what: _medians(result, name) for name, what in measured.items()}
    groups = [percentile for percentile in PERCENTILES if any(percentile in of for of in series.values())]
    return rows, chart.grouped_bars(title, "logarithmic", groups, series, logarithmic=True, write=duration)


def _row(result, what, name):
    medians = _medians(result, name)
    return [what, *(duration(medians[percentile]) if percentile in medians else "" for percentile in PERCENTILES)]


def _medians(result, name):
    return {percentile: result.median(name + percentile) for percentile in PERCENTILES if result.has(name + percentile)}
