#include "wheelcache/cache/internal/memory/table_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

TableMemory::TableMemory(size_t tables, size_t bytes, size_t ahead) {
  const size_t size = ahead + tables * bytes;
  if (size < kHugePageBytes) return;
  taken_.resize(tables);
  memory_ = MapZeros(size);
  if (memory_ == nullptr) return;  // Each table is on its own.
  AskForHugePages(memory_, size);
  size_ = size;
  begin_ = static_cast<std::byte*>(memory_) + ahead;
  tables_ = tables;
  bytes_ = bytes;
  allocated_.store(static_cast<int64_t>(ahead), std::memory_order_relaxed);
}

TableMemory::~TableMemory() {
  if (memory_ != nullptr) UnmapPages(memory_, size_);
}

bool TableMemory::IsMapped(size_t bytes) {
  constexpr size_t kLeast = 16 << 10;  // Less would make many mappings.
  return bytes >= std::max(kLeast, PageBytes(1));
}

void* TableMemory::Allocate(size_t bytes) {
  void* memory = bytes == bytes_ ? TakePlace() : nullptr;
  if (memory == nullptr) {
    memory = IsMapped(bytes) ? MapPages(bytes) : std::calloc(bytes, 1);
  }
  if (memory == nullptr) ThrowBadAlloc();
  allocated_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return memory;
}

void* TableMemory::TakePlace() {
  MutexLock lock(&mu_);
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return nullptr;
  *free = true;
  return begin_ + static_cast<size_t>(free - taken_.begin()) * bytes_;
}

void TableMemory::Free(void* memory, size_t bytes) {
  allocated_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (Holds(memory)) {
    FreePlace(memory);
  } else if (IsMapped(bytes)) {
    UnmapPages(memory, bytes);
  } else {
    std::free(memory);
  }
}

void TableMemory::FreePlace(void* memory) {
  ZeroMemory(memory, bytes_);
  const auto offset =
      static_cast<size_t>(static_cast<std::byte*>(memory) - begin_);
  MutexLock lock(&mu_);
  taken_[offset / bytes_] = false;
}

}  // namespace wheelcache::internal
