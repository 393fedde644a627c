#include "wheelcache/cache/internal/memory/zero_pages.h"

#include <sys/mman.h>

#include <cstddef>

#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"

namespace wheelcache::internal {
namespace {

std::byte* Map(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ThrowBadAlloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

ZeroPages::ZeroPages(size_t bytes) : bytes_(bytes), begin_(Map(bytes)) {}

ZeroPages::~ZeroPages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

}  // namespace wheelcache::internal
