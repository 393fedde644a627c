// Which of a cache's memory is to lie in huge pages. Whether the system has any
// to give is another matter; so it is asked here what the system was asked for.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/cache/internal/memory/table_memory.h"

namespace wheelcache::internal {
namespace {

// The bytes for which huge pages were asked.
size_t asked_bytes = 0;

constexpr size_t kMiB = size_t{1} << 20;

// What is asked for when that much of an arena comes into use.
size_t AskedForArena(size_t bytes, size_t expected_bytes) {
  asked_bytes = 0;
  Chunks chunks(expected_bytes);
  chunks.Extend(static_cast<Chunks::Ref>(bytes / Chunks::kGranuleBytes));
  return asked_bytes;
}

TEST(HugePagesTest, AnArenaAsksForAllThatItExpectsToNeed) {
  EXPECT_EQ(AskedForArena(16 * kMiB, 16 * kMiB), 16 * kMiB);
  EXPECT_EQ(AskedForArena(2 * kMiB, 16 * kMiB), 2 * kMiB)
      << "no more than used";
  EXPECT_EQ(AskedForArena(16 * kMiB, 11 * kMiB), 10 * kMiB) << "whole ones";
}

TEST(HugePagesTest, ASmallArenaAsksForNone) {
  EXPECT_EQ(AskedForArena(32 * kMiB, 0), 0);
  EXPECT_EQ(AskedForArena(32 * kMiB, 8 * kMiB - 1), 0);
}

TEST(HugePagesTest, ALargeArenaAsksForMoreThanItExpects) {
  EXPECT_EQ(AskedForArena(80 * kMiB, 0), 48 * kMiB);
  EXPECT_EQ(AskedForArena(80 * kMiB, 8 * kMiB), 56 * kMiB);
}

// Who needs hardly more than expected would lose most of the last page.
TEST(HugePagesTest, AnArenaAsksForNoneAtTheEndOfWhatItExpects) {
  EXPECT_EQ(AskedForArena(70 * kMiB, 64 * kMiB), 64 * kMiB);
  EXPECT_EQ(AskedForArena(80 * kMiB, 64 * kMiB), 72 * kMiB);
}

TEST(HugePagesTest, TablesAndWhatLiesAheadOfThemShareTheirs) {
  asked_bytes = 0;
  const TableMemory memory(/*tables=*/3, /*bytes=*/kMiB, /*ahead=*/kMiB);
  EXPECT_EQ(asked_bytes, 4 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.ahead()) % kHugePageBytes, 0);
}

TEST(HugePagesTest, PagesAskForThemOnRequest) {
  asked_bytes = 0;
  const Pages small = Pages::Map(5 * kMiB);
  EXPECT_EQ(asked_bytes, 0);
  const Pages less_than_one = Pages::Map(kMiB, Pages::Kind::kHuge);
  EXPECT_EQ(asked_bytes, 0);
  const Pages huge = Pages::Map(5 * kMiB, Pages::Kind::kHuge);
  EXPECT_EQ(asked_bytes, 4 * kMiB) << "whole ones";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge.begin()) % kHugePageBytes, 0);
}

}  // namespace
}  // namespace wheelcache::internal

extern "C" {

// The names that the linker gives to what --wrap replaces.
int __real_madvise(void* address, size_t length, int advice);
int __wrap_madvise(void* address, size_t length, int advice) {
  if (advice == MADV_HUGEPAGE) wheelcache::internal::asked_bytes += length;
  return __real_madvise(address, length, advice);
}
}
