#include "wheelcache/cache/internal/chunks.h"

#include <sys/mman.h>

#include "wheelcache/cache/internal/asan.h"
#include "wheelcache/cache/internal/throw_bad_alloc.h"

namespace wheelcache {
namespace internal {
namespace {

constexpr size_t kHugePageBytes = Chunks::kHugePage * Chunks::kGranuleBytes;

uintptr_t RoundUp(uintptr_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// Maps `bytes` of zeros at a multiple of a huge page's size.
uintptr_t Map(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) ThrowBadAlloc();
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = RoundUp(begin, kHugePageBytes);
  const uintptr_t end = RoundUp(aligned + bytes, 1 << 12);
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (end < begin + reserved) {
    munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  }
  return aligned;
}

}  // namespace

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
  const uintptr_t granules = Map(Bytes(count_) + BitBytes(count_));
  Poison(reinterpret_cast<void*>(granules), Bytes(count_));
  AddLeakRoot(reinterpret_cast<void*>(granules), Bytes(count_));
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

// Before the first use: the kernel makes huge pages of small ones that are in
// use in its own time only, or at a price that the caller would notice.
void Chunks::BeginUse(Ref begin, Ref end) const {
  const uint32_t last = (end + kFirstChunk + kHugePage - 1) / kHugePage;
  uint32_t page = (begin + kFirstChunk + kHugePage - 1) / kHugePage;
  for (; page != last; ++page) {
    if (!UsesHugePage(page)) continue;
#ifdef MADV_HUGEPAGE
    madvise(At(page * kHugePage - kFirstChunk), kHugePageBytes, MADV_HUGEPAGE);
#endif
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
