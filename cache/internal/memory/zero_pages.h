// Zeroed pages from the system, each of which takes memory from its first use.
// They may be huge (cache/internal/memory/huge_pages.h), against TLB misses.
//
// Threads. Constant after construction; its user synchronizes accesses to the
// memory.
//
// Errors. The constructor throws std::bad_alloc, or ends a program without
// exceptions.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_ZERO_PAGES_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_ZERO_PAGES_H_

#include <cstddef>

#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT ZeroPages {
 public:
  enum class Size { kSmall, kHuge };

  // None if `bytes` is 0. Only whole pages are huge.
  explicit ZeroPages(size_t bytes, Size size = Size::kSmall);
  ~ZeroPages();

  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;

  // Null if there are none.
  std::byte* begin() const { return begin_; }

 private:
  const size_t bytes_;
  std::byte* const begin_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_ZERO_PAGES_H_
