// Inline equality for strings of typical key length (8 to 32 bytes).

#ifndef WHEELCACHE_CACHE_TYPES_EQUAL_STRINGS_H_
#define WHEELCACHE_CACHE_TYPES_EQUAL_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/base/attributes.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache::internal {

// As ==. A string of 8 to 32 bytes is compared as the words at its two ends,
// which may overlap.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool EqualStrings(std::string_view a,
                                                      std::string_view b) {
  const size_t size = a.size();
  if (size != b.size()) return false;
  const auto differ = [&](size_t at) {
    uint64_t word_a;
    uint64_t word_b;
    std::memcpy(&word_a, a.data() + at, sizeof(word_a));
    std::memcpy(&word_b, b.data() + at, sizeof(word_b));
    return word_a ^ word_b;
  };
  if (size >= 16 && size <= 32) {
    return (differ(0) | differ(8) | differ(size - 16) | differ(size - 8)) == 0;
  }
  if (size >= 8 && size < 16) return (differ(0) | differ(size - 8)) == 0;
  return a == b;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_TYPES_EQUAL_STRINGS_H_
