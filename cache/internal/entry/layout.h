// The memory layout of a key and a value, stored one behind the other.
//
// A std::string is its length, in as few bytes as that takes, and then its
// characters: no object, no pointer, no padding. Any other T is a T at its
// alignment. A key or value larger than kMaxInside is stored elsewhere, by a
// pointer.
//
// Strings that are stored elsewhere have pages of their own, so that their
// memory goes back to the system with them.
//
// A short key thus mostly shares a cache line with its entry's header.
//
// Threads. Thread-compatible: constant from Construct to Destroy.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_LAYOUT_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/cache/types/hash.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/cache/types/weigh.h"

namespace wheelcache::internal {

// The most bytes of a key or a value that are stored inside the entry, so that
// both fit into a block of the arena.
inline constexpr size_t kMaxInside = 64 << 10;

// A pointer at any address, unaligned.
inline constexpr size_t kPointerBytes = sizeof(void*);
template <typename T>
T* LoadPointer(const std::byte* at) {
  T* pointer;
  std::memcpy(&pointer, at, kPointerBytes);
  return pointer;
}
template <typename T>
void StorePointer(std::byte* at, T* pointer) {
  std::memcpy(at, &pointer, kPointerBytes);
}

// The bytes that a key or a value takes inside the entry, and elsewhere.
struct Footprint {
  size_t inside;
  uint64_t outside;
};

// In the place of a value that there is not: the bytes of an object are left as
// they are, and a string is empty.
struct NoValue {
  // NOLINTNEXTLINE(google-explicit-constructor): it is used as a string.
  operator std::string_view() const { return {}; }
};

// How one T is stored: here, an object.
template <typename T>
class Stored {
 public:
  static constexpr bool kIsString = false;
  static constexpr bool kInside = sizeof(T) <= kMaxInside;
  static constexpr size_t kBytes = kInside ? sizeof(T) : sizeof(T*);
  static constexpr size_t kAlignment = kInside ? alignof(T) : alignof(T*);

  // Whether Destroy does nothing where all that is stored is inside.
  static constexpr bool kPlain = kInside && std::is_trivially_destructible_v<T>;

  // Whether a copy of its bytes is a copy of it, if all that is stored is
  // inside. An atomic is not copied: others may write to it meanwhile.
  static constexpr bool kCopyable =
      kInside && std::is_trivially_copyable_v<T> &&
      std::is_copy_constructible_v<T> && kAlignment <= 8;

  // What Construct is given: the caller's own. And the bytes that it will take
  // inside the entry, and elsewhere.
  template <typename From>
  static From&& Source(From&& from) {
    return std::forward<From>(from);
  }
  template <typename From>
  static size_t Bytes(const From&) {
    return kBytes;
  }
  template <typename From>
  static uint64_t Outside(const From&) {
    return LeastOutside();
  }
  static uint64_t LeastOutside() {
    return kInside ? 0 : MallocBytes(sizeof(T));
  }
  static Footprint FootprintAt(const std::byte*) {
    return {kBytes, LeastOutside()};
  }

  template <typename From>
  static void Construct(std::byte* at, From&& from) {
    if constexpr (std::is_same_v<From, NoValue>) {
    } else if constexpr (kInside) {
      ::new (static_cast<void*>(at)) T(std::forward<From>(from));
    } else {
      StorePointer(at, new T(std::forward<From>(from)));
    }
  }
  static void Destroy(std::byte* at) {
    if constexpr (kInside) {
      std::destroy_at(std::launder(reinterpret_cast<T*>(at)));
    } else {
      delete LoadPointer<T>(at);
    }
  }

  static const T& Get(const std::byte* at) {
    if constexpr (kInside) {
      return *std::launder(reinterpret_cast<const T*>(at));
    } else {
      return *LoadPointer<T>(at);
    }
  }
};

// A string. Its length is stored seven bits to a byte, the lowest first, the
// last byte below 128.
template <>
class Stored<std::string> {
 public:
  static constexpr bool kIsString = true;
  static constexpr size_t kBytes = 1;  // At least.
  static constexpr size_t kAlignment = 1;
  static constexpr bool kPlain = true;
  static constexpr bool kCopyable = true;

  template <typename From>
  static std::string_view Source(const From& from) {
    return ToStringView(from);
  }
  static size_t Bytes(std::string_view s) {
    if (ABSL_PREDICT_TRUE(s.size() < 128)) return 1 + s.size();
    return LengthBytes(s.size()) + (Inside(s) ? s.size() : sizeof(char*));
  }
  static uint64_t Outside(std::string_view s) {
    return ABSL_PREDICT_TRUE(Inside(s)) ? 0 : Pages::RoundUp(s.size());
  }
  static uint64_t LeastOutside() { return 0; }
  ABSL_ATTRIBUTE_ALWAYS_INLINE static Footprint FootprintAt(
      const std::byte* at) {
    const auto size = static_cast<size_t>(*at);
    if (ABSL_PREDICT_FALSE(size >= 128)) return LongFootprintAt(at);
    return {1 + size, 0};
  }

  static void Construct(std::byte* at, std::string_view s) {
    std::byte* const rest = StoreLength(at, s.size());
    if (Inside(s)) {
      std::copy_n(s.data(), s.size(), reinterpret_cast<char*>(rest));
    } else {
      Pages outside = Pages::Map(s.size(), Pages::Kind::kAtOnce);
      std::memcpy(outside.begin(), s.data(), s.size());
      StorePointer(rest, outside.Release());
    }
  }
  static void Destroy(std::byte* at) {
    const std::string_view s = Get(at);
    if (Inside(s)) return;
    Pages::Adopt(const_cast<char*>(s.data()), s.size());  // Ends at once.
  }

  // Called twice by a hit, as FootprintAt is several times by a Set: strings
  // with a length of one byte, which are inside, are handled inline.
  ABSL_ATTRIBUTE_ALWAYS_INLINE static std::string_view Get(
      const std::byte* at) {
    const auto size = static_cast<size_t>(*at);
    if (ABSL_PREDICT_FALSE(size >= 128)) return GetLong(at);
    return {reinterpret_cast<const char*>(at + 1), size};
  }

 private:
  static bool Inside(std::string_view s) { return s.size() <= kMaxInside; }

  static size_t LengthBytes(size_t length) {
    size_t bytes = 1;
    while (length >>= 7) ++bytes;
    return bytes;
  }
  static std::byte* StoreLength(std::byte* at, size_t length) {
    for (; length >= 128; length >>= 7) {
      *at++ = static_cast<std::byte>(length | 128);
    }
    *at++ = static_cast<std::byte>(length);
    return at;
  }
  ABSL_ATTRIBUTE_NOINLINE static Footprint LongFootprintAt(
      const std::byte* at) {
    const std::string_view s = GetLong(at);
    return {Bytes(s), Outside(s)};
  }
  ABSL_ATTRIBUTE_NOINLINE static std::string_view GetLong(const std::byte* at) {
    const auto low = static_cast<size_t>(*at++) - 128;
    const size_t size = LoadRestOfLength(low, &at);
    const char* const chars = size <= kMaxInside
                                  ? reinterpret_cast<const char*>(at)
                                  : LoadPointer<char>(at);
    return {chars, size};
  }
  static size_t LoadRestOfLength(size_t length, const std::byte** at) {
    for (int shift = 7;; shift += 7) {
      const auto byte = static_cast<size_t>(*(*at)++);
      length |= (byte & 127) << shift;
      if (byte < 128) return length;
    }
  }
};

// A key and a value, in memory that begins aligned to 8. A string never comes
// before an object, which would need padding.
template <typename Key, typename Value>
class Layout {
 public:
  using StoredKey = Stored<Key>;
  using StoredValue = Stored<Value>;

  // Whether a pair with nothing outside needs no destruction; and whether a
  // copy of its bytes is a copy of it.
  static constexpr bool kPlain = StoredKey::kPlain && StoredValue::kPlain;
  static constexpr bool kCopyable =
      StoredKey::kCopyable && StoredValue::kCopyable;

  // The memory of the smallest pair here, and elsewhere.
  static constexpr size_t LeastBytes() {
    return BytesOf(StoredKey::kBytes, StoredValue::kBytes);
  }
  static uint64_t LeastOutside() {
    return StoredKey::LeastOutside() + StoredValue::LeastOutside();
  }

  // The memory that a pair needs here and elsewhere, given its Sources; and
  // that it takes.
  template <typename K, typename V>
  static size_t Bytes(const K& key, const V& value) {
    return BytesOf(StoredKey::Bytes(key), StoredValue::Bytes(value));
  }
  template <typename K, typename V>
  static uint64_t Outside(const K& key, const V& value) {
    return StoredKey::Outside(key) + StoredValue::Outside(value);
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE static Footprint FootprintAt(
      const std::byte* begin) {
    const std::byte* const at = Align(begin);
    const Footprint first = First::FootprintAt(at);
    const size_t offset = SecondOffset(first.inside);
    const Footprint second = Second::FootprintAt(at + offset);
    return {kAlignment - 8 + offset + second.inside,
            first.outside + second.outside};
  }

  // Makes a pair from their Sources, or throws and leaves nothing. Inlined into
  // each Set.
  template <typename K, typename V>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static void Construct(std::byte* begin, K&& key,
                                                     V&& value) {
    std::byte* const first = Align(begin);
    std::byte* const second =
        first + SecondOffset(kKeyFirst ? StoredKey::Bytes(key)
                                       : StoredValue::Bytes(value));
    std::byte* const key_at = kKeyFirst ? first : second;
    StoredKey::Construct(key_at, std::forward<K>(key));
    Undo undo{key_at};
    StoredValue::Construct(kKeyFirst ? second : first, std::forward<V>(value));
    undo.key_at = nullptr;
  }
  static void Destroy(std::byte* begin) {
    StoredValue::Destroy(const_cast<std::byte*>(ValueAt(begin)));
    DestroyKey(begin);
  }
  static void DestroyKey(std::byte* begin) {
    StoredKey::Destroy(const_cast<std::byte*>(KeyAt(begin)));
  }

  static View<Key> KeyOf(const std::byte* begin) {
    return StoredKey::Get(KeyAt(begin));
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE static View<Value> ValueOf(
      const std::byte* begin) {
    return StoredValue::Get(ValueAt(begin));
  }

 private:
  static constexpr bool kKeyFirst =
      !StoredKey::kIsString || StoredValue::kIsString;
  using First = std::conditional_t<kKeyFirst, StoredKey, StoredValue>;
  using Second = std::conditional_t<kKeyFirst, StoredValue, StoredKey>;

  static constexpr size_t kAlignment =
      std::max({First::kAlignment, Second::kAlignment, size_t{8}});

  // Destroys the key if the construction of the value throws.
  struct Undo {
    ~Undo() {
      if (key_at != nullptr) StoredKey::Destroy(key_at);
    }
    std::byte* key_at;
  };

  static constexpr size_t RoundUp(size_t bytes, size_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  static constexpr size_t SecondOffset(size_t first_bytes) {
    return RoundUp(first_bytes, Second::kAlignment);
  }
  static constexpr size_t BytesOf(size_t key_bytes, size_t value_bytes) {
    return kAlignment - 8 + SecondOffset(kKeyFirst ? key_bytes : value_bytes) +
           (kKeyFirst ? value_bytes : key_bytes);
  }

  template <typename Byte>
  static Byte* Align(Byte* begin) {
    if constexpr (kAlignment == 8) return begin;
    return begin + -reinterpret_cast<uintptr_t>(begin) % kAlignment;
  }
  static const std::byte* SecondAt(const std::byte* begin) {
    const std::byte* const first = Align(begin);
    return first + SecondOffset(First::FootprintAt(first).inside);
  }
  static const std::byte* KeyAt(const std::byte* begin) {
    return kKeyFirst ? Align(begin) : SecondAt(begin);
  }
  static const std::byte* ValueAt(const std::byte* begin) {
    return kKeyFirst ? SecondAt(begin) : Align(begin);
  }
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_LAYOUT_H_
