// What the local tier of a near cache has under a key: the value, or that there
// is none, and the stamp of its fetch.
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

#include "wheelcache/cache/near/fetch_stamp.h"

namespace wheelcache::internal {

template <typename Value>
struct StoredValue {
  // The type that the local cache stores, and that by which it shows it.
  struct Type {
    FetchStamp stamp;
    std::optional<Value> value;
  };
  using View = const Type&;

  static Type Make(FetchStamp stamp, std::optional<Value> value) {
    return {stamp, std::move(value)};
  }
  static FetchStamp Stamp(View stored) { return stored.stamp; }
  static bool HasValue(View stored) { return stored.value.has_value(); }
  // Copies what is there to an optional that is empty.
  static void CopyTo(View stored, std::optional<Value>* value) {
    if (stored.value.has_value()) value->emplace(*stored.value);
  }
};

template <>
struct StoredValue<std::string> {
  using Type = std::string;
  using View = std::string_view;

  static Type Make(FetchStamp stamp, std::optional<std::string> value) {
    const uint64_t bits = stamp.bits() | (value.has_value() ? 1 : 0);
    std::string stored;
    stored.reserve(sizeof(bits) + (value.has_value() ? value->size() : 0));
    stored.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    if (value.has_value()) stored.append(*value);
    return stored;
  }
  static FetchStamp Stamp(View stored) {
    return FetchStamp::FromBits(Bits(stored));
  }
  static bool HasValue(View stored) { return (Bits(stored) & 1) != 0; }
  static void CopyTo(View stored, std::optional<std::string>* value) {
    if (!HasValue(stored)) return;
    stored.remove_prefix(sizeof(uint64_t));
    value->emplace(stored.data(), stored.size());
  }

 private:
  static uint64_t Bits(View stored) {
    uint64_t bits;
    std::memcpy(&bits, stored.data(), sizeof(bits));
    return bits;
  }
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_STORED_VALUE_H_
