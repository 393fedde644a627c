// Makes chosen allocations of the calling thread fail: operator new, calloc,
// mmap and mprotect, whichever comes; and counts what operator new has given.
//
//   // Two succeed, those that follow do not.
//   EXPECT_TRUE(ThrowsWithoutMemory(2, /*all_that_follow=*/true,
//                                   [&] { cache->Set(1, "one"); }));
//   EXPECT_GT(Failed(Allocation::kNew), 0);
//
// Replaces the global operator new: to be included by one source of a program.
// All but operator new are reached only if the program is linked statically
// with -Wl,--wrap=calloc,--wrap=mmap,--wrap=mprotect.

#ifndef WHEELCACHE_TESTS_TESTING_FAILING_ALLOCATIONS_H_
#define WHEELCACHE_TESTS_TESTING_FAILING_ALLOCATIONS_H_

#include <malloc.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "absl/base/attributes.h"

namespace wheelcache::testing {

enum class Allocation { kNew, kCalloc, kMmap, kMprotect };

struct FailingAllocations {
  int64_t left = std::numeric_limits<int64_t>::max();  // That will succeed.
  bool once = false;                                   // Others succeed again.
  int64_t failed[4] = {};                              // Of each kind, ever.
};
inline thread_local FailingAllocations failing_allocations;

// What operator new has given this thread and not got back, in usable bytes.
inline int64_t& Allocated() {
  static thread_local int64_t bytes = 0;
  return bytes;
}

inline bool AllocationFails(Allocation kind) {
  FailingAllocations& state = failing_allocations;
  if (state.left > 0) {
    --state.left;
    return false;
  }
  if (state.once) state.left = std::numeric_limits<int64_t>::max();
  ++state.failed[static_cast<int>(kind)];
  return true;
}

// How many allocations of a kind this thread has seen fail.
inline int64_t Failed(Allocation kind) {
  return failing_allocations.failed[static_cast<int>(kind)];
}
inline int64_t Failed() {
  return Failed(Allocation::kNew) + Failed(Allocation::kCalloc) +
         Failed(Allocation::kMmap) + Failed(Allocation::kMprotect);
}

// Runs `call` with its allocation number `n` failing, and with
// `all_that_follow` those after it, too. Returns whether std::bad_alloc came
// out of it.
template <typename Call>
bool ThrowsWithoutMemory(int64_t n, bool all_that_follow, Call&& call) {
  failing_allocations.left = n;
  failing_allocations.once = !all_that_follow;
  bool thrown = false;
  try {
    std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  failing_allocations.left = std::numeric_limits<int64_t>::max();
  return thrown;
}

// Runs `call` with its first allocation failing, its second, and so on until
// none fails any more; each in both ways. After each run calls
// `check(thrown)`.
template <typename Call, typename Check>
void WithEachAllocationFailing(Call&& call, Check&& check) {
  for (const bool all_that_follow : {false, true}) {
    int64_t before;
    int64_t n = 0;
    do {
      before = Failed();
      check(ThrowsWithoutMemory(n++, all_that_follow, call));
    } while (Failed() > before);
  }
}

}  // namespace wheelcache::testing

// NOLINTBEGIN(misc-definitions-in-headers): one source of a program has them.

namespace wheelcache::testing {

// Returns nothing where the allocation is to fail.
inline void* Allocate(size_t size, size_t alignment) {
  if (AllocationFails(Allocation::kNew)) return nullptr;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const block = alignment > alignof(std::max_align_t)
                          ? std::aligned_alloc(alignment, rounded)
                          : std::malloc(size != 0 ? size : 1);
  Allocated() += static_cast<int64_t>(malloc_usable_size(block));
  return block;
}

inline void* AllocateOrThrow(size_t size, size_t alignment) {
  if (void* const block = Allocate(size, alignment)) return block;
  throw std::bad_alloc();
}

inline void Free(void* block) {
  Allocated() -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

}  // namespace wheelcache::testing

// Not inline, or the compiler finds fault with pairs of which it sees one half.
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size) {
  return wheelcache::testing::AllocateOrThrow(size, 1);
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size,
                                           std::align_val_t alignment) {
  return wheelcache::testing::AllocateOrThrow(size,
                                              static_cast<size_t>(alignment));
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size,
                                           const std::nothrow_t&) noexcept {
  return wheelcache::testing::Allocate(size, 1);
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t size,
                                           std::align_val_t alignment,
                                           const std::nothrow_t&) noexcept {
  return wheelcache::testing::Allocate(size, static_cast<size_t>(alignment));
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block) noexcept {
  wheelcache::testing::Free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block, size_t) noexcept {
  wheelcache::testing::Free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block,
                                             std::align_val_t) noexcept {
  wheelcache::testing::Free(block);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* block, size_t,
                                             std::align_val_t) noexcept {
  wheelcache::testing::Free(block);
}

extern "C" {

// The names that the linker gives to what --wrap replaces.
void* __real_calloc(size_t count, size_t size);
void* __wrap_calloc(size_t count, size_t size) {
  using wheelcache::testing::Allocation;
  if (wheelcache::testing::AllocationFails(Allocation::kCalloc)) return nullptr;
  return __real_calloc(count, size);
}
void* __real_mmap(void* address, size_t length, int protection, int flags,
                  int file, off_t offset);
void* __wrap_mmap(void* address, size_t length, int protection, int flags,
                  int file, off_t offset) {
  using wheelcache::testing::Allocation;
  if (wheelcache::testing::AllocationFails(Allocation::kMmap)) {
    return MAP_FAILED;
  }
  return __real_mmap(address, length, protection, flags, file, offset);
}
int __real_mprotect(void* address, size_t length, int protection);
int __wrap_mprotect(void* address, size_t length, int protection) {
  using wheelcache::testing::Allocation;
  if (wheelcache::testing::AllocationFails(Allocation::kMprotect)) return -1;
  return __real_mprotect(address, length, protection);
}
}

// NOLINTEND(misc-definitions-in-headers)

#endif  // WHEELCACHE_TESTS_TESTING_FAILING_ALLOCATIONS_H_
