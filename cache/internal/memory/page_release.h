// Gives pages back to the system, many ranges of them in one call.
//
//   PageRelease release;
//   release.Add(begin, bytes);
//   release.Add(other_begin, other_bytes);
//   // Here, at the latest, all of them go back.
//
// Each call of the system interrupts every core that runs a thread of the
// process, so there is one call for many ranges where the system takes that.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_

#include <array>
#include <cstddef>

#include "wheelcache/wheel/base/platform.h"

namespace wheelcache::internal {

class PageRelease {
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
  }

 private:
  static constexpr size_t kMostRanges = 64;

  void Flush() {
    platform::ReleasePages(ranges_.data(), count_);
    count_ = 0;
  }

  size_t count_ = 0;
  // The first `count_` are in use.
  std::array<platform::PageRange, kMostRanges> ranges_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_PAGE_RELEASE_H_
