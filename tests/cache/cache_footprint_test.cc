// What a cache takes before its first Set, of malloc and for its shards. A
// process may have hundreds of caches that are hardly used.

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "absl/base/attributes.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shard_array.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace {

// What operator new has given out and not got back, in usable bytes.
thread_local int64_t allocated = 0;

void* Count(void* memory) {
  if (memory == nullptr) std::abort();
  allocated += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void Free(void* memory) {
  allocated -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// Not inline, or the compiler finds fault with pairs of which it sees one half.
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes) {
  return Count(std::malloc(bytes));
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes,
                                           const std::nothrow_t&) noexcept {
  return Count(std::malloc(bytes));
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes,
                                           std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  return Count(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
ABSL_ATTRIBUTE_NOINLINE void* operator new(size_t bytes,
                                           std::align_val_t alignment,
                                           const std::nothrow_t&) noexcept {
  return operator new(bytes, alignment);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory) noexcept {
  Free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory, size_t) noexcept {
  Free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory,
                                             const std::nothrow_t&) noexcept {
  Free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory,
                                             std::align_val_t) noexcept {
  Free(memory);
}
ABSL_ATTRIBUTE_NOINLINE void operator delete(void* memory, size_t,
                                             std::align_val_t) noexcept {
  Free(memory);
}

namespace wheelcache {
namespace {

class CacheFootprintTest : public CacheEnvironment {};

// 64,000 bytes are promised, and a shard has one cache line left to grow.
TEST_F(CacheFootprintTest, EmptyCacheTakesLittle) {
  options_ = CacheOptions();
  options_.reaper = nullptr;
  // What a process has once.
  const auto first = New<uint64_t, std::string>();
  ASSERT_TRUE(first->Set(1, "value"));

  const int64_t before = allocated;
  const auto cache = New<uint64_t, std::string>();
  const int64_t by_malloc = allocated - before;
  // These have pages of their own.
  constexpr int64_t kShards = internal::ShardArray<internal::Shard>::Bytes(64);
  EXPECT_GT(by_malloc, 5'000);
  EXPECT_LE(by_malloc, 7'000);
  EXPECT_LE(by_malloc + kShards, 60'500);
}

// One shard.
TEST_F(CacheFootprintTest, EmptyCacheOfFewEntriesTakesLittle) {
  options_.max_entries = 100;
  const auto first = New<uint64_t, std::string>();
  ASSERT_TRUE(first->Set(1, "value"));

  const int64_t before = allocated;
  const auto cache = New<uint64_t, std::string>();
  const int64_t taken = allocated - before;
  EXPECT_GT(taken, 5'000);
  EXPECT_LE(taken, 7'000);
}

}  // namespace
}  // namespace wheelcache
