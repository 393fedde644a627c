"""What was measured: for each name, a value for each round."""

import json
import statistics

# A benchmark from which the host kept more than this part of the processors' time runs again, as long as there is time.
MOST_STOLEN = 0.05

# So does one of which other guests had a part of the cores for more than this part of the time, where it tells that.
MOST_SHARED = 0.1

# The subject to which others are compared. On one thread, it runs in turn with those that are.
FLOOR = "flat_hash_map"

# A measurement of throughput is taken in so many pieces, of which those count that were disturbed less than that.
PIECES = 12


class Measurements:
    """Names look like paths: "SetNew/wheelcache/8" are the operations per second of 8 threads."""

    def __init__(self, machine, values=None):
        self.machine = machine  # What machine.describe() returns.
        self.values = values or {}

    def add(self, values):
        """Adds a round's values."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def has(self, name):
        return name in self.values

    def names(self, prefix):
        return [name for name in self.values if name.startswith(prefix)]

    def median(self, name):
        return statistics.median(self.values[name])

    def ratios(self, name, base):
        """Returns the ratio within each round. Between rounds the machine may have changed its pace."""
        return [a / b for a, b in zip(self.values[name], self.values[base])]

    def ratio(self, name, base):
        return statistics.median(self.ratios(name, base))

    def rounds(self):
        return max(len(values) for values in self.values.values())

    def save(self, path):
        # One name a line, so that two runs can be compared.
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in self.values.items())
        path.write_text(f'{{"machine": {json.dumps(self.machine, indent=1)},\n"values": {{\n{lines}\n}}}}\n')


def load(path):
    stored = json.loads(path.read_text())
    return Measurements(stored["machine"], stored["values"])
