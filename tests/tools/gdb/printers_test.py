"""Compares what gdb shows of stopped_program.cc with what is there. Run in gdb, by tools/gdb/check."""

import re
import tempfile

import gdb

failures = 0


def shown(expression):
    """What `print` shows, without the number of the value."""
    return gdb.execute(f"print {expression}", to_string=True).strip().split(" = ", 1)[1]


def expect(what, is_true, text):
    global failures
    if not is_true:
        failures += 1
        print(f"FAILED  {what}: {text}")


def expect_shown(expression, pattern):
    text = shown(expression)
    expect(expression, re.fullmatch(pattern, text), text)


def shown_last():
    """Of the value that is shown by its address."""
    address = re.search(r"= (0x[0-9a-f]+)", shown("large")).group(1)
    return int(gdb.parse_and_eval(f"((Large*) {address})->last"))


def check_caches():
    expect_shown("roles", r'wheelcache::Cache "roles": 1 of at most 100 entries, \d+ bytes = \{\["bob"\] = "guest"\}')
    expect_shown("*roles_owner", r".*: 1 of at most 100 entries, .*\}")
    expect_shown("any", r'.*wheelcache::Cache "roles": 1 of at most 100 entries, \d+ bytes')
    expect_shown("empty", r'wheelcache::Cache "cache": 0 entries, 0 bytes')
    expect_shown("lists", r'.* = \{\["primes"\] = std::vector of length 3, capacity 3 = \{2, 3, 5\}\}')
    expect_shown("texts", r'.*: 1 entries, \d{5} bytes = \{\[-7\] = \'x\' <repeats 200 times>\.\.\.\}')
    expect_shown("aligned", r'.* = \{\[\'k\' <repeats 200 times>\.\.\.\] = \{number = 42\}\}')
    expect_shown("large", r".* = \{\[1 .*\] = 0x[0-9a-f]+\}")
    expect("last of large", shown_last() == 77, shown_last())


def check_all_entries():
    gdb.execute("set print elements 0")
    squares = dict(re.findall(r"\[(\d+)\] = (\d+)", shown("squares")))
    expected = {str(i): str(i * i) for i in range(1000)}
    expect_shown("aligned", r".*'k' <repeats 300 times>.*")
    expect("squares", squares == expected, f"{len(squares)} entries")
    gdb.execute("set print elements 4")
    expect_shown("squares", r".*: 1000 entries, \d+ bytes = \{(\[\d+\] = \d+, ){1,4}.*\.\.\.\}")
    gdb.execute("set print elements 200")


def check_handles():
    expect_shown("handle", r'wheelcache::CacheHandle = \{key = "ada", value = "admin", '
                           r"deadline_nanos = \d+, pins = 1\}")
    expect_shown("lasting_handle", r"wheelcache::CacheHandle = \{key = 3, value = 9, "
                                   r"deadline_nanos = never, pins = 2\}")
    expect_shown("no_handle", "wheelcache::CacheHandle, empty")


def check_wheels():
    expect_shown("wheel", r"wheelcache::TimingWheel at tick 10, timers in 2 slots = "
                          r"\{\[12\] = 0x[0-9a-f]+(, \[1000000\] = 0x[0-9a-f]+){6}\}")
    expect_shown("empty_wheel", "wheelcache::TimingWheel at tick 0, empty")
    expect_shown("wheel.wheel_", "wheelcache::BasicTimingWheel at tick 10, timers in 2 slots")
    expect_shown("late", "wheelcache::Timer, due at tick 1000000")
    expect_shown("idle", "wheelcache::Timer, not scheduled")


def check_core_file():
    """All that was shown is in the memory of the program."""
    with tempfile.TemporaryDirectory() as folder:
        core = f"{folder}/core"
        gdb.execute(f"generate-core-file {core}")
        gdb.execute("kill")
        gdb.execute(f"core-file {core}")
        gdb.execute("up")
        check_caches()
        gdb.execute("core-file")


def run():
    gdb.execute("set confirm off")
    gdb.execute("set width 0")
    gdb.execute("break StopHere")
    gdb.execute("run")
    gdb.execute("up")
    for check in (check_caches, check_all_entries, check_handles, check_wheels, check_core_file):
        check()


# An exception does not end gdb with an error.
try:
    run()
except Exception as error:
    expect("gdb", False, error)
gdb.execute(f"quit {1 if failures else 0}")
