// Pages from the system and the tables that lie in them: zeros at first, gone
// in the end, in whole pages, however large the system's are, and in huge ones
// where that is asked for.
//
// The linker puts other systems in the place of this one's calls: one with
// larger pages, which fails what such a system refuses, and what would reach
// farther there than it was meant to; and kernels that take many ranges in a
// call, or do not. Whether the system has huge pages to give is another matter:
// it is asked here what it was asked for.

#include "wheelcache/cache/internal/memory/pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/block_heap.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/page_release.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/arena_blocks.h"
#include "wheelcache/wheel/base/platform.h"

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

constexpr size_t kMiB = size_t{1} << 20;

size_t page_bytes = 0;  // Of the other system; 0 for this one.
size_t mapped_bytes = 0;
size_t huge_bytes = 0;   // For which huge pages were asked.
size_t small_bytes = 0;  // For which no huge pages were.

enum class Kernel { kReal, kTakesAll, kTakesTheFirst, kTakesNone };

Kernel kernel = Kernel::kReal;
int releases = 0;  // Calls that give pages back, of either kind.

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool IsAligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % page_bytes == 0;
}

bool IsZero(const void* memory, size_t bytes) {
  const auto* const begin = static_cast<const char*>(memory);
  return begin[0] == 0 && std::memcmp(begin, begin + 1, bytes - 1) == 0;
}

class PageSizesTest : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (static_cast<long>(GetParam()) < __real_sysconf(_SC_PAGESIZE)) {
      GTEST_SKIP() << "this system has larger pages";
    }
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

// What process_madvise does: it stops early where it cannot go on.
long TakeRanges(const iovec* ranges, long count) {
  if (kernel == Kernel::kTakesNone) {
    errno = EBADF;
    return -1;
  }
  if (kernel == Kernel::kTakesTheFirst) count = 1;
  long bytes = 0;
  for (long i = 0; i < count; ++i) {
    __real_madvise(ranges[i].iov_base, ranges[i].iov_len, MADV_DONTNEED);
    bytes += static_cast<long>(ranges[i].iov_len);
  }
  return bytes;
}

class PageReleaseTest : public ::testing::TestWithParam<Kernel> {
 protected:
  static constexpr size_t kPages = 400;

  PageReleaseTest() {
    kernel = GetParam();
    std::memset(memory_, 1, kPages * page_);
    releases = 0;
  }
  ~PageReleaseTest() override { kernel = Kernel::kReal; }

  void Add(PageRelease* release, size_t page) {
    release->Add(memory_ + page * page_, page_);
  }

  // Whether every second of the first pages is zeros, and all others are not.
  void ExpectEverySecondReleased(size_t released) {
    for (size_t page = 0; page < kPages; ++page) {
      const bool is_zero = page % 2 == 0 && page / 2 < released;
      EXPECT_EQ(memory_[page * page_], is_zero ? 0 : 1) << page;
      EXPECT_EQ(memory_[page * page_ + page_ - 1], is_zero ? 0 : 1) << page;
    }
  }

  static bool TakesMany() { return kernel == Kernel::kTakesAll; }

  const size_t page_ = Pages::RoundUp(1);
  const Pages pages_ = Pages::Map(kPages * page_, Pages::Kind::kAtOnce);
  char* const memory_ = reinterpret_cast<char*>(pages_.begin());
};

TEST_P(PageReleaseTest, OneRangeIsReleasedByOneCall) {
  {
    PageRelease release;
    Add(&release, 0);
  }
  EXPECT_EQ(releases, 1);
  ExpectEverySecondReleased(1);
}

TEST_P(PageReleaseTest, ManyRangesAreReleasedInOneCallIfTheKernelTakesThem) {
  {
    PageRelease release;
    for (size_t i = 0; i < 10; ++i) Add(&release, 2 * i);
  }
  if (kernel != Kernel::kReal) {
    EXPECT_EQ(releases, TakesMany() ? 1 : 11);
  }
  ExpectEverySecondReleased(10);
}

TEST_P(PageReleaseTest, MoreRangesThanItHoldsAreReleased) {
  {
    PageRelease release;
    for (size_t i = 0; i < kPages / 2; ++i) Add(&release, 2 * i);
  }
  if (TakesMany()) {
    EXPECT_EQ(releases, 4);  // Of 64 ranges each.
  }
  ExpectEverySecondReleased(kPages / 2);
}

#ifdef WHEELCACHE_HAS_LINUX_CALLS
INSTANTIATE_TEST_SUITE_P(Kernels, PageReleaseTest,
                         ::testing::Values(Kernel::kReal, Kernel::kTakesAll,
                                           Kernel::kTakesTheFirst,
                                           Kernel::kTakesNone));
#else
INSTANTIATE_TEST_SUITE_P(Portable, PageReleaseTest,
                         ::testing::Values(Kernel::kReal));
#endif

// The system does not take them, as after mlockall.
TEST(PagesTest, LockedOnesBecomeZerosAsWell) {
  const Pages pages = Pages::Map(2 * Pages::RoundUp(1));
  if (mlock(pages.begin(), pages.bytes()) != 0) GTEST_SKIP();
  std::memset(pages.begin(), 1, pages.bytes());
  {
    PageRelease release;
    release.Add(pages.begin(), Pages::RoundUp(1));
  }
  EXPECT_TRUE(IsZero(pages.begin(), Pages::RoundUp(1)));
  EXPECT_EQ(pages.begin()[Pages::RoundUp(1)], std::byte{1});
}

TEST(PagesTest, AreZeroAndWritable) {
  EXPECT_EQ(Pages().bytes(), 0);
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}}) {
    const Pages pages = Pages::Map(bytes);
    ASSERT_NE(pages.begin(), nullptr);
    std::byte* const end = pages.begin() + bytes;
    EXPECT_EQ(std::count(pages.begin(), end, std::byte{0}), bytes);
    std::fill(pages.begin(), end, std::byte{1});
    EXPECT_EQ(std::count(pages.begin(), end, std::byte{1}), bytes);
  }
}

#ifdef WHEELCACHE_HAS_LINUX_CALLS

// What is asked for when that much of an arena comes into use.
size_t AskedForArena(size_t bytes, size_t expected_bytes) {
  huge_bytes = 0;
  Chunks chunks(expected_bytes);
  chunks.Extend(static_cast<Chunks::Ref>(bytes / Chunks::kGranuleBytes));
  return huge_bytes;
}

TEST(HugePagesTest, AnArenaAsksForAllThatItExpectsToNeed) {
  EXPECT_EQ(AskedForArena(16 * kMiB, 16 * kMiB), 16 * kMiB);
  EXPECT_EQ(AskedForArena(2 * kMiB, 16 * kMiB), 2 * kMiB)
      << "no more than used";
  EXPECT_EQ(AskedForArena(16 * kMiB, 11 * kMiB), 10 * kMiB) << "whole ones";
}

TEST(HugePagesTest, AnArenaAsksForNoneWhereItMayStaySmall) {
  EXPECT_EQ(AskedForArena(32 * kMiB, 0), 0);
  EXPECT_EQ(AskedForArena(32 * kMiB, 8 * kMiB - 1), 0);
  EXPECT_GT(AskedForArena(80 * kMiB, 0), 0) << "it has not";
}

// Who needs hardly more than expected would lose most of the last page.
TEST(HugePagesTest, AnArenaAsksForNoneAtTheEndOfWhatItExpects) {
  EXPECT_EQ(AskedForArena(70 * kMiB, 64 * kMiB), 64 * kMiB);
  EXPECT_GT(AskedForArena(80 * kMiB, 64 * kMiB), 64 * kMiB);
}

// Else the system makes a huge page of what is left around a page that went.
TEST(HugePagesTest, WhatLosesAPageStaysSmall) {
  Chunks chunks(16 * kMiB);
  chunks.Extend(static_cast<Chunks::Ref>(16 * kMiB / Chunks::kGranuleBytes));
  small_bytes = 0;
  PageRelease release;
  chunks.Release(3, 4, &release);
  EXPECT_EQ(small_bytes, kHugePageBytes);
  chunks.Release(5, 6, &release);
  EXPECT_EQ(small_bytes, kHugePageBytes) << "asked for once";
}

TEST(HugePagesTest, TablesAndWhatLiesAheadOfThemShareTheirs) {
  huge_bytes = 0;
  const TableMemory memory(/*tables=*/3, /*bytes=*/kMiB, /*ahead=*/kMiB);
  EXPECT_EQ(huge_bytes, 4 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.ahead()) % kHugePageBytes, 0);
}

TEST(HugePagesTest, PagesAskForThemOnRequest) {
  huge_bytes = 0;
  const Pages small = Pages::Map(5 * kMiB);
  EXPECT_EQ(huge_bytes, 0);
  const Pages less_than_one = Pages::Map(kMiB, Pages::Kind::kHuge);
  EXPECT_EQ(huge_bytes, 0);
  const Pages huge = Pages::Map(5 * kMiB, Pages::Kind::kHuge);
  EXPECT_EQ(huge_bytes, 4 * kMiB) << "whole ones";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge.begin()) % kHugePageBytes, 0);
}

#endif  // WHEELCACHE_HAS_LINUX_CALLS

constexpr size_t kTables = 8;
constexpr size_t kBytes = size_t{1} << 19;

TEST(TableMemoryTest, WhatLiesAheadIsNoTablesPlace) {
  constexpr size_t kAhead = 4096;
  TableMemory memory(kTables, kBytes, kAhead);
  ASSERT_NE(memory.ahead(), nullptr);
  EXPECT_TRUE(IsZero(memory.ahead(), kAhead));
  EXPECT_FALSE(memory.Holds(memory.ahead()));
  std::memset(memory.ahead(), 1, kAhead);
  std::vector<void*> tables;
  for (size_t i = 0; i < kTables; ++i) {
    tables.push_back(memory.Allocate(kBytes));
    ASSERT_TRUE(memory.Holds(tables.back()));
    EXPECT_TRUE(IsZero(tables.back(), kBytes)) << "shared with another";
    std::memset(tables.back(), 2, kBytes);
  }
  EXPECT_EQ(reinterpret_cast<const char*>(memory.ahead())[kAhead - 1], 1);
  for (void* table : tables) memory.Free(table, kBytes);
}

// As while readers are still looking at what a Clear took from them.
TEST(TableMemoryTest, WhereAllPlacesAreTakenATableHasPagesOfItsOwn) {
  TableMemory memory(1, kTables * kBytes);
  void* const first = memory.Allocate(kTables * kBytes);
  void* const second = memory.Allocate(kTables * kBytes);
  EXPECT_TRUE(memory.Holds(first));
  EXPECT_FALSE(memory.Holds(second));
  EXPECT_TRUE(IsZero(second, kTables * kBytes));
  memory.Free(first, kTables * kBytes);
  memory.Free(second, kTables * kBytes);
}

TEST(TableMemoryTest, SaysWhatIsAllocated) {
  TableMemory memory(kTables, kBytes, /*ahead=*/4096);
  EXPECT_EQ(memory.allocated_bytes(), 4096);
  int64_t expected = 4096;
  std::vector<std::pair<void*, size_t>> tables;
  for (const size_t bytes : {kBytes, size_t{128}, size_t{1} << 17}) {
    tables.emplace_back(memory.Allocate(bytes), bytes);
    expected += static_cast<int64_t>(bytes);
    EXPECT_EQ(memory.allocated_bytes(), expected);
    EXPECT_TRUE(IsZero(tables.back().first, bytes));
  }
  for (const auto& [table, bytes] : tables) memory.Free(table, bytes);
  EXPECT_EQ(memory.allocated_bytes(), 4096);
}

TEST(TableMemoryTest, FreedPagesGoBackToTheSystem) {
  TableMemory memory;
  // Tables of an index do not fill their last page.
  for (size_t bytes = (16 << 10) + 64; bytes <= 1 << 21; bytes *= 2) {
    if (bytes < Pages::RoundUp(1)) continue;
    void* const table = memory.Allocate(bytes);
    std::memset(table, 1, bytes);
    EXPECT_EQ(msync(table, bytes, MS_ASYNC), 0) << bytes;
    memory.Free(table, bytes);
    EXPECT_EQ(msync(table, bytes, MS_ASYNC), -1) << bytes;
  }
}

TEST(TableMemoryTest, WhatFillsNoHugePageComesFromElsewhere) {
  for (const size_t bytes : {size_t{0}, size_t{4096}}) {
    TableMemory memory(kTables, bytes, /*ahead=*/4096);
    EXPECT_EQ(memory.ahead(), nullptr);
    void* const table = memory.Allocate(4096);
    EXPECT_FALSE(memory.Holds(table));
    EXPECT_TRUE(IsZero(table, 4096));
    memory.Free(table, 4096);
  }
}

}  // namespace
}  // namespace wheelcache::internal

extern "C" {

using wheelcache::internal::IsAligned;
using wheelcache::internal::mapped_bytes;
using wheelcache::internal::page_bytes;
using wheelcache::internal::releases;
using wheelcache::internal::RoundUp;

long __wrap_sysconf(int name) {
  if (name == _SC_PAGESIZE && page_bytes != 0) {
    return static_cast<long>(page_bytes);
  }
  return __real_sysconf(name);
}

void* __wrap_mmap(void* at, size_t bytes, int access, int flags, int file,
                  off_t offset) {
  if ((flags & MAP_FIXED) != 0) {
    ++releases;  // New pages in the place of others.
    if (page_bytes == 0 || IsAligned(at)) {
      return __real_mmap(at, bytes, access, flags, file, offset);
    }
    errno = EINVAL;
    return MAP_FAILED;
  }
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
  using namespace wheelcache::internal;  // NOLINT(google-build-using-namespace)
  ++releases;
  if (advice == MADV_HUGEPAGE) huge_bytes += bytes;
  if (advice == MADV_NOHUGEPAGE) small_bytes += bytes;
  if (page_bytes != 0) {
    EXPECT_TRUE(IsAligned(at)) << advice;
    EXPECT_EQ(bytes % page_bytes, 0u) << advice;
  }
  return __real_madvise(at, bytes, advice);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e,
                    long f) {
#ifdef SYS_process_madvise
  using namespace wheelcache::internal;  // NOLINT(google-build-using-namespace)
  if (number == SYS_process_madvise) {
    ++releases;
    const auto* const ranges = reinterpret_cast<const iovec*>(b);
    for (long i = 0; page_bytes != 0 && i < c; ++i) {
      EXPECT_TRUE(IsAligned(ranges[i].iov_base));
      EXPECT_EQ(ranges[i].iov_len % page_bytes, 0u);
    }
    if (kernel != Kernel::kReal) return TakeRanges(ranges, c);
  }
#endif
  return __real_syscall(number, a, b, c, d, e, f);
}
}
