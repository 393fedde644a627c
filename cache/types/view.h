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

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

template <typename T>
using View = std::conditional_t<std::is_same_v<T, std::string>,
                                std::string_view, const T&>;

namespace internal {

// A std::function that says so if it is given what cannot take its arguments,
// which are views. To be kept as what it is: a std::function that is made of an
// empty one is not empty.
template <typename>
class Callback;
template <typename Result, typename... Arguments>
class Callback<Result(Arguments...)>
    : public std::function<Result(Arguments...)> {
 public:
  using Function = std::function<Result(Arguments...)>;

  Callback() = default;
  // NOLINTBEGIN(google-explicit-constructor): as those of std::function.
  Callback(std::nullptr_t) {}
  template <
      typename F,
      std::enable_if_t<!std::is_base_of_v<Callback, std::decay_t<F>>, int> = 0>
  Callback(F&& callable) {
    constexpr bool kFits =
        std::is_invocable_r_v<Result, std::decay_t<F>&, Arguments...>;
    static_assert(kFits,
                  "this function is called with other arguments, or returns "
                  "something else: see its declaration; strings are shown as "
                  "a std::string_view, not as a const std::string&");
    if constexpr (kFits) Function::operator=(std::forward<F>(callable));
  }
  // NOLINTEND(google-explicit-constructor)
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_VIEW_H_
