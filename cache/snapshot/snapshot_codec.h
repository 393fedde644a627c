// How a snapshot turns keys and values into bytes, and back.
//
//   struct UserCodec : wheelcache::SnapshotCodec<int64_t, User> {
//     static std::string name() { return "user"; }
//     static uint32_t version() { return 2; }
//     static void EncodeValue(const User& user, std::string* bytes) {
//       absl::StrAppend(bytes, user.visits, " ", user.name);
//     }
//     static absl::StatusOr<User> DecodeValue(absl::string_view bytes) {
//       std::pair<absl::string_view, absl::string_view> parts =
//           absl::StrSplit(bytes, absl::MaxSplits(' ', 1));
//       User user;
//       if (!absl::SimpleAtoi(parts.first, &user.visits)) {
//         return absl::DataLossError("must begin with a number of visits");
//       }
//       user.name = std::string(parts.second);
//       return user;
//     }
//   };
//   ...
//   auto saved =
//       wheelcache::SaveSnapshotFile(*users, "users.snapshot", UserCodec());
//
// SnapshotCodec covers strings, as they are; numbers; and messages of protocol
// buffers, or any type with their SerializeToString and ParseFromString. For
// another type derive from it, as above, and give the pair a name; or write a
// type with these six functions. Each appends to its bytes, which are empty.
//
// A snapshot with another name or version than the codec's is refused. To
// change the form of values, raise the version: then the next start is a cold
// one. A message that parses may be of another type, so give it a name as well.
//
// Threads. Methods are called by the thread that saves or loads.

#ifndef WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_CODEC_H_
#define WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_CODEC_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/types/view.h"

namespace wheelcache {
namespace internal {

// How a snapshot writes a key or a value of this type.
template <typename T>
struct SnapshotField {
  template <typename U, typename = void>
  struct IsMessage : std::false_type {};
  template <typename U>
  struct IsMessage<
      U, std::void_t<decltype(std::declval<const U&>().SerializeToString(
                         std::declval<std::string*>())),
                     decltype(std::declval<U&>().ParseFromString(
                         std::declval<const std::string&>()))>>
      : std::true_type {};

  static constexpr bool kIsString = std::is_same_v<T, std::string>;
  static constexpr bool kIsNumber =
      std::is_arithmetic_v<T> && sizeof(T) <= sizeof(double);
  static_assert(kIsString || kIsNumber || IsMessage<T>::value,
                "give the snapshot a codec of this type: "
                "cache/snapshot/snapshot_codec.h");

  static std::string Name() {
    if constexpr (kIsString) return "string";
    if constexpr (!kIsNumber) return "message";
    return absl::StrCat(std::is_integral_v<T> ? "integer of " : "float of ",
                        8 * sizeof(T), " bits");
  }

  static void Encode(View<T> value, std::string* bytes) {
    if constexpr (kIsString) {
      bytes->append(value.data(), value.size());
    } else if constexpr (kIsNumber) {
      bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      value.SerializeToString(bytes);
    }
  }

  static absl::StatusOr<T> Decode(absl::string_view bytes) {
    if constexpr (kIsString) {
      return std::string(bytes);
    } else if constexpr (kIsNumber) {
      T value;
      if (bytes.size() != sizeof(value)) {
        return absl::DataLossError(
            absl::StrCat("must be a number of ", sizeof(value), " bytes"));
      }
      if constexpr (std::is_same_v<T, bool>) return bytes[0] != 0;
      std::memcpy(&value, bytes.data(), sizeof(value));
      return value;
    } else {
      T value;
      if (value.ParseFromString(std::string(bytes))) return value;
      return absl::DataLossError("must be a serialized message");
    }
  }
};

}  // namespace internal

template <typename Key, typename Value>
struct SnapshotCodec {
  static std::string name() {
    return absl::StrCat(internal::SnapshotField<Key>::Name(), " to ",
                        internal::SnapshotField<Value>::Name());
  }
  static uint32_t version() { return 1; }

  static void EncodeKey(View<Key> key, std::string* bytes) {
    internal::SnapshotField<Key>::Encode(key, bytes);
  }
  static void EncodeValue(View<Value> value, std::string* bytes) {
    internal::SnapshotField<Value>::Encode(value, bytes);
  }
  static absl::StatusOr<Key> DecodeKey(absl::string_view bytes) {
    return internal::SnapshotField<Key>::Decode(bytes);
  }
  static absl::StatusOr<Value> DecodeValue(absl::string_view bytes) {
    return internal::SnapshotField<Value>::Decode(bytes);
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_SNAPSHOT_SNAPSHOT_CODEC_H_
