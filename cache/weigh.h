// How many bytes a key or a value takes, for CacheOptions::max_bytes.
//
//   hooks.weigher = [](const std::string& key, const Page& page) {
//     return wheelcache::MemoryOf(key) + sizeof(Page) + page.text.capacity();
//   };
//
// A cache charges an entry with what its weigher returns for key and value,
// and with its own overhead for them. The default weigher is the sum of the
// two MemoryOf: right for strings and for types without memory of their own;
// for other types give a weigher.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_WEIGH_H_
#define WHEELCACHE_CACHE_WEIGH_H_

#include <algorithm>
#include <cstdint>
#include <string>

namespace wheelcache {

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
  // glibc adds a word to a block and rounds up to 16.
  const uint64_t block = (uint64_t{s.capacity()} + 1 + 8 + 15) / 16 * 16;
  return sizeof(s) + std::max<uint64_t>(block, 32);
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_WEIGH_H_
