// The memory of the shards' hash tables: places, and what has none.

#include "wheelcache/cache/internal/memory/table_memory.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/pages.h"

namespace wheelcache::internal {
namespace {

constexpr size_t kTables = 8;
constexpr size_t kBytes = size_t{1} << 19;

bool IsZero(const void* memory, size_t bytes) {
  const auto* const begin = static_cast<const char*>(memory);
  return begin[0] == 0 && std::memcmp(begin, begin + 1, bytes - 1) == 0;
}

TEST(TableMemoryTest, EachTableHasAPlace) {
  TableMemory memory(kTables, kBytes);
  std::vector<void*> tables;
  for (size_t i = 0; i < kTables; ++i) {
    tables.push_back(memory.Allocate(kBytes));
    ASSERT_TRUE(memory.Holds(tables.back()));
    EXPECT_TRUE(IsZero(tables.back(), kBytes)) << "shared with another";
    std::memset(tables.back(), 1, kBytes);
  }
  for (void* table : tables) memory.Free(table, kBytes);
}

TEST(TableMemoryTest, APlaceIsZeroAgainForTheNext) {
  TableMemory memory(1, kTables * kBytes);
  void* const first = memory.Allocate(kTables * kBytes);
  std::memset(first, 1, kTables * kBytes);
  memory.Free(first, kTables * kBytes);
  void* const second = memory.Allocate(kTables * kBytes);
  EXPECT_EQ(second, first);
  EXPECT_TRUE(IsZero(second, kTables * kBytes));
  memory.Free(second, kTables * kBytes);
}

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

TEST(TableMemoryTest, TablesOfOtherSizesComeFromElsewhere) {
  TableMemory memory(kTables, kBytes);
  void* const table = memory.Allocate(128);
  EXPECT_FALSE(memory.Holds(table));
  EXPECT_TRUE(IsZero(table, 128));
  memory.Free(table, 128);
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
