// Whether somebody else works on the other hardware thread of the core on which
// a thread runs, as another guest of the same host may.
//
//   SharedCore core;
//   for (auto _ : state) {
//     Work();
//     core.Look();
//   }
//   if (core.share() > 0.1) {
//     // A tenth of the time and more, Work had half a core, or a bit more.
//   }
//
// No counter of the system tells that, least of all those of a guest. But two
// threads of a core take from each other what executes their instructions: so
// a loop that waits for nothing, and needs no memory, takes longer.

#ifndef WHEELCACHE_BENCHMARKS_SHARED_CORE_H_
#define WHEELCACHE_BENCHMARKS_SHARED_CORE_H_

#include <cstdint>

namespace wheelcache::benchmarks {

// Of one thread.
class SharedCore {
 public:
  // To be called after each operation: runs the loop, for 5 µs, every 2048th
  // time. To all others it adds some instructions.
  void Look() {
    if (++calls_ % kCallsPerLook == 0) Count(NanosOfLoop());
  }

  // Counts a look whose loop took so long. It found the core shared if that is
  // more than 1.5 times what the shortest took, of all threads so far.
  void Count(int64_t nanos);

  // The part of the looks, from 0 to 1, that found the core shared.
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
