#include "wheelcache/cache/internal/chunks.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "absl/base/config.h"
#include "wheelcache/cache/internal/asan.h"

namespace wheelcache {
namespace internal {
namespace {

constexpr size_t kHugePageBytes = Chunks::kHugePage * Chunks::kGranuleBytes;

[[noreturn]] void ThrowBadAlloc() {
#ifdef ABSL_HAVE_EXCEPTIONS
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

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
  madvise(At(ref), size_t{granules} * kGranuleBytes, MADV_DONTNEED);
}

// Only once a huge page is full: so none is resident before it is needed. The
// pages must be asked for at once, as the kernel makes huge ones of pages that
// are in use in its own time only; where it cannot be asked, that will do.
void Chunks::UseHugePages(Ref before, Ref now) const {
  const uint32_t last = (now + kFirstChunk) / kHugePage;
  uint32_t page = (before + kFirstChunk) / kHugePage;
  for (; page != last; ++page) {
    if (page == 0) continue;  // The first chunk is smaller than a huge page.
    void* const begin = At(page * kHugePage - kFirstChunk);
#ifdef MADV_COLLAPSE
    if (madvise(begin, kHugePageBytes, MADV_COLLAPSE) == 0) continue;
#endif
#ifdef MADV_HUGEPAGE
    madvise(begin, kHugePageBytes, MADV_HUGEPAGE);
#endif
    static_cast<void>(begin);
  }
}

}  // namespace internal
}  // namespace wheelcache
