// Inline hash for strings of typical key length (8 to 32 bytes). Why not
// absl::Hash: docs/decisions.md.
//
// A string of 8 to 32 bytes is read as the words at its two ends, which may
// overlap; they are multiplied to 128 bits, whose halves are xored, as in Wang
// Yi's wyhash (2019). Others go to absl::Hash.
//
// As with absl::Hash, hashes differ from run to run of a program that is loaded
// at a random address. All bits are of equal quality.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_HASH_STRINGS_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_HASH_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/hash/hash.h"
#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"

namespace wheelcache::internal {

// Spreads each bit of both numbers over all of the result, unless one of them
// is 0.
inline uint64_t FoldedProduct(uint64_t a, uint64_t b) {
  const absl::uint128 product = absl::uint128(a) * b;
  return absl::Uint128High64(product) ^ absl::Uint128Low64(product);
}

// Its address is the seed: whoever chooses the keys does not know it.
inline constexpr char kHashSeed = 0;

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint64_t HashString(std::string_view s) {
  // The fractions of the square roots of 2 and 3.
  constexpr uint64_t kOdd = 0x6a09e667f3bcc909;
  constexpr uint64_t kOther = 0xbb67ae8584caa73b;
  const size_t size = s.size();
  if (ABSL_PREDICT_FALSE(size < 8 || size > 32)) {
    // As Abseil's own view: where that is another type, the standard one would
    // go through std::hash, which takes twice as long.
    return FoldedProduct(
        absl::Hash<absl::string_view>()(absl::string_view(s.data(), size)),
        kOdd);
  }
  const auto word = [&s](size_t at) {
    uint64_t result;
    std::memcpy(&result, s.data() + at, sizeof(result));
    return result;
  };
  // A secret in each factor, so that no chosen word makes it 0; different ones,
  // so that the order of the words counts.
  const auto seed = reinterpret_cast<uintptr_t>(&kHashSeed);
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

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_HASH_STRINGS_H_
