#include "wheelcache/wheel/internal/timer_blocks.h"

#include <algorithm>
#include <limits>
#include <new>

#include "absl/base/config.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

// A service of few timers takes little.
constexpr size_t kFirstChunk = size_t{1} << 10;
constexpr size_t kHugePage = size_t{2} << 20;

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
constexpr size_t kPages = std::numeric_limits<size_t>::max();  // Sees no pages.
#else
constexpr size_t kPages = size_t{64} << 10;
#endif

// Maps memory, which goes back to the system when it is freed, as huge pages if
// there is enough for one: with millions of timers, TLB misses are most of what
// a call costs.
std::byte* MapTimerMemory(size_t bytes) {
  if (bytes < kHugePage) return platform::MapPages(bytes, /*at_once=*/false);
  std::byte* const pages = platform::ReservePages(bytes, kHugePage);
  if (pages == nullptr) return nullptr;
  if (!platform::CommitPages(pages, bytes)) {
    platform::UnmapPages(pages, bytes);
    return nullptr;
  }
  platform::PreferHugePages(pages, bytes / kHugePage * kHugePage);
  return pages;
}

size_t WholePages(size_t bytes) {
  const size_t page = platform::PageBytes();
  return (bytes + page - 1) / page * page;
}

}  // namespace

void* AllocateTimerMemory(size_t bytes, size_t alignment) {
  if (bytes < kPages || alignment > platform::PageBytes()) {
    return ::operator new(bytes, std::align_val_t(alignment));
  }
  std::byte* const memory = MapTimerMemory(WholePages(bytes));
  if (memory == nullptr) ThrowBadAlloc();
  return memory;
}

void FreeTimerMemory(void* memory, size_t bytes, size_t alignment) {
  if (bytes < kPages || alignment > platform::PageBytes()) {
    ::operator delete(memory, std::align_val_t(alignment));
  } else {
    platform::UnmapPages(memory, WholePages(bytes));
  }
}

TimerBlocks::TimerBlocks(size_t bytes, size_t alignment)
    : alignment_(std::max(alignment, alignof(FreeBlock))),
      bytes_((bytes + alignment_ - 1) / alignment_ * alignment_) {}

TimerBlocks::~TimerBlocks() { DropChunks(0); }

void* TimerBlocks::Allocate() {
  if (free_ == nullptr && untouched_ == 0) AddChunk();
  ++used_;
  if (free_ != nullptr) {
    void* const block = free_;
    free_ = free_->next;
    return block;
  }
  const Chunk& last = chunks_.back();
  return last.begin + bytes_ * (last.bytes / bytes_ - untouched_--);
}

void TimerBlocks::Free(void* block) {
  if (--used_ > 0 || chunks_.size() == 1) {
    free_ = ::new (block) FreeBlock{free_};
    return;
  }
  DropChunks(1);
  free_ = nullptr;
  untouched_ = chunks_[0].bytes / bytes_;
}

void TimerBlocks::AddChunk() {
  const size_t bytes =
      chunks_.empty()
          ? std::max(kFirstChunk, bytes_)
          : std::max(std::min(2 * chunks_.back().bytes, kHugePage), bytes_);
  chunks_.reserve(chunks_.size() + 1);
  chunks_.push_back(
      {static_cast<std::byte*>(AllocateTimerMemory(bytes, alignment_)), bytes});
  untouched_ = bytes / bytes_;
}

void TimerBlocks::DropChunks(size_t kept) {
  for (; chunks_.size() > kept; chunks_.pop_back()) {
    FreeTimerMemory(chunks_.back().begin, chunks_.back().bytes, alignment_);
  }
}

}  // namespace wheelcache::internal
