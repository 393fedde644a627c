"""Tells how far a run of the benchmarks is."""

import sys
import time


class Progress:
    """A progress line on standard error, updated in place on a terminal."""

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
