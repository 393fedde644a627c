// Finds a byte among sixteen, by SSE2 where the target has it.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_FIND_BYTES_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_FIND_BYTES_H_

#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace wheelcache::internal {

// FindBytes without instructions of certain CPUs.
inline uint32_t FindBytesInWords(uint64_t low, uint64_t high, uint8_t byte) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLows = 0x7f * kOnes;
  const auto find = [byte](uint64_t word) {
    const uint64_t differ = word ^ (kOnes * byte);
    // The top bit of each byte that is zero, without a carry between bytes.
    const uint64_t zeros = ~(((differ & kLows) + kLows) | differ | kLows);
    // The eight top bits, gathered.
    return static_cast<uint32_t>((zeros >> 7) * 0x0102040810204080 >> 56);
  };
  return find(low) | find(high) << 8;
}

// Returns a bit for each byte of `low` and, above these, of `high` that is
// `byte`: bit 0 for the lowest byte of `low`.
inline uint32_t FindBytes(uint64_t low, uint64_t high, uint8_t byte) {
#ifdef __SSE2__
  const __m128i all =
      _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(all, wanted)));
#else
  return FindBytesInWords(low, high, byte);
#endif
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_FIND_BYTES_H_
