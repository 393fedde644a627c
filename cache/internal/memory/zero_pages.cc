#include "wheelcache/cache/internal/memory/zero_pages.h"

#include <cstddef>

#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"

namespace wheelcache::internal {
namespace {

std::byte* Map(size_t bytes, ZeroPages::Size size) {
  if (bytes == 0) return nullptr;
  const bool huge = size == ZeroPages::Size::kHuge && bytes >= kHugePageBytes;
  void* const memory = huge ? MapZeros(bytes) : MapPages(bytes);
  if (memory == nullptr) ThrowBadAlloc();
  if (huge) AskForHugePages(memory, bytes);
  return static_cast<std::byte*>(memory);
}

}  // namespace

ZeroPages::ZeroPages(size_t bytes, Size size)
    : bytes_(bytes), begin_(Map(bytes, size)) {}

ZeroPages::~ZeroPages() {
  if (begin_ != nullptr) UnmapPages(begin_, bytes_);
}

}  // namespace wheelcache::internal
