// Detects that the sibling hardware thread of a thread's core is busy, for
// instance with another guest of the same host.
//
//   SharedCore core;
//   for (auto _ : state) {
//     Work();
//     core.Look();
//   }
//   if (core.share() > 0.1) {
//     // For over a tenth of the time, Work had little more than half a core.
//   }
//
// The system has no counter for this, above all not in a guest. But the two
// hardware threads of a core compete for its execution units, so a loop of
// independent additions, without memory accesses, takes longer.
//
// Threads. Thread-compatible; each thread has its own.

#ifndef WHEELCACHE_BENCHMARKS_SHARED_CORE_H_
#define WHEELCACHE_BENCHMARKS_SHARED_CORE_H_

#include <cstdint>

namespace wheelcache::benchmarks {

class SharedCore {
 public:
  // Call after each operation. Every 2048th call runs the loop, for 5 µs; the
  // others cost a few instructions.
  void Look() {
    if (++calls_ % kCallsPerLook == 0) Count(NanosOfLoop());
  }

  // Counts a loop that took `nanos`. The core was shared if that is over 1.5
  // times the shortest loop of all threads so far.
  void Count(int64_t nanos);

  // The fraction of the loops that found the core shared.
  double share() const {
    return looks_ > 0
               ? static_cast<double>(shared_) / static_cast<double>(looks_)
               : 0;
  }

 private:
  static constexpr int64_t kCallsPerLook = 2048;

  static int64_t NanosOfLoop();

  int64_t calls_ = 0;
  int64_t looks_ = 0;
  int64_t shared_ = 0;
};

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SHARED_CORE_H_
