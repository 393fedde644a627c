"""Builds the benchmark programs and runs them, one part at a time."""

import ctypes.util
import functools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from .measurements import FLOOR, MOST_SHARED, MOST_STOLEN, PIECES

# Replacements of malloc: the name of the library, and the Debian package that has it.
_ALLOCATORS = {"jemalloc": ("jemalloc", "libjemalloc2"), "tcmalloc": ("tcmalloc_minimal", "libtcmalloc-minimal4")}

_THROUGHPUT = re.compile(r"BM_(?P<workload>\w+)<(?P<subject>\w+)>/real_time/threads:(?P<threads>\d+)")


class MeasurementFailed(Exception):
    """A benchmark reported an error, so its figures mean nothing."""


class Run:
    """A set of benchmarks that runs in one process."""

    _TRIES = 5

    def __init__(self, name, measure, once=False):
        self.name = name
        self._measure = measure
        self._once = once

    def rounds(self, rounds):
        return 1 if self._once else rounds

    def measure(self):
        """Returns {name: value}. Tries again after a failure, which a busy machine may cause."""
        for _ in range(self._TRIES - 1):
            try:
                return self._measure()
            except MeasurementFailed as failure:
                print(f"\nbenchmark: {failure}; trying again", file=sys.stderr)
        try:
            return self._measure()
        except MeasurementFailed as failure:
            sys.exit(f"benchmark: {failure}")


def _is_quiet(piece):
    return piece["stolen"] <= MOST_STOLEN and piece["shared"] <= MOST_SHARED


def _quietest(pieces, least):
    """Returns the quiet pieces, or the `least` quietest ones if there are fewer."""
    quiet = [piece for piece in pieces if _is_quiet(piece)]
    if len(quiet) >= least:
        return quiet
    return sorted(pieces, key=lambda piece: max(piece["stolen"], piece["shared"]))[:least]


class Patience:
    """The time left for repetitions.

    Each run gets an equal share of it, so that one busy quarter of an hour does not use up the time of later rounds.
    """

    def __init__(self, seconds):
        self._left = seconds
        self._share = 0

    def share_among(self, runs):
        """Begins the first of `runs` runs, which share the time left."""
        self._share = self._left / runs

    def lasts(self):
        return self._share > 0

    def spend(self, seconds):
        self._left -= seconds
        self._share -= seconds


class Suite:
    """The benchmarks of one configuration."""

    # The quiet pieces that a throughput measurement needs.
    _LEAST_PIECES = 3

    def __init__(self, root, config, min_time, patience):
        self._root = root
        self._min_time = min_time
        self._patience = patience
        self._bazel("build", f"--config={config}", "//benchmarks/...")
        if config == "peers":
            self._call([root / "tools" / "install_packages", *(package for _, package in _ALLOCATORS.values())])
        self._folder = pathlib.Path(self._bazel("info", f"--config={config}", "bazel-bin").strip()) / "benchmarks"

    def runs(self):
        """Returns all runs in the order of a round: by workload, then by number of threads."""
        groups = {}
        for name in self._list("cache_benchmark"):
            if match := _THROUGHPUT.fullmatch(name):
                groups.setdefault((match["workload"], match["threads"]), []).append(name)
        runs = [
            Run(f"{workload}/{threads}", functools.partial(self._measure_throughput, workload, threads, names))
            for (workload, threads), names in groups.items()
        ]
        runs.append(Run("MassExpiry", self._measure_mass_expiry))
        runs.append(Run("Storm", lambda: self._measure_latencies("Storm")))
        runs.append(Run("Growth", lambda: self._measure_latencies("Growth")))
        if (self._folder / "timing_wheel_benchmark").exists():
            runs.append(Run("TimingWheel", self._measure_timing_wheel))
        runs.append(Run("memory", self._measure_memory, once=True))
        runs.append(Run("histories", lambda: self._measure_histories("--series"), once=True))
        for allocator, (name, _) in _ALLOCATORS.items():
            if library := ctypes.util.find_library(name):
                measure = functools.partial(self._measure_histories_with, allocator, library)
                runs.append(Run(f"histories/{allocator}", measure, once=True))
        return runs

    def _measure_throughput(self, workload, threads, benchmarks):
        """Measures all subjects on `threads` threads, interleaved with the floor on one."""
        floor = f"BM_{workload}<{FLOOR}>/real_time/threads:1"
        values = {}
        for pieces in self._benchmark_in_pieces("cache_benchmark", dict.fromkeys([*benchmarks, floor])):
            benchmark = pieces[0]["name"]
            names = [f"floor/{workload}/{threads}"] if benchmark == floor else []
            if benchmark in benchmarks:
                names.append(f"{workload}/{_THROUGHPUT.fullmatch(benchmark)['subject']}/{threads}")
            counters = {name: "items_per_second" for name in names} | {
                f"{names[-1]}/misses": "miss_ratio",
                f"stolen/{names[-1]}": "stolen",
                f"shared/{names[-1]}": "shared",
            }
            for value, counter in counters.items():
                values[value] = statistics.median(piece[counter] for piece in pieces)
        return values

    def _measure_mass_expiry(self):
        values = {}
        for result in self._benchmark("cache_benchmark", "^BM_MassExpiry/"):
            expiring, pairs = re.search(r"expiring:(\d)/pairs:(\d+)", result["name"]).groups()
            name = f"MassExpiry/{pairs}/{('calm', 'expiring')[int(expiring)]}"
            for counter in result:
                if re.match("[gs]et", counter) or counter == "left":
                    values[f"{name}/{counter}"] = result[counter]
            values[f"stolen/{name}"] = result["stolen"]
        return values

    def _measure_latencies(self, family):
        values = {}
        for result in self._benchmark("cache_benchmark", f"^BM_{family}/"):
            part = result["name"].split("/")[1]
            values.update((f"{family}/{part}/{name}", result[name]) for name in result if re.match("[gs]et_", name))
            values[f"stolen/{family}/{part}"] = result["stolen"]
        return values

    def _measure_timing_wheel(self):
        values = {}
        for result in self._benchmark("timing_wheel_benchmark", "."):
            operation, subject, arguments = re.match(r"BM_(\w+)<(\w+)>/?(.*?)/?iterations", result["name"]).groups()
            name = f"TimingWheel/{operation}/{arguments.replace('/', ' ')}/{subject}"
            values[name] = result["real_time"]
            if "stolen" in result:
                values[f"stolen/{name}"] = result["stolen"]
        return values

    def _measure_memory(self):
        lines = self._output("memory_benchmark").splitlines()
        return {name: float(value) for name, value in (line.split("\t") for line in lines)}

    def _measure_histories(self, *arguments, environment=None):
        lines = self._output("memory_histories", *arguments, environment=environment).splitlines()
        values = {}
        for name, value in (line.split("\t") for line in lines):
            values[name] = list(map(float, value.split())) if name.endswith("/series") else float(value)
        return values

    def _measure_histories_with(self, allocator, library):
        """Measures wheelcache alone, with another malloc."""
        values = self._measure_histories("wheelcache/", environment={"LD_PRELOAD": library})
        return {name.replace("/wheelcache/", f"/wheelcache_{allocator}/"): value for name, value in values.items()}

    def _benchmark(self, program, pattern):
        """Runs the benchmarks that match, and returns of each the repetition with the least CPU steal.

        Each repetition is a new process, so that all start from the same state. Only steal decides which one is kept,
        never the figure that was measured.
        """
        best = {result["name"]: result for result in self._benchmark_once(program, pattern)}
        while self._patience.lasts():
            names = [name for name, result in best.items() if result.get("stolen", 0) > MOST_STOLEN]
            if not names:
                break
            begin = time.monotonic()
            for result in self._benchmark_once(program, f"^({'|'.join(map(re.escape, names))})$"):
                best[result["name"]] = min(best[result["name"]], result, key=lambda result: result["stolen"])
            self._patience.spend(time.monotonic() - begin)
        return list(best.values())

    def _benchmark_in_pieces(self, program, names):
        """Runs benchmarks interleaved, and returns of each the pieces that had their cores to themselves.

        If one has too few such pieces, all benchmarks run again, because only figures of the same minutes compare. If
        one still has too few when the time is over, its quietest pieces count. The figure that was measured never
        decides.
        """
        pieces = {name: [] for name in names}

        def run():
            for result in self._benchmark_once(program, f"^({'|'.join(map(re.escape, names))})$", PIECES):
                pieces[result["name"]].append(result)

        run()
        while any(sum(map(_is_quiet, results)) < self._LEAST_PIECES for results in pieces.values()):
            if not self._patience.lasts():
                break
            begin = time.monotonic()
            run()
            self._patience.spend(time.monotonic() - begin)
        return [_quietest(results, self._LEAST_PIECES) for results in pieces.values()]

    def _benchmark_once(self, program, pattern, pieces=1):
        with tempfile.NamedTemporaryFile() as out:
            self._output(
                program,
                f"--benchmark_filter={pattern}",
                f"--benchmark_min_time={self._min_time / pieces}",
                f"--benchmark_repetitions={pieces}",
                f"--benchmark_enable_random_interleaving={'true' if pieces > 1 else 'false'}",
                f"--benchmark_out={out.name}",
                "--benchmark_out_format=json",
            )
            results = [result for result in json.load(out)["benchmarks"] if result["run_type"] == "iteration"]
        for result in results:
            if result.get("error_occurred"):
                raise MeasurementFailed(f"{result['name']}: {result['error_message']}")
        return results

    def _list(self, program):
        return self._output(program, "--benchmark_list_tests").splitlines()

    def _output(self, program, *arguments, environment=None):
        return self._call([self._folder / program, *arguments], environment)

    def _bazel(self, *arguments):
        return self._call([self._root / "bazelw", *arguments])

    def _call(self, command, environment=None):
        """Runs a program and returns its output. If it fails, exits with its error output."""
        variables = {**os.environ, **(environment or {})}
        finished = subprocess.run(command, cwd=self._root, env=variables, text=True, capture_output=True)
        if finished.returncode != 0:
            sys.exit(f"{finished.stderr}\nbenchmark: {command[0]} failed")
        return finished.stdout
