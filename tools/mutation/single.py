"""Trials of mutants that are built one by one, because they cannot be switched at run time."""

from mutation import checkout, program

# How many tests are built at a time: each one, before any of them runs.
_BATCH = 4

# The most tests for a mutant of a header, which each have to be compiled. What they do not find, another one rarely
# does; whoever looks into a survivor may run the others.
_MOST_OF_A_HEADER = 24


class SingleTrial:
    """A copy of the project in which one mutant at a time is. For one thread."""

    def __init__(self, root, folder, pattern):
        self._checkout = checkout.Checkout(root, folder)
        self._pattern = pattern

    def outcome(self, path, mutant, usual):
        """As SwitchedTrial.outcome, or "does not build". Takes what each test does without a mutant."""
        original = self._checkout.read(path)
        try:
            self._checkout.write(path, mutant.apply(original))
            return self._outcome(path, usual)
        finally:
            self._checkout.write(path, original)

    def end(self):
        self._checkout.end()

    def _outcome(self, path, usual):
        tests = [label for label in self._checkout.tests_of(self._pattern, path) if label in usual]
        tests = self._checkout.order(tests, path, usual)[: _MOST_OF_A_HEADER if path.endswith(".h") else None]
        for begin in range(0, len(tests), _BATCH):
            batch = tests[begin : begin + _BATCH]
            if not self._checkout.build(batch)[0]:
                return "does not build", ""
            arguments = self._checkout.arguments_of(batch)
            for label in batch:
                built = self._checkout.program(label)
                test = program.Program(label, built, arguments.get(label, []), usual[label])
                if failure := test.find_failure({}):
                    return "killed", failure.describe(label)
        return "survived", f"of {len(tests)} tests"
