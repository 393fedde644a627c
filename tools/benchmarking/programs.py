"""Builds the benchmark programs and runs them, one part at a time."""

import dataclasses
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

# The quiet pieces that a throughput measurement needs.
_LEAST_PIECES = 3

# A busy machine may cause a benchmark to fail.
_TRIES = 5


class MeasurementFailed(Exception):
    """A benchmark reported an error, so its figures mean nothing."""


@dataclasses.dataclass
class Run:
    """A set of benchmarks that runs in one process. `call` returns {name: value}."""

    name: str
    call: object
    once: bool = False  # Not in each round.

    def measure(self):
        for left in reversed(range(_TRIES)):
            try:
                return self.call()
            except MeasurementFailed as failure:
                if left == 0:
                    sys.exit(f"benchmark: {failure}")
                print(f"benchmark: {failure}; trying again", file=sys.stderr)


def _is_quiet(piece):
    return piece["stolen"] <= MOST_STOLEN and piece["shared"] <= MOST_SHARED


def _medians_of_quietest(pieces):
    """Returns {counter: median} of the quiet pieces, or of the quietest ones if there are too few."""
    loudness = [0 if _is_quiet(piece) else max(piece["stolen"], piece["shared"]) for piece in pieces]
    count = max(_LEAST_PIECES, loudness.count(0))
    kept = [piece for _, piece in sorted(zip(loudness, pieces), key=lambda pair: pair[0])][:count]
    counters = [name for name, value in pieces[0].items() if isinstance(value, (int, float))]
    return {name: statistics.median(piece[name] for piece in kept) for name in counters}


def exact(names):
    """Returns the filter for these benchmarks."""
    return f"^({'|'.join(map(re.escape, names))})$"


def numbers(output):
    """Returns {name: value} of what programs of our own print."""
    return {name: float(value) for name, value in (line.split("\t") for line in output.splitlines())}


class Suite:
    """The benchmark programs of one configuration, and the ways of running them."""

    def __init__(self, root, config, min_time):
        self._root = root
        self._min_time = min_time
        self._call([root / "bazelw", "build", f"--config={config}", "//benchmarks/..."])
        folder = self._call([root / "bazelw", "info", f"--config={config}", "bazel-bin"])
        self._folder = pathlib.Path(folder.strip()) / "benchmarks"
        self.with_peers = config == "peers"
        self.patience = 0  # Seconds left for repetitions.

    def measure(self, program, pattern, values_of):
        """Runs the benchmarks that match, and of each keeps the repetition with the least CPU steal.

        Each repetition is a new process, so that all start from the same state. Only steal decides which one is kept,
        never the figure that was measured. `values_of` returns, for a benchmark's results, the name and the values
        {end of the name: value}.
        """
        best = {result["name"]: result for result in self._benchmark(program, pattern)}
        while again := [name for name, result in best.items() if result.get("stolen", 0) > MOST_STOLEN]:
            if self.patience <= 0:
                break
            for result in self._repeat(program, exact(again)):
                best[result["name"]] = min(best[result["name"]], result, key=lambda result: result["stolen"])
        values = {}
        for result in best.values():
            name, of_name = values_of(result)
            values |= {name + end: value for end, value in of_name.items()}
            if "stolen" in result:
                values[f"stolen/{name}"] = result["stolen"]
        return values

    def measure_interleaved(self, program, benchmarks):
        """Runs {benchmark: name} interleaved, in pieces, and returns medians of those that had their cores alone.

        If one has too few such pieces, all benchmarks run again, because only figures of the same minutes compare. If
        one still has too few when the time is over, its quietest pieces count. The figure that was measured never
        decides.
        """
        pieces = {benchmark: [] for benchmark in benchmarks}
        results = self._benchmark(program, exact(benchmarks), PIECES)
        while True:
            for result in results:
                pieces[result["name"]].append(result)
            enough = all(sum(map(_is_quiet, of_one)) >= _LEAST_PIECES for of_one in pieces.values())
            if enough or self.patience <= 0:
                break
            results = self._repeat(program, exact(benchmarks), PIECES)
        values = {}
        for benchmark, name in benchmarks.items():
            counters = _medians_of_quietest(pieces[benchmark])
            values[name] = counters["items_per_second"]
            values |= {f"{kind}/{name}": counters[kind] for kind in ("stolen", "shared")}
            if "miss_ratio" in counters:
                values[f"{name}/misses"] = counters["miss_ratio"]
        return values

    def _repeat(self, *arguments):
        begin = time.monotonic()
        results = self._benchmark(*arguments)
        self.patience -= time.monotonic() - begin
        return results

    def _benchmark(self, program, pattern, pieces=1):
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

    def list(self, program):
        """Returns the names of the program's benchmarks."""
        return self.output(program, "--benchmark_list_tests").splitlines()

    def output(self, program, *arguments, environment=None):
        """Runs the program and returns what it writes."""
        return self._call([self._folder / program, *arguments], environment)

    def tool(self, name, *arguments):
        """Runs a tool of the project and returns what it writes."""
        return self._call([self._root / "tools" / name, *arguments])

    def _call(self, command, environment=None):
        """Runs a program and returns its output. If it fails, exits with its error output."""
        variables = {**os.environ, **(environment or {})}
        finished = subprocess.run(command, cwd=self._root, env=variables, text=True, capture_output=True)
        if finished.returncode != 0:
            sys.exit(f"{finished.stderr}\nbenchmark: {command[0]} failed")
        return finished.stdout
