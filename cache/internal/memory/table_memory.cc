#include "wheelcache/cache/internal/memory/table_memory.h"

#include <algorithm>
#include <cstdlib>

#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// None if that fails: then each table is on its own.
Pages PagesFor(size_t bytes) {
  return bytes < kHugePageBytes ? Pages()
                                : Pages::TryMap(bytes, Pages::Kind::kHuge);
}

}  // namespace

TableMemory::TableMemory(size_t tables, size_t bytes, size_t ahead)
    : pages_(PagesFor(ahead + tables * bytes)),
      tables_(pages_.begin() != nullptr ? tables : 0),
      bytes_(bytes),
      offset_(ahead),
      taken_(tables_),
      allocated_(tables_ > 0 ? static_cast<int64_t>(ahead) : 0) {}

bool TableMemory::IsMapped(size_t bytes) {
  constexpr size_t kLeast = 16 << 10;  // Less would make many mappings.
  return bytes >= std::max(kLeast, Pages::RoundUp(1));
}

void* TableMemory::Allocate(size_t bytes) {
  void* memory = bytes == bytes_ ? TakePlace() : nullptr;
  if (memory == nullptr) {
    memory = IsMapped(bytes) ? Pages::TryMap(bytes).Release()
                             : std::calloc(bytes, 1);
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
  return pages_.begin() + offset_ +
         static_cast<size_t>(free - taken_.begin()) * bytes_;
}

void TableMemory::Free(void* memory, size_t bytes) {
  allocated_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (Holds(memory)) {
    FreePlace(memory);
  } else if (IsMapped(bytes)) {
    Pages::Adopt(memory, bytes);  // Ends at once.
  } else {
    std::free(memory);
  }
}

void TableMemory::FreePlace(void* memory) {
  const auto at =
      static_cast<size_t>(static_cast<std::byte*>(memory) - pages_.begin());
  pages_.Clear(at, bytes_);
  MutexLock lock(&mu_);
  taken_[(at - offset_) / bytes_] = false;
}

}  // namespace wheelcache::internal
