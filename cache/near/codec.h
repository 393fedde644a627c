// How a near cache turns values into the bytes that the remote store has, and
// back.
//
//   struct PriceCodec {
//     std::string Encode(const Price& price) const {
//       return absl::StrCat(price.cents, " ", price.currency);
//     }
//     absl::StatusOr<Price> Decode(absl::string_view bytes) const {
//       const std::vector<std::string> parts = absl::StrSplit(bytes, ' ');
//       Price price;
//       if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &price.cents)) {
//         return absl::DataLossError("must be cents and a currency");
//       }
//       price.currency = parts[1];
//       return price;
//     }
//   };
//   using Prices = wheelcache::NearCache<Price, PriceCodec>;
//
// DefaultCodec covers strings, as they are; integers, in decimal as Redis's
// INCR wants them; and messages of protocol buffers, or any type with their
// SerializeToString and ParseFromString.
//
// Decode gets what any program has written, and has to refuse what is not a
// value. To change the form of values, read both forms, or change the prefix of
// the keys.
//
// Threads. Methods are const, and called from all threads that use the cache.

#ifndef WHEELCACHE_CACHE_NEAR_CODEC_H_
#define WHEELCACHE_CACHE_NEAR_CODEC_H_

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace wheelcache {
namespace internal {

template <typename T, typename = void>
struct IsMessage : std::false_type {};
template <typename T>
struct IsMessage<
    T, std::void_t<decltype(std::declval<const T&>().SerializeToString(
                       std::declval<std::string*>())),
                   decltype(std::declval<T&>().ParseFromString(
                       std::declval<const std::string&>()))>> : std::true_type {
};

// What absl::SimpleAtoi reads: no bool, no character.
template <typename T>
inline constexpr bool kIsNumber =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) >= 4 &&
    !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char32_t>;

}  // namespace internal

template <typename Value>
struct DefaultCodec {
  static_assert(std::is_same_v<Value, std::string> ||
                    internal::kIsNumber<Value> ||
                    internal::IsMessage<Value>::value,
                "give the near cache a codec of this type: cache/near/codec.h");

  std::string Encode(const Value& value) const {
    if constexpr (std::is_same_v<Value, std::string>) {
      return value;
    } else if constexpr (internal::kIsNumber<Value>) {
      return absl::StrCat(value);
    } else {
      std::string bytes;
      value.SerializeToString(&bytes);
      return bytes;
    }
  }

  absl::StatusOr<Value> Decode(absl::string_view bytes) const {
    if constexpr (std::is_same_v<Value, std::string>) {
      return std::string(bytes);
    } else if constexpr (internal::kIsNumber<Value>) {
      Value value;
      if (absl::SimpleAtoi(bytes, &value)) return value;
      return absl::DataLossError(
          absl::StrCat("must be an integer of ", sizeof(Value), " bytes"));
    } else {
      Value value;
      if (value.ParseFromString(std::string(bytes))) return value;
      return absl::DataLossError("must be a serialized message");
    }
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_CODEC_H_
