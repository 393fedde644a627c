#include "wheelcache/benchmarks/shared_core.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace wheelcache::benchmarks {

// Has more independent additions ready at any time than a core can start in a
// cycle, so its time depends on the execution units alone.
int64_t SharedCore::NanosOfLoop() {
  constexpr uint64_t kRounds = 4000;
  uint64_t a = 1;
  uint64_t b = 2;
  uint64_t c = 3;
  uint64_t d = 4;
  uint64_t e = 5;
  uint64_t f = 6;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kRounds; ++i) {
    a += b ^ i;
    b += c ^ i;
    c += d ^ i;
    d += e ^ i;
    e += f ^ i;
    f += a ^ i;
    // Keeps the compiler from computing or dropping the sums.
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  return std::chrono::nanoseconds(taken).count();
}

void SharedCore::Count(int64_t nanos) {
  static std::atomic<int64_t> shortest{std::numeric_limits<int64_t>::max()};
  int64_t known = shortest.load(std::memory_order_relaxed);
  while (nanos < known && !shortest.compare_exchange_weak(
                              known, nanos, std::memory_order_relaxed)) {
  }
  ++looks_;
  if (nanos > std::min(nanos, known) / 2 * 3) ++shared_;
}

}  // namespace wheelcache::benchmarks
