// What the local tier of a near cache has under a key: the value, or that there
// is none, and the session in which it was fetched.
//
// A string lies behind its stamp in one string, so that the entry has both
// inline. Any other type lies in an object.
//
// Threads. Functions of their arguments.

#ifndef WHEELCACHE_CACHE_NEAR_STORED_VALUE_H_
#define WHEELCACHE_CACHE_NEAR_STORED_VALUE_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace wheelcache::internal {

template <typename Value>
struct StoredValue {
  // The type that the local cache stores, and that by which it shows it.
  struct Type {
    uint64_t session;
    std::optional<Value> value;
  };
  using View = const Type&;

  static Type Make(uint64_t session, std::optional<Value> value) {
    return {session, std::move(value)};
  }
  static uint64_t Session(View stored) { return stored.session; }
  static bool HasValue(View stored) { return stored.value.has_value(); }
  static std::optional<Value> Copy(View stored) { return stored.value; }
};

template <>
struct StoredValue<std::string> {
  using Type = std::string;
  using View = std::string_view;

  static Type Make(uint64_t session, std::optional<std::string> value) {
    const uint64_t stamp = session << 1 | (value.has_value() ? 1 : 0);
    std::string stored;
    stored.reserve(sizeof(stamp) + (value.has_value() ? value->size() : 0));
    stored.append(reinterpret_cast<const char*>(&stamp), sizeof(stamp));
    if (value.has_value()) stored.append(*value);
    return stored;
  }
  static uint64_t Session(View stored) { return Stamp(stored) >> 1; }
  static bool HasValue(View stored) { return (Stamp(stored) & 1) != 0; }
  static std::optional<std::string> Copy(View stored) {
    if (!HasValue(stored)) return std::nullopt;
    return std::string(stored.substr(sizeof(uint64_t)));
  }

 private:
  static uint64_t Stamp(View stored) {
    uint64_t stamp;
    std::memcpy(&stamp, stored.data(), sizeof(stamp));
    return stamp;
  }
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_STORED_VALUE_H_
