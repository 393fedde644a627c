#include "wheelcache/cache/internal/chunks.h"

#include <sys/mman.h>

#include "wheelcache/cache/internal/asan.h"
#include "wheelcache/cache/internal/huge_pages.h"
#include "wheelcache/cache/internal/throw_bad_alloc.h"

namespace wheelcache {
namespace internal {
Chunks::~Chunks() {
  for (int chunk = 0; chunk < count_; ++chunk) {
    void* const granules = At(Begin(chunk));
    Unpoison(granules, Bytes(chunk));
    RemoveLeakRoot(granules, Bytes(chunk));
    munmap(granules, Bytes(chunk) + BitBytes(chunk));
  }
}

void Chunks::Add() {
  if (count_ == kMaxChunks) ThrowBadAlloc();
  void* const memory = MapZeros(Bytes(count_) + BitBytes(count_));
  if (memory == nullptr) ThrowBadAlloc();
  Poison(memory, Bytes(count_));
  AddLeakRoot(memory, Bytes(count_));
  const auto granules = reinterpret_cast<uintptr_t>(memory);
  const uint64_t first_place = uint64_t{Begin(count_)} + kFirstChunk;
  Bases& bases = bases_[count_];
  bases.bits = granules + Bytes(count_) - first_place / 8;
  bases.granules.store(granules - first_place * kGranuleBytes,
                       std::memory_order_relaxed);
  ++count_;
}

void Chunks::Release(Ref ref, uint32_t granules) {
#ifdef MADV_NOHUGEPAGE
  // Or the kernel makes a huge page again of what is left of one. The first
  // chunk is smaller than that.
  const uint32_t last = (ref + granules - 1 + kFirstChunk) / kHugePage;
  for (uint32_t page = (ref + kFirstChunk) / kHugePage; page <= last; ++page) {
    if (page == 0) continue;
    madvise(At(page * kHugePage - kFirstChunk), kHugePageBytes,
            MADV_NOHUGEPAGE);
  }
#endif
  madvise(At(ref), size_t{granules} * kGranuleBytes, MADV_DONTNEED);
}

void Chunks::BeginUse(Ref begin, Ref end) const {
  const uint32_t last = (end + kFirstChunk + kHugePage - 1) / kHugePage;
  uint32_t page = (begin + kFirstChunk + kHugePage - 1) / kHugePage;
  for (; page != last; ++page) {
    if (!UsesHugePage(page)) continue;
    AskForHugePages(At(page * kHugePage - kFirstChunk), kHugePageBytes);
  }
}

// Whether a page of this number, from the beginning of all memory, is to be a
// huge one.
bool Chunks::UsesHugePage(uint32_t page) const {
  constexpr uint64_t kFewBytes = 8 << 20;
  constexpr uint64_t kManyBytes = 64 << 20;
  const uint64_t begin = uint64_t{page} * kHugePageBytes;
  return begin >= kManyBytes ||
         (begin >= kFewBytes && begin + kHugePageBytes <= expected_bytes_);
}

}  // namespace internal
}  // namespace wheelcache
