"""A copy of the project, with a Bazel server of its own."""

import os
import pathlib
import re
import shutil
import subprocess

# Warnings are not errors: a mutant often leaves something unused.
_BUILD = ["--copt=-w", "--build_runfile_links"]

# In the rule of a test that takes arguments.
_ROOT_PATH = re.compile(r"\$\(rootpath ([^)]+)\)")


class TrialFailed(Exception):
    """The project itself does not build or does not pass its tests."""


class Checkout:
    """Copies what git knows of the project. For one thread at a time."""

    def __init__(self, root, folder):
        self._folder = folder
        folder.mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout.split("\0")  # fmt: skip
        for path in filter(None, listed):
            if (root / path).is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, folder / path, follow_symlinks=False)
        self._output = None

    def read(self, path):
        return (self._folder / path).read_text()

    def write(self, path, source):
        """Replaces a file, unless it is like that already."""
        if self.read(path) != source:
            (self._folder / path).write_text(source)

    def build(self, labels, keep_going=False):
        """Whether all of this builds, and what Bazel prints."""
        code, output = self._bazel("build", *_BUILD, *(["--keep_going"] if keep_going else []), *labels)
        if code not in (0, 1):
            raise TrialFailed(output)
        return code == 0, output

    def package_of(self, path):
        package = pathlib.PurePath(path).parent
        while not (self._folder / package / "BUILD.bazel").is_file():
            package = package.parent
        return package

    def tests_of(self, pattern, path):
        """The labels of the tests that depend on a file, without those that only run when they are named."""
        package = self.package_of(path)
        label = f"//{package}:{pathlib.PurePath(path).relative_to(package)}"
        tests = f"tests(rdeps({pattern}, {label}))"
        return self._query(f'{tests} except attr(tags, "\\bmanual\\b", {tests})').split()

    def order(self, labels, path, usual):
        """Sorts tests: those whose names contain a file's, those in the folder that mirrors its own, the quickest."""
        mirror = f"//tests/{self.package_of(path)}:"
        stem = pathlib.PurePath(path).stem

        def key(label):
            seconds = usual[label].cpu_seconds if label in usual else 0
            return (stem not in label.rpartition(":")[2], not label.startswith(mirror), seconds)

        return sorted(labels, key=key)

    def arguments_of(self, labels):
        """The arguments that the rule of each test gives it, where there are some: paths in its folder."""
        found = {}
        for label in self._query(f'attr(args, rootpath, {" + ".join(labels)})').split():
            package = label[2:].partition(":")[0]
            paths = _ROOT_PATH.findall(self._query("--output=build", label))
            found[label] = [f"{package}/{path}" for path in paths]
        return found

    def program(self, label):
        """The path of what a label builds."""
        return self.output() / label[2:].replace(":", "/")

    def shared_objects(self):
        """The paths of the libraries that have been built."""
        for folder, folders, files in os.walk(self.output()):
            folders[:] = [name for name in folders if not name.endswith(".runfiles") and not name.startswith("_solib")]
            yield from (pathlib.Path(folder) / file for file in files if file.endswith(".so"))

    def output(self):
        if self._output is None:
            code, output = self._bazel("info", "bazel-bin")
            if code != 0:
                raise TrialFailed(output)
            self._output = pathlib.Path(output.split()[-1])
        return self._output

    def end(self):
        """Ends the server, and forgets what it has built."""
        self._bazel("clean", "--expunge")

    def _query(self, *arguments):
        code, output = self._bazel("query", *arguments)
        if code != 0:
            raise TrialFailed(output)
        return output

    def _bazel(self, command, *arguments):
        result = subprocess.run(
            ["./bazelw", command, "--noshow_progress", "--color=no", *arguments],
            cwd=self._folder, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
            # What a query or a path is does not stand among messages.
            stderr=subprocess.STDOUT if command == "build" else subprocess.PIPE,
        )  # fmt: skip
        return result.returncode, result.stderr if result.returncode != 0 and result.stderr else result.stdout
