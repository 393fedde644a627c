"""Trials of mutants that are all in one copy of the project, whose tests are built once.

The tests run once without a mutant, which shows how long each takes and which mutants it reaches. A mutant then costs
no more than the tests that reach it, up to the first that fails.
"""

import pathlib
import re
from concurrent import futures

from mutation import checkout, program, switches
from mutation.checkout import TrialFailed

# A place in a compiler's message. Bazel shows headers by way of folders of links, _virtual_includes.
_PLACE = re.compile(r"(?:^|\s)(?:\S*/_virtual_includes/\S+?/wheelcache/)?([\w/.-]+\.(?:h|cc)):(\d+):(?:\d+:)?(.*)")


def find_errors(output):
    """The places of errors in a compiler's messages, as pairs of path and line, and all other places in them.

    >>> errors, others = find_errors('''In file included from tests/lru/list_test.cc:3:
    ... bazel-out/k8-fastbuild/bin/lru/_virtual_includes/list/wheelcache/lru/list.h:12:7: error: expected ')'
    ... lru/list.cc:31:5:   required from here
    ... ''')
    >>> sorted(errors), sorted(others)
    ([('lru/list.h', 12)], [('lru/list.cc', 31), ('tests/lru/list_test.cc', 3)])
    """
    errors, others = set(), set()
    for line in output.splitlines():
        if match := _PLACE.search(line):
            (errors if " error:" in match[3] else others).add((match[1], int(match[2])))
    return errors, others


class SwitchedTrial:
    """All mutants that are drawn. `outcome` may be called by several threads."""

    def __init__(self, root, folder, pattern, log):
        """Takes the tests that may be run, as a pattern of Bazel's, and a function that is told of the progress."""
        self._checkout = checkout.Checkout(root, folder)
        self._reached = folder.with_name("reached")
        self._reached.mkdir()
        self._pattern = pattern
        self._log = log
        self._sources = {}
        self._tests = {}  # Of each file, the labels of those that depend on it.
        self._numbered = {}  # The mutants that are switched, by number: pairs of path and mutant.
        self._count = 0
        self._programs = {}  # By label.
        self._reaching = {}  # By label, the numbers of the mutants that a test reaches.

    def prepare(self, drawn, jobs):
        """Takes pairs of path and mutant, builds the tests, and runs them without a mutant.

        Returns the numbers of those that are switched, and the other pairs.
        """
        self._count = len(drawn)
        for path, _ in drawn:
            self._sources[path] = self._checkout.read(path)
            self._tests[path] = self._checkout.tests_of(self._pattern, path)
        labels = sorted(set().union(*self._tests.values()))
        if not labels:
            raise TrialFailed(f"no test of {self._pattern} depends on these files")
        self._numbered = {
            number: (path, mutant)
            for number, (path, mutant) in enumerate(drawn, 1)
            if switches.fits(self._sources[path], mutant)
        }
        # An error shows sooner in the library and a few tests than in all.
        near = [label for path in self._tests for label in self._checkout.order(self._tests[path], path, {})[:1]]
        self._build(sorted(set(near)))
        self._build(labels)
        self._measure(labels, jobs)
        self._leave_out_the_dead()
        return sorted(self._numbered), [pair for number, pair in enumerate(drawn, 1) if number not in self._numbered]

    def mutant(self, number):
        """The path and the mutant."""
        return self._numbered[number]

    def outcome(self, number):
        """Whether a mutant was "killed" or "survived", and by what."""
        path, _ = self._numbered[number]
        reaching = [label for label in self._programs if number in self._reaching[label]]
        if not reaching:
            return "survived", "no test reaches it"
        for label in self._checkout.order(reaching, path, self.usual()):
            if failure := self._programs[label].find_failure({switches.NUMBER: str(number)}):
                return "killed", failure.describe(label)
        return "survived", f"{len(reaching)} tests reach it"

    def usual(self):
        """What each test does without a mutant."""
        return {label: test.usual for label, test in self._programs.items()}

    def end(self):
        self._checkout.end()

    def _build(self, labels):
        """Builds with all mutants, but for those with which that fails."""
        while True:
            for path, source in self._sources.items():
                mine = [(number, mutant) for number, (file, mutant) in self._numbered.items() if file == path]
                self._checkout.write(path, switches.prelude(self._count + 1) + switches.insert(source, mine))
            built, output = self._checkout.build(labels, keep_going=True)
            if built:
                return
            errors, others = find_errors(output)
            to_blame = self._at(errors) or self._at(others) or self._before(errors)
            if not to_blame:
                raise TrialFailed(output)
            for number in to_blame:
                path, mutant = self._numbered.pop(number)
                self._log(f"cannot be switched: {path}:{mutant.line}: {mutant.before} -> {mutant.after}")

    def _at(self, places):
        """The mutants in these lines."""
        found = []
        for number, (path, mutant) in self._numbered.items():
            source = self._sources[path]
            first, last = (source.count("\n", 0, at) + 1 for at in (mutant.whole_start, mutant.whole_end))
            if any(file == path and first <= line <= last for file, line in places):
                found.append(number)
        return found

    def _before(self, places):
        """For each place the last mutant that begins before it: what does not parse may show only later."""
        found = set()
        for file, error_line in places:
            earlier = [
                (mutant.whole_start, number)
                for number, (path, mutant) in self._numbered.items()
                if path == file and self._sources[path].count("\n", 0, mutant.whole_start) < error_line
            ]
            if earlier:
                found.add(max(earlier)[1])
        return found

    def _measure(self, labels, jobs):
        arguments = self._checkout.arguments_of(labels)
        tests = [
            program.Program(label, self._checkout.program(label), arguments.get(label, [])) for label in labels
        ]  # fmt: skip
        with futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self._measure_one, tests))

    def _measure_one(self, test):
        marks = self._reached / re.sub(r"\W", "_", test.label)
        marks.write_bytes(bytes(self._count + 1))
        test.usual = test.run({switches.REACHED: str(marks)})
        if not test.usual.passed:
            self._log(f"fails without a mutant, and is left out: {test.label}\n{test.usual.output}")
            return
        self._reaching[test.label] = {number for number, mark in enumerate(marks.read_bytes()) if mark}
        self._programs[test.label] = test

    def _leave_out_the_dead(self):
        """Those that no test reaches because a compiler has left their switches out."""
        live = set().union(*self._reaching.values())
        for path in [*(test.path for test in self._programs.values()), *self._checkout.shared_objects()]:
            live |= switches.find_live(pathlib.Path(path).read_bytes())
        for number in sorted(self._numbered.keys() - live):
            path, mutant = self._numbered.pop(number)
            self._log(f"is evaluated by the compiler: {path}:{mutant.line}: {mutant.before} -> {mutant.after}")
