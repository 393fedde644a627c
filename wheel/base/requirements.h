// What caches and timer services require of the types of their keys.
//
// Threads. Nothing here exists at run time.

#ifndef WHEELCACHE_WHEEL_BASE_REQUIREMENTS_H_
#define WHEELCACHE_WHEEL_BASE_REQUIREMENTS_H_

#include <type_traits>
#include <utility>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache::internal {

template <typename T, typename = void>
inline constexpr bool kHasEquality = false;
template <typename T>
inline constexpr bool
    kHasEquality<T, std::void_t<decltype(std::declval<const T&>() ==
                                         std::declval<const T&>())>> = true;

template <typename T>
inline constexpr bool kIsCharacters =
    std::is_same_v<T, char*> || std::is_same_v<T, const char*> ||
    std::is_same_v<T, wchar_t*> || std::is_same_v<T, const wchar_t*>;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_BASE_REQUIREMENTS_H_
