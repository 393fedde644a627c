// The default hash and equality of a cache's keys, and the types with which a
// key can be looked up.
//
//   auto cache = *wheelcache::Cache<std::string, int>::Create({});
//   cache->Get("literal");                     // No std::string is made.
//   cache->Get(absl::string_view(buffer, n));  // Nor here.
//
// By default keys are hashed with absl::Hash, and strings of 8 to 32 bytes with
// a faster function; the seed of both differs between processes. They are
// compared with ==. Keys that are strings can be looked up with whatever
// converts to a std::string_view or an absl::string_view; other keys with
// whatever converts to the key. For more give Cache a hash and an equality of
// your own that take the other types.
//
// A cache shows its keys to the hash and to the equality as View<Key>: for
// std::string keys they must take a std::string_view, besides what you look up
// with. They run under a lock, or where no caller could catch an exception:
// they must neither throw nor call the cache. They have no state: the cache
// makes them anew for each call.

#ifndef WHEELCACHE_CACHE_TYPES_HASH_H_
#define WHEELCACHE_CACHE_TYPES_HASH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/types/hash_strings.h"

namespace wheelcache {
namespace internal {

// Converts both string views to one type: in older Abseils they differ.
inline std::string_view ToStringView(std::string_view s) { return s; }

template <
    typename S,
    std::enable_if_t<std::is_same_v<S, absl::string_view> &&
                         !std::is_convertible_v<const S&, std::string_view>,
                     int> = 0>
std::string_view ToStringView(const S& s) {
  return {s.data(), s.size()};
}

// Whether const S& converts to a string view.
template <typename S, typename = void>
inline constexpr bool kIsText = false;
template <typename S>
inline constexpr bool
    kIsText<S, std::void_t<decltype(ToStringView(std::declval<const S&>()))>> =
        !std::is_null_pointer_v<S>;

struct StringHash {
  using is_transparent = void;
  template <typename S, std::enable_if_t<kIsText<S>, int> = 0>
  ABSL_ATTRIBUTE_ALWAYS_INLINE size_t operator()(const S& s) const {
    return static_cast<size_t>(HashString(ToStringView(s)));
  }
};

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

struct StringEqual {
  using is_transparent = void;
  template <typename A, typename B,
            std::enable_if_t<kIsText<A> && kIsText<B>, int> = 0>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool operator()(const A& a, const B& b) const {
    return EqualStrings(ToStringView(a), ToStringView(b));
  }
};

template <typename Key>
inline constexpr bool kIsString =
    std::is_same_v<Key, std::string> || std::is_same_v<Key, std::string_view> ||
    std::is_same_v<Key, absl::string_view>;

}  // namespace internal

template <typename Key>
using DefaultHash = std::conditional_t<internal::kIsString<Key>,
                                       internal::StringHash, absl::Hash<Key>>;

template <typename Key>
using DefaultEqual =
    std::conditional_t<internal::kIsString<Key>, internal::StringEqual,
                       std::equal_to<Key>>;

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_HASH_H_
