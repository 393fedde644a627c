"""What the measurements are to reach."""

# Operations per second on so many threads, as a ratio to those of the floor on one.
THROUGHPUT = {
    "GetHit": {1: 1.0, 2: 2.0, 8: 2.0},
    "Mixed": {1: 1.0, 2: 1.7, 8: 1.7},
    "SetExisting": {1: 0.95, 2: 1.9, 8: 1.9},
    "SetNew": {1: 1.35, 2: 1.7, 8: 1.75},
}

# Times longer than without the expiry.
MASS_EXPIRY = {"get_p99.9": 3.0, "set_p99.9": 3.0}

# Bytes, for a whole entry.
PER_ENTRY = {"numbers": 64, "strings": 150}

# The limit of 256 MiB, a tenth of it more or less, and 1 MiB.
MIXED_SIZES = (0.9 - 1 / 256, 1.1 + 1 / 256)

# The most time that an operation of the wheel takes, as a ratio to that of another structure.
TIMING_WHEEL = {
    "Fill": ("MultimapTimers", 1 / 80),
    "Add": ("MultimapTimers", 1 / 20),
    "Move": ("MultimapTimers", 1 / 30),
    "Cancel": ("MultimapTimers", 1 / 22),
    "Expire": ("HeapTimers", 1.0),
}

# The same, as a ratio to that of the wheel's own operation with other arguments.
TIMING_WHEEL_FLAT = {
    "IdleJump": ("ticks:100000000", "ticks:1", 3.0),
    "NextWakeup": ("pending:1000000", "pending:1000", 1.5),
}
