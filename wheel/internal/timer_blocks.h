// Memory for the items of a timer service: blocks of one size, in chunks. When
// the last block is free, all chunks but the first go back.
//
// Threads. Thread-safe. Its lock is held for O(1), and for O(chunks) when they
// go back; no other is taken meanwhile.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

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

  // Frees a block. Returns whether chunks went back.
  bool Free(void* block);

 private:
  struct FreeBlock {
    FreeBlock* next;
  };

  void AddChunkLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropChunksLocked(size_t kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t alignment_;
  const size_t bytes_;  // A multiple of that.

  Mutex mu_;
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  FreeBlock* free_ ABSL_GUARDED_BY(mu_) = nullptr;
  // Of the last chunk, the blocks that nobody has had yet.
  size_t untouched_ ABSL_GUARDED_BY(mu_) = 0;
  struct Chunk {
    std::byte* begin;
    size_t blocks;
  };
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_BLOCKS_H_
