// What a cache requires of the types that it is given. A program that breaks a
// rule gets a static_assert as its compiler's first error, which says what to
// do instead.
//
// Threads. Nothing here exists at run time.

#ifndef WHEELCACHE_CACHE_TYPES_REQUIREMENTS_H_
#define WHEELCACHE_CACHE_TYPES_REQUIREMENTS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "wheelcache/cache/types/hash.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/base/requirements.h"

namespace wheelcache::internal {

// Whether Equal takes these two. std::equal_to claims to take everything.
template <typename Equal, typename Key, typename K>
inline constexpr bool kCompares =
    std::is_invocable_r_v<bool, Equal, View<Key>, const K&> &&
    (!std::is_same_v<Equal, std::equal_to<Key>> || kHasEquality<Key>);

template <typename T>
inline constexpr bool kIsBool =
    std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>;

// Whether a From becomes a T by implicit conversion; but a pointer never
// becomes a bool.
template <typename T, typename From>
inline constexpr bool kConverts =
    std::is_convertible_v<From, T> &&
    !(kIsBool<T> && (std::is_pointer_v<std::decay_t<From>> ||
                     std::is_member_pointer_v<std::decay_t<From>>));

// Whether a cache makes a T of a From: by that conversion; a std::string of
// what converts to a view; and what cannot be moved, and so not be made before,
// by any constructor.
template <typename T, typename From>
inline constexpr bool kMakes = kConverts<T, From> ||
                               (!std::is_move_constructible_v<T> &&
                                std::is_constructible_v<T, From>);
template <typename From>
inline constexpr bool kMakes<std::string, From> =
    kIsText<std::remove_reference_t<From>>;

// Instantiated where a cache is created or asked for a key, not with the class:
// its types may still be incomplete there.
template <typename Key, typename Value, typename Hash, typename Equal>
struct CheckedTypes {
  static_assert(std::is_same_v<Key, std::decay_t<Key>> &&
                    std::is_same_v<Value, std::decay_t<Value>> &&
                    std::is_object_v<Key> && std::is_object_v<Value>,
                "a cache's Key and Value are types of objects, and neither "
                "const nor arrays: it shows them as const, and takes a "
                "std::array");
  static_assert(!kIsCharacters<Key> ||
                    !(std::is_same_v<Equal, std::equal_to<Key>> ||
                      std::is_same_v<Equal, std::equal_to<>>),
                "a cache of character pointers would compare addresses, not "
                "text: make the Key a std::string, which can be looked up with "
                "a const char*");
  static_assert(std::is_empty_v<Hash> && std::is_empty_v<Equal>,
                "a cache makes its Hash and Equal anew for each call, so they "
                "have no state: let them refer to a static object instead");
  static_assert(!std::is_same_v<Key, std::string> ||
                    (std::is_invocable_r_v<std::size_t, Hash, View<Key>> &&
                     kCompares<Equal, Key, View<Key>>),
                "the Hash and Equal of a cache of std::string keys take a "
                "std::string_view, as which it shows them: leave them out, or "
                "give ones that do");
  static_assert(std::is_default_constructible_v<Hash> &&
                    std::is_invocable_r_v<std::size_t, Hash, View<Key>>,
                "the Key has no hash: give it an AbslHashValue, or the cache "
                "a Hash that takes a const Key&");
  static_assert(std::is_default_constructible_v<Equal> &&
                    kCompares<Equal, Key, std::decay_t<View<Key>>>,
                "the Key has no equality: give it an operator==, or the cache "
                "an Equal that takes two const Key&");
  static constexpr bool kAreRight = true;
};

// The same, and that its keys can be looked up with a K.
template <typename Key, typename Value, typename Hash, typename Equal,
          typename K>
struct CheckedLookUp : CheckedTypes<Key, Value, Hash, Equal> {
  static_assert(std::is_invocable_r_v<std::size_t, Hash, const K&> &&
                    kCompares<Equal, Key, K>,
                "the cache's keys cannot be looked up with this type: it does "
                "not convert to the Key, and Hash and Equal do not take it");
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_TYPES_REQUIREMENTS_H_
