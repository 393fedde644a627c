"""The measurements: for each name, one value per round."""

import json
import statistics

# A benchmark with more CPU steal than this fraction of the CPU time it asks for is repeated, as long as there is time.
MOST_STOLEN = 0.05

# So is one that shared its core with another guest for more than this fraction of its time, if it reports that.
MOST_SHARED = 0.1

# The subject that others are compared with. Always on one thread, interleaved with them.
FLOOR = "flat_hash_map"

# The pieces that a throughput measurement is cut into. Only those below both limits count.
PIECES = 12


class Measurements:
    """Names look like paths: "SetNew/wheelcache/8" are the operations per second of 8 threads."""

    def __init__(self, machine, values=None):
        self.machine = machine  # From machine.describe().
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
        """Returns the ratio within each round, because the speed of the machine drifts between rounds."""
        return [a / b for a, b in zip(self.values[name], self.values[base])]

    def ratio(self, name, base):
        return statistics.median(self.ratios(name, base))

    def rounds(self):
        return max(len(values) for values in self.values.values())

    def save(self, path):
        # One name per line, so that a diff compares two runs.
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in self.values.items())
        path.write_text(f'{{"machine": {json.dumps(self.machine, indent=1)},\n"values": {{\n{lines}\n}}}}\n')


def load(path):
    stored = json.loads(path.read_text())
    return Measurements(stored["machine"], stored["values"])
