// The shards of a cache, one behind the other.
//
// A Set looks at several lines of its shard, which is another one each time: a
// few pages for all of them are found faster than some for each.
//
// Threads. Constant: whoever has it may use the shards as those allow.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_

#include <cstddef>
#include <new>

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
      : ShardArray(memory, memory == nullptr ? Allocate(count) : nullptr) {
    for (; size_ < count; ++size_) ::new (end()) Shard(make(size_));
  }
  ~ShardArray() {
    while (size_ > 0) begin_[--size_].~Shard();
    ::operator delete (own_, std::align_val_t{alignof(Shard)});
  }

  ShardArray(const ShardArray&) = delete;
  ShardArray& operator=(const ShardArray&) = delete;

  size_t size() const { return size_; }
  Shard& operator[](size_t i) const { return begin_[i]; }
  Shard* begin() const { return begin_; }
  Shard* end() const { return begin_ + size_; }

 private:
  // Delegated to, so that the destructor runs if `make` throws.
  ShardArray(void* memory, void* own)
      : own_(own), begin_(static_cast<Shard*>(own == nullptr ? memory : own)) {}

  static void* Allocate(size_t count) {
    return ::operator new (Bytes(count), std::align_val_t{alignof(Shard)});
  }

  void* const own_;
  Shard* const begin_;
  size_t size_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_ARRAY_H_
