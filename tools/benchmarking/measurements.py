"""The measurements of a section: for each name, one value per round; where they are stored, and what they are of."""

import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess

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
        self.machine = machine  # From describe_machine().
        self.values = values or {}

    def add(self, values):
        """Adds a round's values."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def has(self, *names):
        return all(name in self.values for name in names)

    def names(self, prefix):
        return [name for name in self.values if name.startswith(prefix)]

    def parts(self, prefix, number):
        """Returns the different parts of this number of the names, which look like paths."""
        return list(dict.fromkeys(name.split("/")[number] for name in self.names(prefix)))

    def median(self, name):
        return statistics.median(self.values[name])

    def medians(self, names):
        """Returns {title: median} of those of {title: name} that were measured."""
        return {title: self.median(name) for title, name in names.items() if self.has(name)}

    def ratios(self, name, base):
        """Returns the ratio within each round, because the speed of the machine drifts between rounds."""
        return [a / b for a, b in zip(self.values[name], self.values[base])]

    def ratio(self, name, base):
        return statistics.median(self.ratios(name, base))


def save(results, path):
    """Writes {key of a section: its measurements}."""
    path.write_text("{\n" + ",\n".join(_lines(key, result) for key, result in results.items()) + "\n}\n")


def _lines(key, result):
    # One name per line, so that a diff compares two runs.
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in result.values.items())
    return f'"{key}": {{"machine": {json.dumps(result.machine, indent=1)},\n"values": {{\n{lines}\n}}}}'


def load(path):
    """Returns {key of a section: its measurements} of what was stored, if anything was."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {key: Measurements(section["machine"], section["values"]) for key, section in stored.items()}


def describe_machine(root, command):
    """Returns {property: text} of the machine, the sources under `root` and the command that measures them."""
    cpu = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE))
    name = cpu.get("model name", platform.machine())
    if "cpu family" in cpu:  # Hypervisors often shorten the name to that of a product line.
        name += f" (family {cpu['cpu family']}, model {cpu['model']})"
    l3 = _read("/sys/devices/system/cpu/cpu0/cache/index3/size").strip().removesuffix("K")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    pages = re.search(r"\[(\w+)\]", _read("/sys/kernel/mm/transparent_hugepage/enabled"))
    system = re.search(r'^PRETTY_NAME="(.*)"$', _read("/etc/os-release"), re.MULTILINE)
    # The results are an output, not a part of what is measured.
    changes = ("status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks/results", ":!benchmarks/RESULTS.md")
    commit = _first_line("git", "-C", str(root), "describe", "--always", "--abbrev=12")
    return {
        "Processor": f"{name}, {os.cpu_count()} cores, L3 cache {f'{int(l3) // 1024} MiB' if l3.isdigit() else 'unknown'}",
        "Memory": f"{memory:.0f} GiB, transparent huge pages: {pages[1] if pages else 'unknown'}",
        "Kernel": f"{platform.system()} {platform.release()}",
        "Libraries": f"{system[1] if system else 'unknown distribution'}, glibc {platform.libc_ver()[1]}, "
        + _first_line("g++", "--version"),
        "Load before": f"{os.getloadavg()[0]:.2f}",
        "Commit": commit + (" with changes" if _first_line("git", "-C", str(root), *changes) else ""),
        "Date": datetime.date.today().isoformat(),
        "Command": f"`{shlex.join(['tools/benchmark', *command[1:]])}`",
    }


def _first_line(*command):
    try:
        output = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return output.partition("\n")[0]


def _read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""
