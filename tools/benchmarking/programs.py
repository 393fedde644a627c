"""Builds the benchmark programs and runs them, one part at a time."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from .measurements import MOST_SHARED, MOST_STOLEN, PIECES


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


def _medians(pieces):
    """Returns {counter: median} of the numbers that all pieces have."""
    counters = [name for name, value in pieces[0].items() if isinstance(value, (int, float))]
    return {name: statistics.median(piece[name] for piece in pieces) for name in counters}


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
    """The benchmark programs of one configuration, and the ways of running them."""

    # The quiet pieces that a throughput measurement needs.
    _LEAST_PIECES = 3

    def __init__(self, root, config, min_time, patience):
        self._root = root
        self._min_time = min_time
        self._patience = patience
        self._bazel("build", f"--config={config}", "//benchmarks/...")
        self.with_peers = config == "peers"
        self._folder = pathlib.Path(self._bazel("info", f"--config={config}", "bazel-bin").strip()) / "benchmarks"

    def benchmark(self, program, pattern):
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

    def benchmark_in_pieces(self, program, names):
        """Runs benchmarks interleaved, and returns {name: counters}, medians of the pieces that had their cores alone.

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
        return {name: _medians(_quietest(results, self._LEAST_PIECES)) for name, results in pieces.items()}

    def _benchmark_once(self, program, pattern, pieces=1):
        with tempfile.NamedTemporaryFile() as out:
            self.output(
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

    def has(self, program):
        return (self._folder / program).exists()

    def list(self, program):
        """Returns the names of the program's benchmarks."""
        return self.output(program, "--benchmark_list_tests").splitlines()

    def output(self, program, *arguments, environment=None):
        """Runs the program and returns what it writes."""
        return self._call([self._folder / program, *arguments], environment)

    def install(self, *packages):
        """Installs packages of Debian."""
        self._call([self._root / "tools" / "install_packages", *packages])

    def _bazel(self, *arguments):
        return self._call([self._root / "bazelw", *arguments])

    def _call(self, command, environment=None):
        """Runs a program and returns its output. If it fails, exits with its error output."""
        variables = {**os.environ, **(environment or {})}
        finished = subprocess.run(command, cwd=self._root, env=variables, text=True, capture_output=True)
        if finished.returncode != 0:
            sys.exit(f"{finished.stderr}\nbenchmark: {command[0]} failed")
        return finished.stdout
