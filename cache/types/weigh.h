// How many bytes a key or a value takes, for CacheOptions::max_bytes.
//
//   hooks.weigher = [](std::string_view key, const Page& page) {
//     return key.size() + wheelcache::MemoryOf(page) +
//            wheelcache::MemoryOf(page.text) - sizeof(page.text);
//   };
//
// A cache charges an entry with the memory that it takes: its block in the
// cache's memory, strings included, and its share of the index. What a key or a
// value owns elsewhere only you know, unless it is a std::string: for such
// types give a weigher. Then an entry is charged with what that returns for key
// and value, plus kEntryOverhead.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_TYPES_WEIGH_H_
#define WHEELCACHE_CACHE_TYPES_WEIGH_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "wheelcache/wheel/base/platform.h"

namespace wheelcache {

// The bytes of an entry besides its key and value: its links, deadline, age and
// recency; its share of the index; and with a weigher, the stored charge.
inline constexpr uint64_t kEntryBytes = 40;
inline constexpr uint64_t kIndexBytes = 12;
inline constexpr uint64_t kChargeBytes = 4;
inline constexpr uint64_t kEntryOverhead =
    kEntryBytes + kIndexBytes + kChargeBytes;

namespace internal {

// What malloc takes for so many bytes under glibc: a word more, rounded up to
// 16, or to pages where the block is mapped.
inline uint64_t MallocBytes(uint64_t bytes) {
  constexpr uint64_t kMapped = 128 << 10;
  const uint64_t unit = bytes < kMapped ? 16 : platform::PageBytes();
  return std::max<uint64_t>((bytes + 8 + unit - 1) / unit * unit, 32);
}

}  // namespace internal

// The bytes of the object itself.
template <typename T>
uint64_t MemoryOf(const T&) {
  return sizeof(T);
}

// The bytes of the object and of its characters, with what the allocator adds
// to them, where they are not inside the object.
inline uint64_t MemoryOf(const std::string& s) {
  const char* object = reinterpret_cast<const char*>(&s);
  if (s.data() >= object && s.data() < object + sizeof(s)) return sizeof(s);
  return sizeof(s) + internal::MallocBytes(uint64_t{s.capacity()} + 1);
}

// The characters alone: so a cache stores its strings and shows them.
inline uint64_t MemoryOf(std::string_view s) { return s.size(); }

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_WEIGH_H_
