#include "wheelcache/cache/internal/memory/pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "wheelcache/cache/internal/memory/page_release.h"

namespace wheelcache::internal {
namespace {

uintptr_t RoundUpTo(size_t alignment, uintptr_t value) {
  return (value + alignment - 1) & ~(alignment - 1);
}

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

std::byte* MapWith(int protection, int flags, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::byte* MapUsable(int flags, size_t bytes) {
  return MapWith(PROT_READ | PROT_WRITE, flags, bytes);
}

// Addresses that begin at a multiple of kHugePageBytes.
std::byte* Reserve(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  std::byte* const mapped = MapWith(PROT_NONE, MAP_NORESERVE, reserved);
  if (mapped == nullptr) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = RoundUpTo(kHugePageBytes, begin);
  const uintptr_t end = RoundUpTo(PageSize(), aligned + bytes);
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (end < begin + reserved) {
    munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  }
  return reinterpret_cast<std::byte*>(aligned);
}

#ifdef MAP_POPULATE
constexpr int kPopulate = MAP_POPULATE;
#else
constexpr int kPopulate = 0;
#endif

}  // namespace

void ThrowBadAlloc() {
#ifdef ABSL_HAVE_EXCEPTIONS
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

Pages Pages::Map(size_t bytes, Kind kind) {
  Pages pages = TryMap(bytes, kind);
  if (pages.begin_ == nullptr && bytes > 0) ThrowBadAlloc();
  return pages;
}

Pages Pages::TryMap(size_t bytes, Kind kind) {
  if (bytes == 0) return Pages();
  if (kind == Kind::kReserved) return Pages(Reserve(bytes), bytes);
  if (kind != Kind::kHuge || bytes < kHugePageBytes) {
    return Pages(MapUsable(kind == Kind::kAtOnce ? kPopulate : 0, bytes),
                 bytes);
  }
  Pages pages(Reserve(bytes), bytes);
  if (pages.begin_ == nullptr || !pages.Commit(0, bytes)) return Pages();
  pages.AskForHuge(0, bytes);
  return pages;
}

Pages::~Pages() {
  // The kernel rounds up itself; qemu-user with pages of 64 KiB does not.
  if (begin_ != nullptr) munmap(begin_, RoundUp(bytes_));
}

bool Pages::Commit(size_t offset, size_t bytes) const {
  return mprotect(begin_ + offset, bytes, PROT_READ | PROT_WRITE) == 0;
}

void Pages::AskForHuge([[maybe_unused]] size_t offset,
                       [[maybe_unused]] size_t bytes) const {
#ifdef MADV_HUGEPAGE
  madvise(begin_ + offset, bytes / kHugePageBytes * kHugePageBytes,
          MADV_HUGEPAGE);
#endif
}

void Pages::Clear(size_t offset, size_t bytes) const {
  std::byte* const memory = begin_ + offset;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = begin + bytes;
  const uintptr_t first_page = RoundUpTo(PageSize(), begin);
  const uintptr_t last_page = end & ~(PageSize() - 1);
  if (first_page >= last_page ||
      madvise(reinterpret_cast<void*>(first_page), last_page - first_page,
              MADV_DONTNEED) != 0) {
    std::memset(memory, 0, bytes);
    return;
  }
  std::memset(memory, 0, first_page - begin);
  std::memset(reinterpret_cast<void*>(last_page), 0, end - last_page);
}

size_t Pages::RoundUp(size_t bytes) { return RoundUpTo(PageSize(), bytes); }

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
