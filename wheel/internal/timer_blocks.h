// Memory for the items of a timer service: blocks of one size, in chunks. When
// the last block is free, all chunks but the first go back. And an allocator
// for its tables.
//
// Threads. Thread-compatible. All is O(1), but for giving chunks back.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// What is large goes back to the system when it is freed. The first throws
// std::bad_alloc; the second takes the same arguments.
WHEELCACHE_EXPORT void* AllocateTimerMemory(size_t bytes, size_t alignment);
WHEELCACHE_EXPORT void FreeTimerMemory(void* memory, size_t bytes,
                                       size_t alignment);

template <typename T>
struct TimerAllocator {
  using value_type = T;

  TimerAllocator() = default;
  template <typename Other>
  TimerAllocator(const TimerAllocator<Other>&) {}  // NOLINT: implicit

  T* allocate(size_t count) {
    return static_cast<T*>(AllocateTimerMemory(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* memory, size_t count) {
    FreeTimerMemory(memory, count * sizeof(T), alignof(T));
  }

  friend bool operator==(TimerAllocator, TimerAllocator) { return true; }
  friend bool operator!=(TimerAllocator, TimerAllocator) { return false; }
};

class WHEELCACHE_EXPORT TimerBlocks {
 public:
  // The size and the alignment of a type.
  TimerBlocks(size_t bytes, size_t alignment);
  TimerBlocks(const TimerBlocks&) = delete;
  TimerBlocks& operator=(const TimerBlocks&) = delete;

  // REQUIRES: all blocks are free.
  ~TimerBlocks();

  // Returns a block, or throws std::bad_alloc.
  void* Allocate();

  void Free(void* block);

 private:
  struct FreeBlock {
    FreeBlock* next;
  };

  void AddChunk();
  void DropChunks(size_t kept);

  const size_t alignment_;
  const size_t bytes_;  // A multiple of that.

  size_t used_ = 0;
  FreeBlock* free_ = nullptr;
  // Of the last chunk, the blocks that nobody has had yet.
  size_t untouched_ = 0;
  struct Chunk {
    std::byte* begin;
    size_t bytes;
  };
  std::vector<Chunk> chunks_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_
