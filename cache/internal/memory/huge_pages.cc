#include "wheelcache/cache/internal/memory/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace wheelcache::internal {
namespace {

uintptr_t RoundUp(uintptr_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace

void* ReserveMemory(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, reserved, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = RoundUp(begin, kHugePageBytes);
  const uintptr_t end = RoundUp(aligned + bytes, 1 << 12);
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
  munmap(memory, bytes);
  return nullptr;
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
