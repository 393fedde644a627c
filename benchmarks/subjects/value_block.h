// A value in one allocation, for caches that hold void pointers.
//
//   void* value = NewValueBlock("bytes");
//   absl::string_view bytes = BytesOf(value);
//   DeleteValueBlock(value);
//
// A pointer to a std::string would cost a second allocation, and each read
// another cache miss.

#ifndef WHEELCACHE_BENCHMARKS_SUBJECTS_VALUE_BLOCK_H_
#define WHEELCACHE_BENCHMARKS_SUBJECTS_VALUE_BLOCK_H_

#include <cstddef>
#include <cstring>
#include <new>

#include "absl/strings/string_view.h"

namespace wheelcache::benchmarks {

inline void* NewValueBlock(absl::string_view bytes) {
  const size_t size = bytes.size();
  char* block = static_cast<char*>(::operator new(sizeof(size) + size));
  std::memcpy(block, &size, sizeof(size));
  std::memcpy(block + sizeof(size), bytes.data(), size);
  return block;
}

inline absl::string_view BytesOf(const void* block) {
  size_t size;
  std::memcpy(&size, block, sizeof(size));
  return {static_cast<const char*>(block) + sizeof(size), size};
}

inline void DeleteValueBlock(void* block) { ::operator delete(block); }

}  // namespace wheelcache::benchmarks

#endif  // WHEELCACHE_BENCHMARKS_SUBJECTS_VALUE_BLOCK_H_
