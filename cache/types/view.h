// The type by which a cache shows a key or a value: a view of its own memory.
//
//   hooks.on_removal = [](std::string_view key, const Session& session,
//                         wheelcache::RemovalCause cause) { ... };
//
// A std::string is stored as its characters, inside the cache's own entry, and
// shown as a std::string_view of them; there is no std::string object. A T of
// any other type is stored as the object it is, and shown as a const T&.

#ifndef WHEELCACHE_CACHE_TYPES_VIEW_H_
#define WHEELCACHE_CACHE_TYPES_VIEW_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

template <typename T>
using View = std::conditional_t<std::is_same_v<T, std::string>,
                                std::string_view, const T&>;

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_VIEW_H_
