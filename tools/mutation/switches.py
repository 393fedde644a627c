"""Puts many mutants into a source at once, each of which is switched on at run time by its number.

The tests are then built once, instead of once for each mutant.

  >>> from mutation import mutants
  >>> source = '''int Sum(const Box& box) {
  ...   if (box.empty()) Warn();  // No fault here: 1 + 1.
  ...   return box.size() * 2 + box.rest();
  ... }
  ... '''
  >>> numbered = [(7, mutant) for mutant in mutants.find(source) if mutant.after in ("{}", "!(box.empty())")]
  >>> print(insert(source, numbered), end="")
  int Sum(const Box& box) {
    if ((MUTANT(7) != static_cast<bool>(box.empty()))) { if (MUTANT(7)) {} else { Warn(); } }  // No fault here: 1 + 1.
    return box.size() * 2 + box.rest();
  }

Those within others are switched there:

  >>> inner = [(n, mutant) for n, mutant in enumerate(mutants.find(source)) if mutant.before in ("*", "2")]
  >>> print(insert(source, inner).split("\\n")[2].replace(" : (box", "\\n     : (box"))
    return (MUTANT(2) ? (box.size() / 2 + box.rest())
       : (box.size() * (MUTANT(3) ? (3) : ((MUTANT(4) ? (1) : (2)))) + box.rest()));

A compiler that evaluates an expression itself, such as a constant or the length of an array, leaves the switch out. The
prelude's function then has no instance for that number, and the mutant has to be built by itself: see `find_live`.
"""

import re

# Which one is switched on, and where to mark those that are reached.
NUMBER = "WHEELCACHE_MUTANT"
REACHED = "WHEELCACHE_MUTANTS_REACHED"

# Before the first line of each source. Reads the environment at the first use, as that may come before any
# initialization; asks the system for memory directly, as tests replace the functions for that; and marks what is
# reached in a shared file, which survives forks and ends of any kind.
_PRELUDE = """\
#ifndef WHEELCACHE_MUTANTS
#define WHEELCACHE_MUTANTS
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
namespace wheelcache_mutants {
inline unsigned char nowhere[SIZE];
inline unsigned char* reached = nowhere;
inline int under_test = -1;
__attribute__((noinline)) inline int ReadEnvironment() noexcept {
  if (const char* path = ::getenv("REACHED")) {
    const long file = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    const long at = ::syscall(SYS_mmap, nullptr, sizeof(nowhere), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0 && at > 0) __atomic_store_n(&reached, reinterpret_cast<unsigned char*>(at), __ATOMIC_RELEASE);
    ::syscall(SYS_close, file);
  }
  const char* number = ::getenv("NUMBER");
  const int read = number == nullptr ? 0 : ::atoi(number);
  __atomic_store_n(&under_test, read, __ATOMIC_RELEASE);
  return read;
}
template <int kNumber>
bool Is() noexcept {
  int number = __atomic_load_n(&under_test, __ATOMIC_ACQUIRE);
  if (number < 0) number = ReadEnvironment();
  if (unsigned char* mark = &reached[kNumber]; *mark == 0) *mark = 1;
  return number == kNumber;
}
}  // namespace wheelcache_mutants
#define MUTANT(number) (!__builtin_is_constant_evaluated() && ::wheelcache_mutants::Is<number>())
#endif
#line 1
"""

_TEXT_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#", re.MULTILINE)


def prelude(size):
    """What a source with mutants of numbers below `size` begins with. Its lines keep their numbers."""
    return _PRELUDE.replace("SIZE", str(size)).replace("REACHED", REACHED).replace('"NUMBER"', f'"{NUMBER}"')


def find_live(program):
    """The numbers of the mutants whose switches are in a program, given as its bytes."""
    return {int(number) for number in re.findall(rb"wheelcache_mutants2IsILi(\d+)EE", program)}


def fits(source, mutant):
    """Whether the mutant can be switched: not where a preprocessor line is in the midst of it."""
    return not _DIRECTIVE.search(source[mutant.whole_start : mutant.whole_end])


def insert(source, numbered):
    """The source with all these mutants, given as pairs of number and mutant."""
    # Outer ones before what is in them.
    return _insert(source, 0, len(source), sorted(numbered, key=lambda pair: (pair[1].whole_start, -pair[1].whole_end)))


def _insert(source, start, end, numbered):
    parts = []
    while numbered:
        number, mutant = numbered[0]
        inner = [pair for pair in numbered[1:] if pair[1].whole_end <= mutant.whole_end]
        numbered = [pair for pair in numbered[1:] if pair not in inner]
        original = _insert(source, mutant.whole_start, mutant.whole_end, inner)
        parts += [source[start : mutant.whole_start], _switch(source, number, mutant, original)]
        start = mutant.whole_end
    return "".join(parts) + source[start:end]


def _switch(source, number, mutant, original):
    if mutant.kind == "negation":
        return f"(MUTANT({number}) != static_cast<bool>({original}))"
    changed = source[mutant.whole_start : mutant.start] + mutant.after + source[mutant.end : mutant.whole_end]
    changed = _one_line(changed)
    if mutant.kind == "statement":
        return f"{{ if (MUTANT({number})) {changed} else {{ {original} }} }}"
    return f"(MUTANT({number}) ? ({changed}) : ({original}))"


def _one_line(text):
    return " ".join(_TEXT_OR_COMMENT.sub(lambda match: match[1] or " ", text).split("\n"))
