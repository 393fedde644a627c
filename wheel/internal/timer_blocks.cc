#include "wheelcache/wheel/internal/timer_blocks.h"

#include <algorithm>
#include <new>

namespace wheelcache::internal {
namespace {

// A service of few timers takes little; large chunks are mapped, and unmapped,
// by malloc.
constexpr size_t kFirstChunk = size_t{4} << 10;
constexpr size_t kLargestChunk = size_t{1} << 20;

}  // namespace

TimerBlocks::TimerBlocks(size_t bytes, size_t alignment)
    : alignment_(std::max(alignment, alignof(FreeBlock))),
      bytes_((bytes + alignment_ - 1) / alignment_ * alignment_) {}

TimerBlocks::~TimerBlocks() {
  MutexLock lock(&mu_);
  DropChunksLocked(0);
}

void* TimerBlocks::Allocate() {
  MutexLock lock(&mu_);
  if (free_ == nullptr && untouched_ == 0) AddChunkLocked();
  ++used_;
  if (free_ != nullptr) {
    void* const block = free_;
    free_ = free_->next;
    return block;
  }
  const Chunk& last = chunks_.back();
  return last.begin + bytes_ * (last.blocks - untouched_--);
}

bool TimerBlocks::Free(void* block) {
  MutexLock lock(&mu_);
  if (--used_ > 0 || chunks_.size() == 1) {
    free_ = ::new (block) FreeBlock{free_};
    return false;
  }
  DropChunksLocked(1);
  free_ = nullptr;
  untouched_ = chunks_[0].blocks;
  return true;
}

void TimerBlocks::AddChunkLocked() {
  const size_t bytes =
      chunks_.empty()
          ? kFirstChunk
          : std::min(2 * bytes_ * chunks_.back().blocks, kLargestChunk);
  const size_t blocks = std::max<size_t>(bytes / bytes_, 1);
  chunks_.reserve(chunks_.size() + 1);
  chunks_.push_back({static_cast<std::byte*>(::operator new(
                         blocks* bytes_, std::align_val_t(alignment_))),
                     blocks});
  untouched_ = blocks;
}

void TimerBlocks::DropChunksLocked(size_t kept) {
  for (; chunks_.size() > kept; chunks_.pop_back()) {
    ::operator delete(chunks_.back().begin, std::align_val_t(alignment_));
  }
}

}  // namespace wheelcache::internal
