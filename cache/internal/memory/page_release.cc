#include "wheelcache/cache/internal/memory/page_release.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

namespace wheelcache::internal {

void PageRelease::Flush() {
  if (count_ <= 1 || !ReleaseInOneCall()) {
    for (size_t i = 0; i < count_; ++i) {
      madvise(ranges_[i].iov_base, ranges_[i].iov_len, MADV_DONTNEED);
    }
  }
  count_ = 0;
  bytes_ = 0;
}

// Returns false if some ranges may be left.
bool PageRelease::ReleaseInOneCall() const {
#if defined(__linux__) && defined(SYS_process_madvise)
  // From linux/pidfd.h, which older systems lack. A kernel that does not know
  // it finds no such file descriptor.
  constexpr int kPidfdSelf = -10000;
  return syscall(SYS_process_madvise, kPidfdSelf, ranges_.data(), count_,
                 MADV_DONTNEED, 0) == static_cast<ssize_t>(bytes_);
#else
  return false;
#endif
}

}  // namespace wheelcache::internal
