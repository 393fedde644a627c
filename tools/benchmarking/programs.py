"""Builds the benchmark programs, and runs their parts one by one."""

import functools
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from .measurements import FLOOR, MOST_SHARED, MOST_STOLEN, PIECES

_THROUGHPUT = re.compile(r"BM_(?P<workload>\w+)<(?P<subject>\w+)>/real_time/threads:(?P<threads>\d+)")


class MeasurementFailed(Exception):
    """A benchmark that says of itself that it did not measure what it should."""


class Run:
    """A part of a program that runs in a process of its own."""

    _TRIES = 5

    def __init__(self, name, measure, once=False):
        self.name = name
        self._measure = measure
        self._once = once

    def rounds(self, rounds):
        return 1 if self._once else rounds

    def measure(self):
        """Returns {name: value}. Tries again where the machine was in the way, so that no round is lost for it."""
        for _ in range(self._TRIES - 1):
            try:
                return self._measure()
            except MeasurementFailed as failure:
                print(f"\nbenchmark: {failure}; once more", file=sys.stderr)
        try:
            return self._measure()
        except MeasurementFailed as failure:
            sys.exit(f"benchmark: {failure}")


def _is_quiet(piece):
    return piece["stolen"] <= MOST_STOLEN and piece["shared"] <= MOST_SHARED


def _quietest(pieces, least):
    """Returns the quiet ones, or the quietest if there are fewer than `least`."""
    quiet = [piece for piece in pieces if _is_quiet(piece)]
    if len(quiet) >= least:
        return quiet
    return sorted(pieces, key=lambda piece: max(piece["stolen"], piece["shared"]))[:least]


class Patience:
    """How long benchmarks may run again for.

    Each run has an equal part of what is left, so that one bad quarter of an hour does not use up what the rounds after
    it need.
    """

    def __init__(self, seconds):
        self._left = seconds
        self._share = 0

    def share_among(self, runs):
        """Begins a run, the first of so many."""
        self._share = self._left / runs

    def lasts(self):
        return self._share > 0

    def spend(self, seconds):
        self._left -= seconds
        self._share -= seconds


class Suite:
    """The benchmarks of one configuration."""

    # So many pieces of a measurement of throughput must have been quiet.
    _LEAST_PIECES = 3

    def __init__(self, root, config, min_time, patience):
        self._root = root
        self._min_time = min_time
        self._patience = patience
        self._bazel("build", f"--config={config}", "//benchmarks/...")
        self._folder = pathlib.Path(self._bazel("info", f"--config={config}", "bazel-bin").strip()) / "benchmarks"

    def runs(self):
        """Returns all runs, in the order of a round: each workload, on one number of threads after the other."""
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
        return runs

    def _measure_throughput(self, workload, threads, benchmarks):
        """All subjects on so many threads, and in turn with them the floor on one."""
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

    def _benchmark(self, program, pattern):
        """Runs the benchmarks that match, and returns what each reported when the least was stolen from it.

        A benchmark runs again in a process of its own, from the same state: what two threads can do on two processors
        shows only where there are two. What is kept is chosen by that alone.
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
        """Runs benchmarks in turn, and returns of each the pieces in which it had the processors to itself.

        Those of which that can be said last for some ten milliseconds where other guests are busy. Where a benchmark
        has few, all run again, for what is compared is to meet the same minutes; where it has none in the end, its
        least disturbed ones count. What was measured does not decide.
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

    def _output(self, program, *arguments):
        return self._call([self._folder / program, *arguments])

    def _bazel(self, *arguments):
        return self._call([self._root / "bazelw", *arguments])

    def _call(self, command):
        """Runs a program and returns its output; ends this one with what it said if it fails."""
        finished = subprocess.run(command, cwd=self._root, text=True, capture_output=True)
        if finished.returncode != 0:
            sys.exit(f"{finished.stderr}\nbenchmark: {command[0]} failed")
        return finished.stdout


class Progress:
    """A line on standard error, rewritten in place on a terminal."""

    def __init__(self, steps):
        self._steps = steps
        self._done = 0
        self._begin = time.monotonic()

    def show(self, *parts):
        left = ""
        if self._done > 0:
            seconds = (time.monotonic() - self._begin) / self._done * (self._steps - self._done)
            left = f"about {seconds / 60:.0f} min left"
        self._done += 1
        self._write("  ".join([f"[{self._done}/{self._steps}]", *parts, left]))

    def end(self):
        self._write(f"[{self._steps}/{self._steps}]  {(time.monotonic() - self._begin) / 60:.0f} min\n")

    def _write(self, line):
        start, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
        print(start + line.rstrip(), end=end, file=sys.stderr, flush=True)
