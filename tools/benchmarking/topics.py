"""What tools/benchmark measures and shows, in the order of the page.

Each topic is a module and a section of the report. It has

  KEY              names the section in --sections and among the stored measurements
  runs(suite)      the runs of a round (programs.Run), each of which returns {name: value}
  section(result)  the section (section.Section) made of the measurements of these runs
"""

from . import calls, histories, latencies, lines, memory, near, policy, scaling, throughput, timing_wheel

# The last has no section: it is measured if it is asked for, and printed.
ALL = (throughput, policy, calls, latencies, memory, histories, timing_wheel, near, lines, scaling)
