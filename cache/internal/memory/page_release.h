// Gives pages back to the system, many ranges of them in one call.
//
//   PageRelease release;
//   release.Add(begin, bytes);
//   release.Add(other_begin, other_bytes);
//   // Here, at the latest, all of them go back.
//
// Each call of madvise interrupts every core that runs a thread of the process,
// so that none uses the old pages from its TLB. Where the kernel takes many
// ranges in one call (process_madvise on the calling process; Linux 6.13, with
// one interrupt for all from 6.16 on), that is used. Older kernels get one call
// for each range.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>

#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT PageRelease {
 public:
  PageRelease() = default;
  PageRelease(const PageRelease&) = delete;
  PageRelease& operator=(const PageRelease&) = delete;
  ~PageRelease() { Flush(); }

  // Adds a range of private, anonymous memory: it becomes zeros, at the latest
  // at the end of this object.
  // REQUIRES: `begin` and `bytes` are multiples of the system's page size.
  void Add(void* begin, size_t bytes) {
    if (count_ == kMostRanges) Flush();
    ranges_[count_++] = {begin, bytes};
    bytes_ += bytes;
  }

 private:
  static constexpr size_t kMostRanges = 64;

  void Flush();
  bool ReleaseInOneCall() const;

  size_t count_ = 0;
  size_t bytes_ = 0;                       // Of all ranges.
  std::array<iovec, kMostRanges> ranges_;  // The first `count_` are in use.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_
