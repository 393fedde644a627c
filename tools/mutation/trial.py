"""Runs the tests on a copy of the project in which one file is changed."""

import pathlib
import re
import shutil
import subprocess

_RESULT = re.compile(r"^(//\S+)\s+(?:\(cached\) )?(PASSED|FAILED|TIMEOUT)(?: in (?:\d+ out of \d+ in )?([\d.]+)s)?", re.M)

# Bazel's exit codes.
_BUILD_FAILED = 1
_TESTS_FAILED = 3

# A test that takes so much longer than without the change hangs.
_PATIENCE = 10
_LEAST_SECONDS = 20

# For changes that allocate without end.
_MOST_BYTES = 6 << 30

# How many tests are built at a time: each one, before any of them runs.
_BATCH = 4


class TrialFailed(Exception):
    """The project itself does not build or does not pass its tests."""


class Trial:
    """A copy of the project, with a Bazel server of its own."""

    def __init__(self, root, folder, tests):
        """Takes the tests that may be run, as a pattern of Bazel's."""
        self._folder = folder
        self._pattern = tests
        self._tests = {}  # Of each file, the labels of those that depend on it.
        self._seconds = {}  # Of each test, without a change.
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout.split("\0")  # fmt: skip
        for path in filter(None, listed):
            if (root / path).is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, folder / path, follow_symlinks=False)

    def prepare(self, paths):
        """Runs the tests that depend on these files, and measures how long each takes."""
        for path in paths:
            self._tests[path] = self._find_tests(path)
        labels = sorted(set().union(*self._tests.values()))
        if not labels:
            raise TrialFailed(f"no test of {self._pattern} depends on these files")
        code, output = self._bazel("test", "--keep_going", *self._run_under(), *labels)
        if code != 0:
            raise TrialFailed(output)
        for label, _, seconds in _RESULT.findall(output):
            self._seconds[label] = float(seconds or 0)

    def end(self):
        """Ends the server, and forgets what it has built."""
        self._bazel("clean", "--expunge")

    def outcome(self, path, source):
        """What becomes of the file with this source: "does not build", "survived", or the test that fails."""
        file = self._folder / path
        original = file.read_bytes()
        try:
            file.write_text(source)
            return self._outcome(path)
        finally:
            file.write_bytes(original)

    def _outcome(self, path):
        tests = self._tests_of(path)
        for begin in range(0, len(tests), _BATCH):
            batch = tests[begin : begin + _BATCH]
            slowest = max(self._seconds[label] for label in batch)
            code, output = self._bazel(
                "test", "--notest_keep_going", f"--test_timeout={max(_LEAST_SECONDS, int(slowest * _PATIENCE))}",
                *self._run_under(), *batch,
            )  # fmt: skip
            if code == _TESTS_FAILED:
                failed = [label for label, result, _ in _RESULT.findall(output) if result != "PASSED"]
                return failed[0] if failed else "a test that was not named"
            if code == _BUILD_FAILED:
                return "does not build"
            if code != 0:
                raise TrialFailed(output)
        return "survived"

    def _find_tests(self, path):
        package = self._package_of(path)
        label = f"//{package}:{pathlib.PurePath(path).relative_to(package)}"
        code, output = self._bazel("query", f"tests(rdeps({self._pattern}, {label}))")
        if code != 0:
            raise TrialFailed(output)
        return [line for line in output.split() if line.startswith("//")]

    def _tests_of(self, path):
        """The tests that depend on a file: first those in the folder that mirrors its own, then the quickest."""
        mirror = f"//tests/{self._package_of(path)}:"
        stem = pathlib.PurePath(path).stem

        def key(label):
            return (not label.rpartition(":")[2].startswith(stem), not label.startswith(mirror), self._seconds[label])

        return sorted(self._tests[path], key=key)

    def _package_of(self, path):
        package = pathlib.PurePath(path).parent
        while not (self._folder / package / "BUILD.bazel").is_file():
            package = package.parent
        return package

    @staticmethod
    def _run_under():
        return [f"--run_under=prlimit --data={_MOST_BYTES}"] if shutil.which("prlimit") else []

    def _bazel(self, command, *arguments):
        result = subprocess.run(
            ["./bazelw", command, "--noshow_progress", "--color=no", *arguments],
            cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return result.returncode, result.stdout
