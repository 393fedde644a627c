#include "wheelcache/cache/internal/memory/chunks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wheelcache/cache/internal/memory/asan.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/page_release.h"

namespace wheelcache::internal {

Chunks::~Chunks() {
  for (uint32_t chunk = 0; chunk < count_; ++chunk) {
    void* const granules = At(chunk * kChunk);
    Unpoison(granules, kChunkBytes);
    RemoveLeakRoot(granules, kChunkBytes);
    UnmapPages(granules, kChunkBytes + kNoteBytes);
  }
}

bool Chunks::ExtendByHugePage() {
  if (usable_ == count_ * kChunk && !AddChunk()) return false;
  void* const page = At(usable_);
  if (!MakeUsable(page, kHugePageBytes)) return false;
  Poison(page, kHugePageBytes);
  if (WantsHugePage(usable_)) AskForHugePages(page, kHugePageBytes);
  usable_ += kHugePage;
  return true;
}

// Stores the zero that is there, without a load before it.
void Chunks::TouchPage(Ref first) const {
  static_cast<volatile uint64_t&>(BitOf(first).word) = 0;
  UnitOf(first).bits_touched = true;
}

bool Chunks::AddChunk() {
  if (count_ == kMaxChunks) return false;
  auto* const memory =
      static_cast<std::byte*>(ReserveMemory(kChunkBytes + kNoteBytes));
  if (memory == nullptr) return false;
  if (!MakeUsable(memory + kChunkBytes, kNoteBytes)) {
    UnmapPages(memory, kChunkBytes + kNoteBytes);
    return false;
  }
  AddLeakRoot(memory, kChunkBytes);
  bases_[count_] = reinterpret_cast<uintptr_t>(memory) - count_ * kChunkBytes;
  ++count_;
  return true;
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

// NOLINTNEXTLINE(readability-make-member-function-const): it changes pages.
void Chunks::Release(uint32_t begin, uint32_t end, PageRelease* release) {
  const Ref ref = begin * kPage;
#ifdef MADV_NOHUGEPAGE
  // Otherwise the kernel makes the rest a huge page again.
  for (Ref huge = ref / kHugePage * kHugePage; huge < end * kPage;
       huge += kHugePage) {
    Unit& first = UnitOf(huge);
    if (first.small_pages) continue;
    madvise(At(huge), kHugePageBytes, MADV_NOHUGEPAGE);
    first.small_pages = true;
  }
#endif
  release->Add(At(ref), size_t{end - begin} * kPage * kGranuleBytes);
}

uint32_t Chunks::PagesAtOnce() {
  constexpr size_t kPageBytes = kPage * kGranuleBytes;
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return static_cast<uint32_t>(std::max(bytes, kPageBytes) / kPageBytes);
}

}  // namespace wheelcache::internal
