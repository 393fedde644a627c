#include "wheelcache/cache/internal/memory/chunks.h"

#include <sys/mman.h>

#include <algorithm>

#include "wheelcache/cache/internal/memory/asan.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"

namespace wheelcache::internal {

Chunks::~Chunks() {
  for (uint32_t chunk = 0; chunk < count_; ++chunk) {
    void* const granules = At(chunk * kChunk);
    Unpoison(granules, kChunkBytes);
    RemoveLeakRoot(granules, kChunkBytes);
    munmap(granules, kChunkBytes + kBitBytes);
  }
}

void Chunks::ExtendByHugePage() {
  if (usable_ == count_ * kChunk) AddChunk();
  void* const page = At(usable_);
  if (!MakeUsable(page, kHugePageBytes)) ThrowBadAlloc();
  Poison(page, kHugePageBytes);
  if (WantsHugePage(usable_)) AskForHugePages(page, kHugePageBytes);
  usable_ += kHugePage;
}

void Chunks::AddChunk() {
  if (count_ == kMaxChunks) ThrowBadAlloc();
  auto* const memory =
      static_cast<std::byte*>(ReserveMemory(kChunkBytes + kBitBytes));
  if (memory == nullptr) ThrowBadAlloc();
  if (!MakeUsable(memory + kChunkBytes, kBitBytes)) {
    munmap(memory, kChunkBytes + kBitBytes);
    ThrowBadAlloc();
  }
  AddLeakRoot(memory, kChunkBytes);
  bases_[count_] = reinterpret_cast<uintptr_t>(memory) - count_ * kChunkBytes;
  ++count_;
}

// Whether to request a huge page that begins with this granule. An owner that
// needs an eighth more than expected has larger blocks than expected, and will
// need more.
bool Chunks::WantsHugePage(Ref begin) const {
  constexpr uint64_t kFewBytes = 8 << 20;
  constexpr uint64_t kManyBytes = 32 << 20;
  const uint64_t begin_byte = uint64_t{begin} * kGranuleBytes;
  if (begin_byte + kHugePageBytes <= expected_bytes_) {
    return expected_bytes_ >= kFewBytes;
  }
  return begin_byte >= std::max(kManyBytes, expected_bytes_ / 8 * 9);
}

void Chunks::Release(Ref ref, uint32_t granules) {
#ifdef MADV_NOHUGEPAGE
  // Otherwise the kernel makes the rest a huge page again.
  const Ref end = ref + granules;
  for (Ref page = ref / kHugePage * kHugePage; page < end; page += kHugePage) {
    madvise(At(page), kHugePageBytes, MADV_NOHUGEPAGE);
  }
#endif
  madvise(At(ref), size_t{granules} * kGranuleBytes, MADV_DONTNEED);
}

}  // namespace wheelcache::internal
