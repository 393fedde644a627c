"""Runs a test program as Bazel would, with limits."""

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

# What a test may take of what it takes without a mutant, and seconds more. The limit is one of CPU time, which does not
# pass faster on a busy machine; the limit of real time is for those that wait for ever.
_CPU = (10, 10)
_REAL = (20, 120)
_LONGEST = 1800  # Where that is unknown.

# For changes that allocate without end.
_MOST_BYTES = 6 << 30

_POLL_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Result:
    passed: bool
    out_of_time: bool
    cpu_seconds: float
    real_seconds: float
    output: str

    def describe_failure(self, label):
        return f"by {label}{', out of time' if self.out_of_time else ''}"


class Program:
    """A test that is built."""

    def __init__(self, label, path, arguments, usual=None):
        """Takes what it does without a mutant, where that is known."""
        self.label = label
        self.path = path
        self.usual = usual
        self._arguments = arguments

    def run(self, environment):
        if self.usual is None:
            return self._run(environment, _LONGEST, _LONGEST)
        cpu, real = self.usual.cpu_seconds, self.usual.real_seconds
        return self._run(environment, _CPU[0] * cpu + _CPU[1], _REAL[0] * real + _REAL[1])

    def _run(self, environment, cpu_limit, real_limit):
        folder = pathlib.Path(f"{self.path}.runfiles") / "wheelcache"
        scratch = tempfile.mkdtemp(prefix="mutate-test-")
        command = ["prlimit", f"--cpu={int(cpu_limit)}", f"--data={_MOST_BYTES}", "--core=0", str(self.path)]
        try:
            with open(f"{scratch}/output", "w+", errors="replace") as output:
                child = subprocess.Popen(
                    command + self._arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env={**os.environ, **_bazel_environment(self.label, folder, scratch), **environment},
                    start_new_session=True,
                )  # fmt: skip
                status, usage, real = _wait(child.pid, real_limit)
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


def _wait(pid, real_limit):
    """The exit status, None if it has been killed for its time; what it used; and the real time."""
    start = time.monotonic()
    ended, late = 0, False
    while not ended:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if not late and time.monotonic() - start > real_limit:
            late = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    try:
        os.killpg(pid, signal.SIGKILL)  # What it has left behind.
    except ProcessLookupError:
        pass
    return None if late else os.waitstatus_to_exitcode(status), usage, time.monotonic() - start
