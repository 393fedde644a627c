// Whether all that asks the system for memory, and gives it back, does so in
// whole pages, however large the system's are: this machine has them of 4 KiB.
//
// The linker puts a system with larger pages in the place of this one's calls.
// It fails what such a system refuses, and what would reach farther there than
// it was meant to.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/block_heap.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/arena_blocks.h"

extern "C" {
// The names that the linker gives to what --wrap replaces.
long __real_sysconf(int name);
void* __real_mmap(void* at, size_t bytes, int access, int flags, int file,
                  off_t offset);
int __real_munmap(void* at, size_t bytes);
int __real_mprotect(void* at, size_t bytes, int access);
int __real_madvise(void* at, size_t bytes, int advice);
long __real_syscall(long number, ...);
}

namespace wheelcache::internal {
namespace {

size_t page_bytes = 0;
size_t mapped_bytes = 0;

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool IsAligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % page_bytes == 0;
}

class PageSizesTest : public ::testing::TestWithParam<size_t> {
 protected:
  PageSizesTest() {
    page_bytes = GetParam();
    mapped_bytes = 0;
  }
  ~PageSizesTest() override {
    EXPECT_EQ(mapped_bytes, 0u) << "not given back";
    page_bytes = 0;
  }
};

INSTANTIATE_TEST_SUITE_P(, PageSizesTest,
                         ::testing::Values(4 << 10, 16 << 10, 64 << 10),
                         [](const auto& info) {
                           return std::to_string(info.param >> 10) + "KiB";
                         });

// Promise: Memory comes back by itself
TEST_P(PageSizesTest, ReservationKeepsWhatWasAskedForAndNoMore) {
  for (const size_t bytes :
       {size_t{1}, size_t{4096}, size_t{4097}, kHugePageBytes,
        kHugePageBytes - 1, 3 * kHugePageBytes + 100'000}) {
    {
      const Pages pages = Pages::TryMap(bytes, Pages::Kind::kReserved);
      ASSERT_NE(pages.begin(), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.begin()) % kHugePageBytes,
                0u);
      EXPECT_EQ(mapped_bytes, RoundUp(bytes, page_bytes)) << bytes;
      EXPECT_TRUE(pages.Commit(0, bytes));
      std::memset(pages.begin(), 1, bytes);
    }
    EXPECT_EQ(mapped_bytes, 0u) << bytes;
  }
}

TEST_P(PageSizesTest, BytesArePagesOfTheSystem) {
  EXPECT_EQ(Pages::RoundUp(1), page_bytes);
  EXPECT_EQ(Pages::RoundUp(page_bytes), page_bytes);
  EXPECT_EQ(Pages::RoundUp(page_bytes + 1), 2 * page_bytes);
  EXPECT_EQ(MallocBytes(200'000), RoundUp(200'008, page_bytes));
}

TEST_P(PageSizesTest, ClearReachesNoFartherThanToldTo) {
  constexpr size_t kBytes = 400'000;
  const Pages pages = Pages::Map(kBytes);
  std::byte* const memory = pages.begin();
  const std::string ones(kBytes, 1);
  std::minstd_rand random;
  for (int i = 0; i < 200; ++i) {
    std::memcpy(memory, ones.data(), kBytes);
    const size_t begin = random() % kBytes;
    const size_t bytes = random() % (kBytes - begin + 1);
    pages.Clear(begin, bytes);
    std::string expected = ones;
    expected.replace(begin, bytes, bytes, 0);
    ASSERT_EQ(std::memcmp(memory, expected.data(), kBytes), 0)
        << begin << ", " << bytes;
  }
}

TEST_P(PageSizesTest, TablesStayApart) {
  constexpr size_t kBytes = 300'000;
  TableMemory memory(/*tables=*/8, kBytes, /*ahead=*/1000);
  auto* const kept = static_cast<char*>(memory.Allocate(kBytes));
  auto* const freed = static_cast<char*>(memory.Allocate(kBytes));
  auto* const other = static_cast<char*>(memory.Allocate(kBytes));
  std::memset(kept, 1, kBytes);
  std::memset(freed, 2, kBytes);
  std::memset(other, 3, kBytes);
  memory.Free(freed, kBytes);
  EXPECT_EQ(std::string(kept, kBytes), std::string(kBytes, 1));
  EXPECT_EQ(std::string(other, kBytes), std::string(kBytes, 3));
  void* const again = memory.Allocate(kBytes);
  EXPECT_EQ(again, freed);
  EXPECT_EQ(std::string(freed, kBytes), std::string(kBytes, 0));
  for (void* table :
       {static_cast<void*>(kept), again, static_cast<void*>(other)}) {
    memory.Free(table, kBytes);
  }
}

// ArenaBlocks looks at what each block holds: nothing in use is released.
TEST_P(PageSizesTest, ArenaReleasesNothingInUse) {
  Arena arena;
  testing::ArenaBlocks blocks(&arena);
  std::minstd_rand random;
  for (int i = 0; i < 30'000; ++i) {
    // Grows and shrinks, so that memory is released and used again.
    const bool grows = i / 5000 % 2 == 0;
    if (blocks.size() == 0 || random() % 8 < (grows ? 6 : 2)) {
      blocks.Allocate(16 + random() % (random() % 16 == 0 ? 40'000 : 600));
    } else {
      blocks.FreeAt(random() % blocks.size());
    }
    if (i % 1000 == 0) {
      ASSERT_TRUE(arena.CheckInvariants().ok());
    }
  }
  EXPECT_TRUE(arena.CheckInvariants().ok());
}

// No block covers a page of the largest system alone, and each page becomes
// free with one of several blocks.
TEST_P(PageSizesTest, PageIsReleasedWithTheLastBlockInIt) {
  constexpr uint32_t kGranules = (20 << 10) / Chunks::kGranuleBytes;
  Chunks chunks;
  BlockHeap heap(&chunks);
  std::vector<Chunks::Ref> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(heap.Carve(kGranules));
  std::shuffle(blocks.begin(), blocks.end(), std::minstd_rand());
  for (const Chunks::Ref ref : blocks) heap.Give(ref, kGranules);
  EXPECT_TRUE(heap.CheckInvariants().ok());
  EXPECT_LT(heap.resident() * Chunks::kGranuleBytes, 2u << 20);
  // And so it is when the pages were in use again.
  for (Chunks::Ref& ref : blocks) ref = heap.Take(kGranules);
  EXPECT_GT(heap.resident() * Chunks::kGranuleBytes, 7u << 20);
  for (const Chunks::Ref ref : blocks) heap.Give(ref, kGranules);
  EXPECT_TRUE(heap.CheckInvariants().ok());
  EXPECT_LT(heap.resident() * Chunks::kGranuleBytes, 2u << 20);
}

TEST_P(PageSizesTest, CacheGivesAllItsMemoryBack) {
  CacheOptions options;
  options.max_bytes = 8 << 20;
  options.reaper = nullptr;
  auto cache = *Cache<int, std::string>::Create(options);
  std::minstd_rand random;
  for (int i = 0; i < 20'000; ++i) {
    const size_t size = i % 1000 == 0 ? 100'000 : random() % 3000;
    cache->Set(i, std::string(size, 'x'));
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
  for (int i = 0; i < 20'000; ++i) cache->Del(i);
  cache->RunMaintenance();
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

}  // namespace
}  // namespace wheelcache::internal

extern "C" {

using wheelcache::internal::IsAligned;
using wheelcache::internal::mapped_bytes;
using wheelcache::internal::page_bytes;
using wheelcache::internal::RoundUp;

long __wrap_sysconf(int name) {
  if (name == _SC_PAGESIZE && page_bytes != 0) {
    return static_cast<long>(page_bytes);
  }
  return __real_sysconf(name);
}

void* __wrap_mmap(void* at, size_t bytes, int access, int flags, int file,
                  off_t offset) {
  if (page_bytes == 0) {
    return __real_mmap(at, bytes, access, flags, file, offset);
  }
  const size_t rounded = RoundUp(bytes, page_bytes);
  auto* const mapped = static_cast<char*>(
      __real_mmap(at, rounded + page_bytes, access, flags, file, offset));
  if (mapped == MAP_FAILED) return mapped;
  const size_t skipped = -reinterpret_cast<uintptr_t>(mapped) % page_bytes;
  if (skipped != 0) __real_munmap(mapped, skipped);
  if (skipped != page_bytes) {
    __real_munmap(mapped + skipped + rounded, page_bytes - skipped);
  }
  mapped_bytes += rounded;
  return mapped + skipped;
}

int __wrap_munmap(void* at, size_t bytes) {
  if (page_bytes == 0) return __real_munmap(at, bytes);
  EXPECT_TRUE(IsAligned(at));
  const size_t rounded = RoundUp(bytes, page_bytes);
  mapped_bytes -= rounded;
  return __real_munmap(at, rounded);
}

int __wrap_mprotect(void* at, size_t bytes, int access) {
  if (page_bytes == 0) return __real_mprotect(at, bytes, access);
  EXPECT_TRUE(IsAligned(at));
  return __real_mprotect(at, RoundUp(bytes, page_bytes), access);
}

int __wrap_madvise(void* at, size_t bytes, int advice) {
  if (page_bytes == 0) return __real_madvise(at, bytes, advice);
  EXPECT_TRUE(IsAligned(at)) << advice;
  EXPECT_EQ(bytes % page_bytes, 0u) << advice;
  return __real_madvise(at, bytes, advice);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e) {
#ifdef SYS_process_madvise
  if (number == SYS_process_madvise && page_bytes != 0) {
    const auto* const ranges = reinterpret_cast<const iovec*>(b);
    for (long i = 0; i < c; ++i) {
      EXPECT_TRUE(IsAligned(ranges[i].iov_base));
      EXPECT_EQ(ranges[i].iov_len % page_bytes, 0u);
    }
  }
#endif
  return __real_syscall(number, a, b, c, d, e);
}
}
