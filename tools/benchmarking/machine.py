"""Describes the machine and the sources that a measurement was taken of."""

import datetime
import os
import pathlib
import platform
import re
import shlex
import subprocess


def describe(root, command):
    """Returns {property: text} of the machine, the sources under `root` and the command that measures them."""
    return {
        "Processor": f"{_cpu()}, {os.cpu_count()} cores, L3 cache {_l3()}",
        "Memory": f"{_memory_gib():.0f} GiB, transparent huge pages: {_huge_pages()}",
        "Kernel": f"{platform.system()} {platform.release()}",
        "Libraries": f"{_distribution()}, glibc {platform.libc_ver()[1]}, {_first_line('g++', '--version')}",
        "Load before": f"{os.getloadavg()[0]:.2f}",
        "Commit": _commit(root),
        "Date": datetime.date.today().isoformat(),
        "Command": f"`{shlex.join(['tools/benchmark', *command[1:]])}`",
    }


def _cpu():
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE))
    name = fields.get("model name", platform.machine())
    # Hypervisors often shorten the name to that of a product line.
    return f"{name} (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else name


def _l3():
    kib = _read("/sys/devices/system/cpu/cpu0/cache/index3/size").strip().removesuffix("K")
    return f"{int(kib) // 1024} MiB" if kib.isdigit() else "unknown"


def _memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _huge_pages():
    chosen = re.search(r"\[(\w+)\]", _read("/sys/kernel/mm/transparent_hugepage/enabled"))
    return chosen.group(1) if chosen else "unknown"


def _distribution():
    name = re.search(r'^PRETTY_NAME="(.*)"$', _read("/etc/os-release"), re.MULTILINE)
    return name.group(1) if name else "unknown distribution"


def _commit(root):
    commit = _first_line("git", "-C", str(root), "describe", "--always", "--abbrev=12")
    # The results are an output, not a part of what is measured.
    changes = ("status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks/results", ":!benchmarks/RESULTS.md")
    return commit + (" with changes" if _first_line("git", "-C", str(root), *changes) else "")


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
