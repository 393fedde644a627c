#include "wheelcache/cache/internal/memory/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"

namespace wheelcache::internal {
namespace {

uintptr_t RoundUp(uintptr_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void* MapPagesWith(int flags, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

void* ReserveMemory(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, reserved, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = RoundUp(begin, kHugePageBytes);
  const uintptr_t end = RoundUp(aligned + bytes, PageSize());
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (end < begin + reserved) {
    munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  }
  return reinterpret_cast<void*>(aligned);
}

bool MakeUsable(void* begin, size_t bytes) {
  return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0;
}

void* MapZeros(size_t bytes) {
  void* const memory = ReserveMemory(bytes);
  if (memory == nullptr || MakeUsable(memory, bytes)) return memory;
  UnmapPages(memory, bytes);
  return nullptr;
}

void* MapPages(size_t bytes) { return MapPagesWith(0, bytes); }

void* AllocatePages(size_t bytes) {
#ifdef MAP_POPULATE
  constexpr int kAtOnce = MAP_POPULATE;  // One fault, not one for each page.
#else
  constexpr int kAtOnce = 0;
#endif
  void* const memory = MapPagesWith(kAtOnce, bytes);
  if (memory == nullptr) ThrowBadAlloc();
  return memory;
}

size_t PageBytes(size_t bytes) { return RoundUp(bytes, PageSize()); }

void UnmapPages(void* memory, size_t bytes) {
  // The kernel rounds up itself; qemu-user with pages of 64 KiB does not.
  munmap(memory, PageBytes(bytes));
}

void ZeroMemory(void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t end = begin + bytes;
  const uintptr_t first_page = RoundUp(begin, PageSize());
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

void AskForHugePages(void* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(begin, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
#else
  static_cast<void>(begin);
  static_cast<void>(bytes);
#endif
}

}  // namespace wheelcache::internal
