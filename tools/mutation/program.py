"""Runs a test program as Bazel would, with limits."""

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

# What a test may take of what it takes without a mutant, and seconds more: of CPU time, which does not pass faster on a
# busy machine, and of real time, for those that wait for ever.
_CPU = (10, 10)
_REAL = (10, 60)
_LONGEST = 1800  # Where that is unknown.

# A failure counts if one of so many more runs fails as well: tests of threads and sockets are not perfectly steady on a
# busy machine.
_REPETITIONS = 2

# For changes that allocate without end.
_MOST_BYTES = 6 << 30

# How a test ends that has used up its CPU time or its real time: by a signal, or with what `timeout` makes of it.
_OUT_OF_TIME = {how for number in (signal.SIGXCPU, signal.SIGKILL) for how in (-number, 128 + number)}


@dataclasses.dataclass(frozen=True)
class Result:
    passed: bool
    out_of_time: bool
    cpu_seconds: float
    real_seconds: float
    output: str

    def describe(self, label):
        return f"by {label}{', out of time' if self.out_of_time else ''}"


class Program:
    """A test that is built."""

    def __init__(self, label, path, arguments, usual=None):
        """Takes what it does without a mutant, where that is known."""
        self.label = label
        self.path = path
        self.usual = usual
        self._arguments = arguments

    def find_failure(self, environment):
        """Runs it. Returns how it fails, if it does so more than once or has no more time; else None."""
        first = self.run(environment)
        if first.passed or first.out_of_time:
            return None if first.passed else first
        again = (self.run(environment) for _ in range(_REPETITIONS))
        return next((result for result in again if not result.passed), None)

    def run(self, environment):
        """Runs it, with these variables besides those of this process."""
        cpu = real = _LONGEST
        if self.usual is not None:
            cpu = int(_CPU[0] * self.usual.cpu_seconds) + _CPU[1]
            real = _REAL[0] * self.usual.real_seconds + _REAL[1]
        folder = pathlib.Path(f"{self.path}.runfiles") / "wheelcache"
        scratch = tempfile.mkdtemp(prefix="mutate-test-")
        # The soft limit of CPU time: SIGXCPU tells why a test ends.
        command = ["timeout", "--signal=KILL", str(real), "prlimit", f"--cpu={cpu}:{cpu + 5}",
                   f"--data={_MOST_BYTES}", "--core=0", str(self.path), *self._arguments]  # fmt: skip
        start = time.monotonic()
        try:
            with open(f"{scratch}/output", "w+", errors="replace") as output:
                child = subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env={**os.environ, **_bazel_environment(self.label, folder, scratch), **environment},
                    start_new_session=True,
                )  # fmt: skip
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)  # It is waited for.
                _kill_group(child.pid)
                output.seek(0)
                return Result(
                    passed=child.returncode == 0,
                    out_of_time=child.returncode in _OUT_OF_TIME,
                    cpu_seconds=usage.ru_utime + usage.ru_stime,
                    real_seconds=time.monotonic() - start,
                    output=output.read()[-5000:],
                )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _kill_group(group):
    """Ends what a test has left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _bazel_environment(label, folder, scratch):
    return {
        "TEST_SRCDIR": str(folder.parent), "RUNFILES_DIR": str(folder.parent), "TEST_WORKSPACE": folder.name,
        "TEST_TARGET": label, "TEST_TMPDIR": scratch, "TMPDIR": scratch, "TZ": "UTC",
    }  # fmt: skip
