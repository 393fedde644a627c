// Prefetches cache lines, where the compiler can.
//
// An address that is not mapped is ignored.

#ifndef WHEELCACHE_WHEEL_BASE_PREFETCH_H_
#define WHEELCACHE_WHEEL_BASE_PREFETCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/optimization.h"

namespace wheelcache::internal {

inline void PrefetchLine(const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address, /*writes=*/0, /*locality=*/3);
  // Otherwise GCC takes the function for one without effects, and drops calls.
  asm volatile("");
#else
  static_cast<void>(address);
#endif
}

// For a line that will be written to: takes it away from other cores at once.
// On x86, compilers prefetch as for reading unless -mprfchw is given; Intel's
// CPUs accept the instruction since 2006, and act on it since 2014.
inline void PrefetchLineToWrite(const void* address) {
#if defined(__GNUC__) && defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#elif defined(__GNUC__)
  __builtin_prefetch(address, /*writes=*/1, /*locality=*/3);
  asm volatile("");  // As above.
#else
  static_cast<void>(address);
#endif
}

// For so many lines from the one of an address on, without a loop.
template <size_t... Lines>
inline void PrefetchLinesToWrite(const void* begin,
                                 std::index_sequence<Lines...>) {
  const auto* const at = static_cast<const char*>(begin);
  (PrefetchLineToWrite(at + Lines * ABSL_CACHELINE_SIZE), ...);
}

// For the lines from one address up to another.
inline void PrefetchToWrite(const void* begin, const void* end) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const auto* at =
      static_cast<const char*>(begin) - first % ABSL_CACHELINE_SIZE;
  for (; at < static_cast<const char*>(end); at += ABSL_CACHELINE_SIZE) {
    PrefetchLineToWrite(at);
  }
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_PREFETCH_H_
