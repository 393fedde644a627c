#include "wheelcache/cache/internal/memory/table_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/cache/internal/memory/throw_bad_alloc.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

TableMemory::TableMemory(size_t tables, size_t bytes, size_t ahead) {
  const size_t size = ahead + tables * bytes;
  if (size < kHugePageBytes) return;
  states_.resize(tables, State::kZero);
  memory_ = MapZeros(size);
  if (memory_ == nullptr) return;  // Malloc serves all.
  AskForHugePages(memory_, size);
  size_ = size;
  begin_ = static_cast<std::byte*>(memory_) + ahead;
  tables_ = tables;
  bytes_ = bytes;
}

TableMemory::~TableMemory() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void* TableMemory::Allocate(size_t bytes) {
  void* memory = bytes == bytes_ ? TakePlace() : nullptr;
  if (memory == nullptr) memory = std::calloc(bytes, 1);
  if (memory == nullptr) ThrowBadAlloc();
  return memory;
}

void* TableMemory::TakePlace() {
  MutexLock lock(&mu_);
  const auto free = std::find_if(states_.begin(), states_.end(),
                                 [](State s) { return s != State::kTaken; });
  if (free == states_.end()) return nullptr;
  std::byte* const place = begin_ + (free - states_.begin()) * bytes_;
  if (*free == State::kUsed) std::memset(place, 0, bytes_);
  *free = State::kTaken;
  return place;
}

void TableMemory::Free(void* memory) {
  if (!Holds(memory)) {
    std::free(memory);
    return;
  }
  MutexLock lock(&mu_);
  const auto place = (static_cast<std::byte*>(memory) - begin_) / bytes_;
  states_[place] = State::kUsed;
}

}  // namespace wheelcache::internal
