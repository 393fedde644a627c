"""The targets of the measurements, and the origin of each.

An origin begins with its source:
  issue      the issue that asks for the benchmarks
  prototype  what the prototype of the entry layout reached
  promise    a guarantee in the documentation of the library
  project    the project itself
"""

FLOOR = "issue: ratio to the floor"
CALM = "project: ratio to a run without expiry"
BYTES = "project: bytes per entry"
PROTOTYPE = "prototype: 137 bytes, plus slack"
HISTORIES = "issue: limits of resident memory"
LIMIT = "promise: max_bytes, with 10 % + 1 MiB of slack"
MULTIMAP = "project: ratio to std::multimap"
HEAP = "project: no slower than a heap"
POLICY = "issue: the scan-resistant policy"
FLAT_TICKS = "promise: cost independent of ticks passed"
FLAT_PENDING = "promise: cost independent of pending timers"

NEAR_ORIGIN = "issue: targets of the near cache"

# Of the near cache: nanoseconds, ratios, invalidations a second.
NEAR_HIT_EXTRA = 40
NEAR_HIT_SPEED_UP = 100
NEAR_MISS = 1.15
NEAR_INVALIDATIONS = 500_000
NEAR_RECOVERY_SECONDS = 6

# Operations per second by number of threads, as a ratio to the floor on one thread.
THROUGHPUT = {
    "GetHit": {1: 1.0, 2: 2.0, 8: 2.0},
    "Mixed": {1: 1.0, 2: 1.7, 8: 1.7},
    "SetExisting": {1: 0.95, 2: 1.9, 8: 1.9},
    "SetNew": {1: 1.35, 2: 1.7, 8: 1.75},
}

# The largest ratio of a latency during the expiry to that without.
MASS_EXPIRY = {"get_p99.9": 3.0, "set_p99.9": 3.0}

# The most bytes per entry, everything included.
PER_ENTRY = {"numbers": (64, BYTES), "strings": (150, PROTOTYPE)}

# Resident memory as a ratio to the limit of 256 MiB: within 10 % and 1 MiB of it.
MIXED_SIZES = (0.9 - 1 / 256, 1.1 + 1 / 256)

# Of the scan-resistant policy, compared with LRU: points of hit ratio that an adversary may cost, bytes per entry, and
# throughput of Sets of new keys.
POLICY_LOSS = (2, POLICY)
POLICY_BYTES = (18, POLICY)
POLICY_SETS = (0.75, POLICY)

# How many times as fast as another structure an operation of the wheel is at least.
TIMING_WHEEL = {
    "Fill": ("MultimapTimers", 80, MULTIMAP),
    "Add": ("MultimapTimers", 20, MULTIMAP),
    "Move": ("MultimapTimers", 30, MULTIMAP),
    "Cancel": ("MultimapTimers", 22, MULTIMAP),
    "Expire": ("HeapTimers", 1, HEAP),
}

# The largest ratio of the time of an operation with one argument to that with another.
TIMING_WHEEL_FLAT = {
    "IdleJump": ("ticks:100000000", "ticks:1", 3.0, FLAT_TICKS),
    "NextWakeup": ("pending:1000000", "pending:1000", 1.5, FLAT_PENDING),
}
