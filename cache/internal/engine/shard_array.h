// The shards of a cache, one behind the other.
//
// A Set looks at several lines of its shard, which is another one each time: a
// few pages for all of them are found faster than some for each. Many shards
// have pages of their own: malloc may round so large a block up, and hundreds
// of caches may each take no more than they need.
//
// Threads. Constant: whoever has it may use the shards as those allow.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_

#include <cstddef>
#include <new>

#include "wheelcache/cache/internal/memory/asan.h"
#include "wheelcache/cache/internal/memory/pages.h"

namespace wheelcache::internal {

template <typename Shard>
class ShardArray {
 public:
  // The memory that so many shards take.
  static constexpr size_t Bytes(size_t count) { return count * sizeof(Shard); }

  // Fills itself with what `make(i)` returns for each i from 0 on. Lies in
  // `memory`, which must outlive it, or in its own where that is null. Throws
  // what `make` throws, or std::bad_alloc.
  template <typename Make>
  ShardArray(void* memory, size_t count, Make make)
      : ShardArray(memory, memory == nullptr ? count : 0) {
    for (; size_ < count; ++size_) ::new (end()) Shard(make(size_));
  }
  ~ShardArray() {
    while (size_ > 0) begin_[--size_].~Shard();
    if (own_ > 0) Free(begin_, own_);
  }

  ShardArray(const ShardArray&) = delete;
  ShardArray& operator=(const ShardArray&) = delete;

  size_t size() const { return size_; }
  Shard& operator[](size_t i) const { return begin_[i]; }
  Shard* begin() const { return begin_; }
  Shard* end() const { return begin_ + size_; }

 private:
  // From this size on: the rest of the last page is little.
  static constexpr size_t kMapped = 32 << 10;

  // Delegated to, so that the destructor runs if `make` throws.
  ShardArray(void* memory, size_t own)
      : own_(own),
        begin_(static_cast<Shard*>(own > 0 ? Allocate(own) : memory)) {}

  static void* Allocate(size_t count) {
    const size_t bytes = Bytes(count);
    if (bytes < kMapped) {
      return ::operator new (bytes, std::align_val_t{alignof(Shard)});
    }
    void* const pages = Pages::Map(bytes, Pages::Kind::kAtOnce).Release();
    AddLeakRoot(pages, bytes);
    return pages;
  }
  static void Free(void* memory, size_t count) {
    const size_t bytes = Bytes(count);
    if (bytes < kMapped) {
      ::operator delete (memory, std::align_val_t{alignof(Shard)});
      return;
    }
    RemoveLeakRoot(memory, bytes);
    Pages::Adopt(memory, bytes);  // Ends at once.
  }

  const size_t own_;  // How many shards there is own memory for.
  Shard* const begin_;
  size_t size_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_
