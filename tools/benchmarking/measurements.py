"""The measurements of a section: for each name, one value per round; and where they are stored."""

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


def save(results, path):
    """Writes {key of a section: its measurements}."""
    path.write_text("{\n" + ",\n".join(_lines(key, result) for key, result in results.items()) + "\n}\n")


def _lines(key, result):
    # One name per line, so that a diff compares two runs.
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in result.values.items())
    return f'"{key}": {{"machine": {json.dumps(result.machine, indent=1)},\n"values": {{\n{lines}\n}}}}'


def load(path):
    """Returns {key of a section: its measurements} of what was stored, if anything was."""
    if not path.exists():
        return {}
    stored = json.loads(path.read_text())
    return {key: Measurements(section["machine"], section["values"]) for key, section in stored.items()}
