// Compares strings as long as keys mostly are without a call.

#ifndef WHEELCACHE_CACHE_INTERNAL_EQUAL_STRINGS_H_
#define WHEELCACHE_CACHE_INTERNAL_EQUAL_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace wheelcache {
namespace internal {

// As ==. Strings of 8 to 32 bytes are compared a word at a time, the last word
// where the string ends: it may overlap the one before.
inline bool EqualStrings(std::string_view a, std::string_view b) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t size = a.size();
  if (size != b.size()) return false;
  if (size < kWord || size > 4 * kWord) return a == b;
  const auto difference = [&](size_t at) {
    uint64_t word_a;
    uint64_t word_b;
    std::memcpy(&word_a, a.data() + at, kWord);
    std::memcpy(&word_b, b.data() + at, kWord);
    return word_a ^ word_b;
  };
  uint64_t any = difference(size - kWord);
  for (size_t at = 0; at + kWord < size; at += kWord) any |= difference(at);
  return any == 0;
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_EQUAL_STRINGS_H_
