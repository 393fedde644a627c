"""Shows caches, handles and timing wheels in gdb as what they hold; see docs/debugging.md.

Reads the memory of the program and calls nothing of it, so that it also works on a core file. Needs the debug
information of one file that uses the cache, not that of the library.
"""

import gdb
import gdb.printing

# Of cache/internal/entry/layout.h; no debug information tells it.
MAX_INSIDE = 64 << 10

NEVER = (1 << 63) - 1


def constant(name):
    return int(gdb.parse_and_eval(f"wheelcache::internal::{name}"))


def first_member(value, type_):
    """A value of another type that lies where `value` does: what is in an atomic, an array or a unique_ptr."""
    return value.address.cast(type_.const().pointer()).dereference()


def load(atomic):
    return first_member(atomic, atomic.type.strip_typedefs().template_argument(0))


def element(array, i):
    first = array.type.strip_typedefs().template_argument(0)
    return array.address.cast(first.const().pointer())[i]


def pointee(unique_pointer):
    target = unique_pointer.type.strip_typedefs().template_argument(0)
    return first_member(unique_pointer, target.pointer()).dereference()


def lazy_text(address, length):
    """A string that gdb shows as it shows others: in quotes, and cut at `print elements`."""
    pointer = gdb.Value(address).cast(gdb.lookup_type("char").const().pointer())
    return pointer.lazy_string("", length=length)


class Stored:
    """How a key or a value of one type is stored; see Stored in cache/internal/entry/layout.h."""

    def __init__(self, type_):
        self.type = type_.strip_typedefs().unqualified()
        self.is_string = (self.type.name or "").startswith(("std::__cxx11::basic_string<char,",
                                                             "std::basic_string<char,",
                                                             "std::__1::basic_string<char,"))
        self.inside = self.is_string or self.type.sizeof <= MAX_INSIDE
        pointer = gdb.lookup_type("void").pointer()
        held = self.type if self.inside else pointer
        self.alignment = 1 if self.is_string else held.alignof
        self.bytes = None if self.is_string else held.sizeof

    def at(self, address):
        """What is stored at an address, and the bytes that it takes there."""
        if self.is_string:
            return self._string_at(address)
        pointer = self.type.const().pointer()
        if not self.inside:  # By its address: gdb refuses to read so much by default.
            return gdb.Value(self._pointer_at(address)).cast(pointer), self.bytes
        return gdb.Value(address).cast(pointer).dereference(), self.bytes

    def _string_at(self, address):
        length = shift = begin = 0
        while True:
            byte = self._byte_at(address + begin)
            begin += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if length <= MAX_INSIDE:
            return lazy_text(address + begin, length), begin + length
        outside = self._pointer_at(address + begin)
        return lazy_text(outside, length), begin + gdb.lookup_type("void").pointer().sizeof

    @staticmethod
    def _byte_at(address):
        pointer = gdb.lookup_type("unsigned char").pointer()
        return int(gdb.Value(address).cast(pointer).dereference())

    @staticmethod
    def _pointer_at(address):
        pointer = gdb.lookup_type("unsigned long").pointer()
        return int(gdb.Value(address).cast(pointer).dereference())


class Entries:
    """Finds the entries of a cache with keys and values of these types."""

    def __init__(self, key_type, value_type, pool):
        self.key = Stored(key_type)
        self.value = Stored(value_type)
        self.bases = pool["arena_"]["chunks_"]["bases_"]
        self.chunk_bits = constant("Chunks::kChunkBits")
        self.granule_bytes = constant("Chunks::kGranuleBytes")
        self.header_type = gdb.lookup_type("wheelcache::internal::EntryHeader")

    def header(self, ref):
        address = int(element(self.bases, ref >> self.chunk_bits)) + ref * self.granule_bytes
        return gdb.Value(address).cast(self.header_type.pointer()).dereference()

    def key_and_value(self, ref):
        """As Layout in cache/internal/entry/layout.h."""
        key_first = not self.key.is_string or self.value.is_string
        first, second = (self.key, self.value) if key_first else (self.value, self.key)
        begin = int(self.header(ref).address) + self.header_type.sizeof
        begin += -begin % max(first.alignment, second.alignment, 8)
        shown_first, taken = first.at(begin)
        taken += -taken % second.alignment
        shown_second, _ = second.at(begin + taken)
        return (shown_first, shown_second) if key_first else (shown_second, shown_first)


def limited(used, limit):
    return f"{used}" if limit == NEVER else f"{used} of at most {limit}"


def describe(engine):
    """The name of a cache, and what is used of its limits."""
    name = engine["options_"]["name"].format_string()
    budget = engine["shared_"]["budget"]
    texts = []
    for what in ("entries", "bytes"):
        limit = int(load(budget["limit_"][what]))
        texts.append(f"{limited(limit - int(load(budget['free_'][what])), limit)} {what}")
    return f"wheelcache::Cache {name}: {', '.join(texts)}"


class AnyCachePrinter:
    def __init__(self, cache):
        self.cache = cache

    def to_string(self):
        return describe(self.cache["engine_"])


class CachePrinter:
    """Shows the entries as a map, in no order; those that have expired and are not reclaimed yet are among them."""

    def __init__(self, cache):
        self.engine = cache["engine_"]
        type_ = cache.type.strip_typedefs()
        self.types = type_.template_argument(0), type_.template_argument(1)

    def to_string(self):
        return describe(self.engine)

    def display_hint(self):
        return "map"

    def children(self):
        entries = Entries(*self.types, pointee(self.engine["shared_"]["pool"]))
        for i, ref in enumerate(self._refs()):
            key, value = entries.key_and_value(ref)
            yield f"[key {i}]", key
            yield f"[value {i}]", value

    def _refs(self):
        shards = self.engine["shards_"]
        for shard in range(int(shards["size_"])):
            table = load(shards["begin_"][shard]["index_"]["table_"]).dereference()
            for bucket in range(int(table["count_"])):
                cells = table["buckets_"][bucket]["cells"]
                for cell in range(cells.type.range()[1] + 1):
                    ref = int(load(cells[cell]))
                    if ref != 0:
                        yield ref


class HandlePrinter:
    def __init__(self, handle):
        self.handle = handle

    def to_string(self):
        return "wheelcache::CacheHandle" if self._pool() else "wheelcache::CacheHandle, empty"

    def children(self):
        if not self._pool():
            return
        type_ = self.handle.type.strip_typedefs()
        entries = Entries(type_.template_argument(0), type_.template_argument(1), self.handle["pool_"].dereference())
        ref = int(self.handle["ref_"])
        key, value = entries.key_and_value(ref)
        header = entries.header(ref)
        yield "key", key
        yield "value", value
        deadline = int(load(header["deadline_nanos"]))
        yield "deadline_nanos", "never" if deadline == NEVER else deadline
        yield "pins", load(header["pins"])

    def _pool(self):
        return int(self.handle["pool_"])


def occupied_slots(wheel):
    """The numbers of the slots of a BasicTimingWheel that have timers."""
    occupied = wheel["occupied_"]
    for level in range(occupied.type.range()[1] + 1):
        word = int(occupied[level])
        for slot in range(64):
            if word >> slot & 1:
                yield level * 64 + slot


def describe_wheel(name, wheel):
    count = sum(1 for _ in occupied_slots(wheel))
    slots = "empty" if count == 0 else f"timers in {count} slot{'s' if count > 1 else ''}"
    return f"{name} at tick {int(wheel['now_'])}, {slots}"


class BasicTimingWheelPrinter:
    """Of a wheel whose timers only its owner's code can find."""

    def __init__(self, wheel):
        self.wheel = wheel

    def to_string(self):
        return describe_wheel("wheelcache::BasicTimingWheel", self.wheel)


class TimingWheelPrinter:
    """Shows the timers by their deadlines, roughly the earliest first."""

    def __init__(self, wheel):
        self.wheel = wheel["wheel_"]

    def to_string(self):
        return describe_wheel("wheelcache::TimingWheel", self.wheel)

    def display_hint(self):
        return "map"

    def children(self):
        for i, timer in enumerate(self._timers()):
            yield f"[deadline {i}]", timer["deadline_"]
            yield f"[timer {i}]", timer

    def _timers(self):
        for slot in occupied_slots(self.wheel):
            lists = self.wheel["slots_"]["slots_"][slot]["first"]
            for number in range(lists.type.range()[1] + 1):
                timer = lists[number]
                while int(timer) != 0:
                    yield timer
                    timer = timer["links_"]["next"]


class TimerPrinter:
    def __init__(self, timer):
        self.timer = timer

    def to_string(self):
        if int(self.timer["links_"]["prev"]) == 0:
            return "wheelcache::Timer, not scheduled"
        return f"wheelcache::Timer, due at tick {int(self.timer['deadline_'])}"


def make_printers():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("wheelcache")
    printers.add_printer("Cache", "^wheelcache::Cache<.*>$", CachePrinter)
    printers.add_printer("AnyCache", "^wheelcache::AnyCache$", AnyCachePrinter)
    printers.add_printer("CacheHandle", "^wheelcache::CacheHandle<.*>$", HandlePrinter)
    printers.add_printer("BasicTimingWheel", "^wheelcache::BasicTimingWheel<.*>$", BasicTimingWheelPrinter)
    printers.add_printer("TimingWheel", "^wheelcache::TimingWheel$", TimingWheelPrinter)
    printers.add_printer("Timer", "^wheelcache::Timer$", TimerPrinter)
    return printers


gdb.printing.register_pretty_printer(gdb.current_objfile(), make_printers(), replace=True)
