"""Scaling: the throughput of wheelcache on one thread, and on up to as many as there are cores. It is only printed."""

import functools

from .programs import Run
from .throughput import PROGRAM, WORKLOADS

KEY = "scaling"


def runs(suite):
    names = suite.list(PROGRAM)
    for workload in WORKLOADS:
        begin = f"BM_{workload}<wheelcache>/real_time/threads:"
        benchmarks = {name: f"{workload}/{name.removeprefix(begin)}" for name in names if name.startswith(begin)}
        yield Run(workload, functools.partial(suite.measure_interleaved, PROGRAM, benchmarks))
