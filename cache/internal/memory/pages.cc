#include "wheelcache/cache/internal/memory/pages.h"

#include <cstdint>
#include <cstring>

#include "wheelcache/cache/internal/memory/page_release.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {
namespace {

uintptr_t RoundUpTo(size_t alignment, uintptr_t value) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

Pages Pages::Map(size_t bytes, Kind kind) {
  Pages pages = TryMap(bytes, kind);
  if (pages.begin_ == nullptr && bytes > 0) ThrowBadAlloc();
  return pages;
}

Pages Pages::TryMap(size_t bytes, Kind kind) {
  if (bytes == 0) return Pages();
  const bool is_huge = kind == Kind::kHuge && bytes >= kHugePageBytes;
  if (kind != Kind::kReserved && !is_huge) {
    return Pages(platform::MapPages(bytes, kind == Kind::kAtOnce), bytes);
  }
  Pages pages(platform::ReservePages(bytes, kHugePageBytes), bytes);
  if (kind == Kind::kReserved) return pages;
  if (pages.begin_ == nullptr || !pages.Commit(0, bytes)) return Pages();
  pages.AskForHuge(0, bytes);
  return pages;
}

Pages::~Pages() {
  // The kernel rounds up itself; qemu-user with pages of 64 KiB does not.
  if (begin_ != nullptr) platform::UnmapPages(begin_, RoundUp(bytes_));
}

bool Pages::Commit(size_t offset, size_t bytes) const {
  return platform::CommitPages(begin_ + offset, bytes);
}

void Pages::AskForHuge(size_t offset, size_t bytes) const {
  platform::PreferHugePages(begin_ + offset,
                            bytes / kHugePageBytes * kHugePageBytes);
}

void Pages::Clear(size_t offset, size_t bytes) const {
  std::byte* const memory = begin_ + offset;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = begin + bytes;
  const size_t page_bytes = platform::PageBytes();
  const uintptr_t first_page = RoundUpTo(page_bytes, begin);
  const uintptr_t last_page = end & ~(page_bytes - 1);
  if (first_page >= last_page) {
    std::memset(memory, 0, bytes);
    return;
  }
  const platform::PageRange pages = {reinterpret_cast<void*>(first_page),
                                     last_page - first_page};
  platform::ReleasePages(&pages, 1);
  std::memset(memory, 0, first_page - begin);
  std::memset(reinterpret_cast<void*>(last_page), 0, end - last_page);
}

size_t Pages::RoundUp(size_t bytes) {
  return RoundUpTo(platform::PageBytes(), bytes);
}

}  // namespace wheelcache::internal
