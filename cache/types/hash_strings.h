// Inline hash for strings of typical key length (8 to 32 bytes). Why not
// absl::Hash: docs/decisions.md.
//
// A string of 8 to 32 bytes is read as the words at its two ends, which may
// overlap; they are multiplied to 128 bits, whose halves are xored, as in Wang
// Yi's wyhash (2019). Others go to absl::Hash.
//
// Hashes differ from process to process, and are the same in all modules of one
// that share the library. All bits are of equal quality.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_TYPES_HASH_STRINGS_H_
#define WHEELCACHE_CACHE_TYPES_HASH_STRINGS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/numeric/int128.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// Spreads each bit of both numbers over all of the result, unless one of them
// is 0.
inline uint64_t FoldedProduct(uint64_t a, uint64_t b) {
  const absl::uint128 product = absl::uint128(a) * b;
  return absl::Uint128High64(product) ^ absl::Uint128Low64(product);
}

// A secret of the process, so that whoever chooses the keys does not know their
// hashes. Constant from PrepareHashSeed() on; relaxed: it publishes nothing.
extern WHEELCACHE_EXPORT std::atomic<uint64_t> hash_seed;

// To be called before a hash is kept. Called at load time, and by each cache:
// one that is a global of another module may be made earlier.
WHEELCACHE_EXPORT void PrepareHashSeed();

// For benchmarks that repeat exactly: makes `seed`, not 0, the seed.
// REQUIRES: no hash is kept.
WHEELCACHE_EXPORT void SetHashSeed(uint64_t seed);

// HashString of a string of another length.
WHEELCACHE_EXPORT uint64_t HashStringOfAnyLength(std::string_view s);

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint64_t HashString(std::string_view s) {
  // The fractions of the square roots of 2 and 3.
  constexpr uint64_t kOdd = 0x6a09e667f3bcc909;
  constexpr uint64_t kOther = 0xbb67ae8584caa73b;
  const size_t size = s.size();
  if (ABSL_PREDICT_FALSE(size < 8 || size > 32)) {
    return HashStringOfAnyLength(s);
  }
  const auto word = [&s](size_t at) {
    uint64_t result;
    std::memcpy(&result, s.data() + at, sizeof(result));
    return result;
  };
  // A secret in each factor, so that no chosen word makes it 0; different ones,
  // so that the order of the words counts.
  const uint64_t seed = hash_seed.load(std::memory_order_relaxed);
  const uint64_t secret = seed + kOdd;
  const uint64_t other = seed + kOther;
  uint64_t first;
  uint64_t second;
  if (size < 16) {
    first = FoldedProduct(word(0) ^ secret, word(size - 8) ^ other);
    second = kOdd;
  } else {  // Two independent products.
    first = FoldedProduct(word(0) ^ secret, word(8) ^ other);
    second = FoldedProduct(word(size - 16) ^ secret, word(size - 8) ^ other);
  }
  return FoldedProduct(first ^ secret, second ^ other ^ size);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_TYPES_HASH_STRINGS_H_
