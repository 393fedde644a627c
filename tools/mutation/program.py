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
# busy machine; of real time without any CPU time, for those that wait for ever; and of real time.
_CPU = (10, 10)
_IDLE = (2, 60)
_REAL = (20, 120)
_LONGEST = 1800  # Where that is unknown.

# A failure counts if one of so many more runs fails as well: tests of threads and sockets are not perfectly steady on a
# busy machine.
_REPETITIONS = 2

# For changes that allocate without end.
_MOST_BYTES = 6 << 30

_POLL_SECONDS = 0.02
_LOOK_SECONDS = 5  # Whether a test has used CPU time.


@dataclasses.dataclass(frozen=True)
class Result:
    passed: bool
    out_of_time: bool
    cpu_seconds: float
    real_seconds: float
    output: str

    def describe(self, label):
        return f"by {label}{', out of time' if self.out_of_time else ''}"


@dataclasses.dataclass(frozen=True)
class _Limits:
    """In seconds."""

    cpu: float
    idle: float
    real: float


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
        limits = _Limits(_LONGEST, _LONGEST, _LONGEST)
        if self.usual is not None:
            cpu, real = self.usual.cpu_seconds, self.usual.real_seconds
            limits = _Limits(_CPU[0] * cpu + _CPU[1], _IDLE[0] * real + _IDLE[1], _REAL[0] * real + _REAL[1])
        folder = pathlib.Path(f"{self.path}.runfiles") / "wheelcache"
        scratch = tempfile.mkdtemp(prefix="mutate-test-")
        seconds = int(limits.cpu)  # The soft limit: SIGXCPU tells why a test ends.
        command = ["prlimit", f"--cpu={seconds}:{seconds + 5}", f"--data={_MOST_BYTES}", "--core=0", str(self.path)]
        try:
            with open(f"{scratch}/output", "w+", errors="replace") as output:
                child = subprocess.Popen(
                    command + self._arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env={**os.environ, **_bazel_environment(self.label, folder, scratch), **environment},
                    start_new_session=True,
                )  # fmt: skip
                status, usage, real = _wait(child.pid, limits)
                child.returncode = status  # It is waited for.
                output.seek(0)
                return Result(
                    passed=status == 0,
                    out_of_time=status is None or status == -signal.SIGXCPU,
                    cpu_seconds=usage.ru_utime + usage.ru_stime,
                    real_seconds=real,
                    output=output.read()[-5000:],
                )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _bazel_environment(label, folder, scratch):
    return {
        "TEST_SRCDIR": str(folder.parent), "RUNFILES_DIR": str(folder.parent), "TEST_WORKSPACE": folder.name,
        "TEST_TARGET": label, "TEST_TMPDIR": scratch, "TMPDIR": scratch, "TZ": "UTC",
    }  # fmt: skip


def _wait(pid, limits):
    """The exit status, None if it has been killed for its time; what it used; and the real time."""
    start = looked = busy = time.monotonic()
    used, late = 0, False
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        now = time.monotonic()
        if ended:
            break
        if now - looked > _LOOK_SECONDS:
            looked, before, used = now, used, _clock_ticks(pid)
            busy = now if used != before else busy
        if not late and (now - start > limits.real or now - busy > limits.idle):
            late = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    try:
        os.killpg(pid, signal.SIGKILL)  # What it has left behind.
    except ProcessLookupError:
        pass
    return None if late else os.waitstatus_to_exitcode(status), usage, now - start


def _clock_ticks(group):
    """The CPU time that the processes of a group have used so far."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks
