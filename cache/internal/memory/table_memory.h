// Memory for the hash tables of a cache's shards.
//
// Tables whose final size is known have adjacent places in huge pages, against
// TLB misses: each look-up reads a random line of one. Other large tables have
// pages of their own, and small ones come from malloc. So the memory of a freed
// table goes back to the system. The same huge pages can hold other hot data
// ahead of the places.
//
// Threads. Thread-safe.
//
// Errors. Allocate throws std::bad_alloc, or ends a program without exceptions.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_TABLE_MEMORY_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_TABLE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT TableMemory {
 public:
  TableMemory() = default;
  // Has places for `tables` tables of `bytes` each, behind `ahead` bytes for
  // the caller's own use, if all of that fills a huge page.
  TableMemory(size_t tables, size_t bytes, size_t ahead = 0);

  TableMemory(const TableMemory&) = delete;
  TableMemory& operator=(const TableMemory&) = delete;

  // The bytes ahead of the tables, zeros at the beginning of a huge page; or
  // null if there are no huge pages.
  std::byte* ahead() const { return pages_.begin(); }

  // Returns `bytes` zeros, in a free place if that has this size.
  void* Allocate(size_t bytes);
  // REQUIRES: `memory` was allocated for so many bytes.
  void Free(void* memory, size_t bytes);

  // The bytes of all tables, and what lies ahead of them. At any time.
  int64_t allocated_bytes() const {
    return allocated_.load(std::memory_order_relaxed);
  }

  // For tests.
  bool Holds(const void* memory) const {
    const auto* const at = static_cast<const std::byte*>(memory);
    return tables_ > 0 && pages_.begin() + offset_ <= at &&
           at < pages_.begin() + pages_.bytes();
  }

 private:
  // Whether a table of this size has pages of its own. Some mallocs keep freed
  // memory for seconds, and a cache that shrinks frees tables in each shard.
  static bool IsMapped(size_t bytes);
  void* TakePlace();
  void FreePlace(void* memory);

  const Pages pages_{};  // Clang rejects a const member without.
  // The places, if there are pages.
  const size_t tables_ = 0;
  const size_t bytes_ = 0;   // Of each.
  const size_t offset_ = 0;  // In the pages.

  Mutex mu_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mu_);  // For each place.

  std::atomic<int64_t> allocated_{0};  // Relaxed: a number to look at.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_TABLE_MEMORY_H_
