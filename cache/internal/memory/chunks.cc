#include "wheelcache/cache/internal/memory/chunks.h"

#include <algorithm>
#include <utility>

#include "wheelcache/cache/internal/memory/page_release.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {

Chunks::~Chunks() {
  for (const Pages& chunk : chunks_) {
    Unpoison(chunk.begin(), kChunkBytes);
    RemoveLeakRoot(chunk.begin(), kChunkBytes);
  }
}

bool Chunks::ExtendByHugePage() {
  if (usable_ == chunks_.size() * kChunk && !AddChunk()) return false;
  const Pages& chunk = chunks_.back();
  const size_t offset = usable_ % kChunk * kGranuleBytes;
  if (!chunk.Commit(offset, kHugePageBytes)) return false;
  Poison(chunk.begin() + offset, kHugePageBytes);
  if (WantsHugePage(usable_)) chunk.AskForHuge(offset, kHugePageBytes);
  usable_ += kHugePage;
  return true;
}

// Stores the zero that is there, without a load before it.
void Chunks::TouchPage(Ref first) const {
  static_cast<volatile uint64_t&>(BitOf(first).word) = 0;
  UnitOf(first).bits_touched = true;
}

bool Chunks::AddChunk() {
  const size_t count = chunks_.size();
  if (count == kMaxChunks) return false;
  Pages chunk = Pages::TryMap(kChunkBytes + kNoteBytes, Pages::Kind::kReserved);
  std::byte* const begin = chunk.begin();
  if (begin == nullptr || !chunk.Commit(kChunkBytes, kNoteBytes)) return false;
  if (!Contain([&] { chunks_.push_back(std::move(chunk)); })) return false;
  AddLeakRoot(begin, kChunkBytes);
  bases_[count] = reinterpret_cast<uintptr_t>(begin) - count * kChunkBytes;
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
  // Otherwise the kernel makes the rest a huge page again.
  for (Ref huge = ref / kHugePage * kHugePage; huge < end * kPage;
       huge += kHugePage) {
    Unit& first = UnitOf(huge);
    if (first.small_pages) continue;
    platform::RefuseHugePages(At(huge), kHugePageBytes);
    first.small_pages = true;
  }
  release->Add(At(ref), size_t{end - begin} * kPage * kGranuleBytes);
}

uint32_t Chunks::PagesAtOnce() {
  constexpr size_t kPageBytes = kPage * kGranuleBytes;
  return static_cast<uint32_t>(std::max(platform::PageBytes(), kPageBytes) /
                               kPageBytes);
}

}  // namespace wheelcache::internal
