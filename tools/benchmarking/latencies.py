"""The section on latencies while much happens: a mass expiry, storms, and the growth of a cache."""

import functools
import re

from .programs import Run
from .section import Section, at_most, duration, duration_chart, picture, table, unwrapped

KEY = "latencies"

PERCENTILES = ["p50", "p99", "p99.9", "p99.99", "max"]

# The largest ratio of the p99.9 during the expiry to that without.
MOST_OF_CALM = 3

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

# Of the mass expiry: the number of pairs of threads, and what is measured.
EXPIRY_CALLS = {("1", "get"): "Get, 1 pair", ("1", "set"): "Set, 1 pair",
                ("2", "get"): "Get, 2 pairs", ("2", "set"): "Set, 2 pairs"}  # fmt: skip

# For each family of benchmarks but the first: its text, the title of its chart, and {beginning of the names: row}.
FAMILIES = {
    "Storm": (
        STORM,
        "Get during storms",
        {
            "Storm/calm/get_": "Get, no storm",
            "Storm/one_tick/get_": "Get, a million deadlines in one tick",
            "Storm/touches/get_": "Get, a million Touches",
            "Storm/new_keys/get_": "Get, a million Sets of new keys, 2 threads",
        },
    ),
    "Growth": (
        GROWTH,
        "Set while the cache grows",
        {
            "Growth/wheelcache/set_": "Set, growth of wheelcache",
            "Growth/flat_hash_map/set_": "Set, growth of flat_hash_map",
        },
    ),
}


def runs(suite):
    for family in ["MassExpiry", *FAMILIES]:
        yield Run(family, functools.partial(suite.measure, "cache_benchmark", f"^BM_{family}/", _values))


def _values(result):
    if match := re.search(r"MassExpiry/expiring:(\d)/pairs:(\d+)", result["name"]):
        name = f"MassExpiry/{match[2]}/{('calm', 'expiring')[int(match[1])]}"
    else:
        name = "/".join(result["name"].removeprefix("BM_").split("/")[:2])
    return name, {f"/{counter}": result[counter] for counter in result if re.match("[gs]et_|left$", counter)}


def section(result):
    items = [_item(MASS_EXPIRY, "MassExpiry")]
    rows = list(_expiry_rows(result))
    charts = {"MassExpiry": _expiry_chart(result)}
    for family, (text, title, names) in FAMILIES.items():
        measured = {row: _medians(result, name) for name, row in names.items()}
        rows += [_row(row, medians) for row, medians in measured.items()]
        items.append(_item(text, family))
        groups = [percentile for percentile in PERCENTILES if any(percentile in of for of in measured.values())]
        charts[family] = duration_chart(title, groups, {row.partition(", ")[2]: of for row, of in measured.items()})
    blocks = ["\n".join(items), table(["", *PERCENTILES], rows)]
    return Section("Latencies", TEXT, blocks, list(_targets(result)), charts)


def _item(text, name):
    return f"- {unwrapped(text)}\\\n  {picture(unwrapped(text).partition(':')[0], name)}"


def _medians(result, name):
    return result.medians({percentile: name + percentile for percentile in PERCENTILES})


def _row(what, medians):
    return [what, *(duration(medians[percentile]) if percentile in medians else "" for percentile in PERCENTILES)]


def _expiry_rows(result):
    for (count, operation), title in EXPIRY_CALLS.items():
        for kind in ("calm", "expiring"):
            yield _row(f"{title}, {kind}", _medians(result, f"MassExpiry/{count}/{kind}/{operation}_"))


def _expiry_chart(result):
    series = {
        kind: {title: result.median(f"MassExpiry/{count}/{kind}/{operation}_p99.9")
               for (count, operation), title in EXPIRY_CALLS.items()}
        for kind in ("calm", "expiring")
    }  # fmt: skip
    return duration_chart("Mass expiry: p99.9", list(EXPIRY_CALLS.values()), series)


def _targets(result):
    for operation in ("get", "set"):
        for count in ("1", "2"):
            names = [f"MassExpiry/{count}/{kind}/{operation}_p99.9" for kind in ("expiring", "calm")]
            what = f"p99.9 of {operation.capitalize()}, expiring to calm; pairs"
            yield at_most(what, MOST_OF_CALM, "project: ratio to a run without expiry", result.ratios(*names), count)
