// The memory of entries: blocks do not overlap, whatever their sizes, and
// memory that was freed in one size serves all others.

#include "wheelcache/cache/internal/memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/huge_pages.h"
#include "wheelcache/tests/testing/arena_blocks.h"

namespace wheelcache::internal {
namespace {

using testing::ArenaBlocks;

// Mostly small, up to the largest.
size_t SomeSize(std::mt19937_64& random) {
  const size_t most = size_t{64} << random() % 11;
  return Arena::kMinBytes + random() % (most - Arena::kMinBytes + 1);
}

TEST(ArenaTest, BlocksAreAlignedAndNotNull) {
  Arena arena;
  ArenaBlocks blocks(&arena);
  for (size_t bytes = Arena::kMinBytes; bytes < 1000; ++bytes) {
    const Arena::Ref ref = blocks.Allocate(bytes);
    EXPECT_NE(ref, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.At(ref)) % 8, 0u);
  }
}

TEST(ArenaTest, BlocksKeepWhatIsInThem) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Arena arena;
    ArenaBlocks blocks(&arena);
    for (int i = 0; i < 20'000; ++i) {
      if (blocks.size() > 0 && random() % 1000 >= 1000 - blocks.size() / 2) {
        blocks.FreeAt(random() % blocks.size());
      } else {
        blocks.Allocate(SomeSize(random));
      }
      if (i % 1000 == 0) {
        ASSERT_EQ(arena.CheckInvariants(), absl::OkStatus());
      }
    }
  }
}

TEST(ArenaTest, BlocksOfOneSizeKeepWhatIsInThem) {
  for (const size_t bytes :
       {size_t{16}, size_t{56}, size_t{520}, size_t{Arena::kMaxBytes}}) {
    std::mt19937_64 random(bytes);
    Arena arena;
    ArenaBlocks blocks(&arena);
    for (int i = 0; i < 5'000; ++i) {
      if (blocks.size() > 0 && random() % 100 < blocks.size()) {
        blocks.FreeAt(random() % blocks.size());
      } else {
        blocks.Allocate(bytes);
      }
    }
    EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
  }
}

TEST(ArenaTest, TheBlockThatWasFreedLastIsUsedFirst) {
  Arena arena;
  for (const size_t bytes : {size_t{56}, size_t{512}}) {
    const Arena::Ref first = arena.Allocate(bytes);
    const Arena::Ref second = arena.Allocate(bytes);
    arena.Free(second, bytes);
    arena.Free(first, bytes);
    EXPECT_EQ(arena.Allocate(bytes), first);
    EXPECT_EQ(arena.Allocate(bytes), second);
  }
}

// Without what it was once divided into being left over.
TEST(ArenaTest, MemoryServesOneSizeAfterTheOther) {
  constexpr size_t kTotal = 8 << 20;
  Arena arena;
  for (const size_t bytes : {size_t{56}, size_t{4096}, size_t{136},
                             size_t{Arena::kMaxBytes}, size_t{16}}) {
    ArenaBlocks blocks(&arena);
    while (blocks.bytes() < kTotal) blocks.Allocate(bytes);
  }
  // What a stripe keeps.
  EXPECT_LT(arena.carved_bytes(), kTotal + (1 << 20));
}

// Three chunks and a bit: granules with neighbouring references lie side by
// side within one alone.
TEST(ArenaTest, NoBlockReachesFromOneChunkIntoAnother) {
  constexpr size_t kTotal = 200 << 20;
  Arena arena;
  std::mt19937_64 random(1);
  std::vector<std::pair<Arena::Ref, size_t>> blocks;
  for (int round = 0; round < 3; ++round) {
    for (size_t total = 0; total < kTotal;) {
      const size_t bytes = Arena::kMaxBytes - random() % 40'000 / 8 * 8;
      const Arena::Ref ref = arena.Allocate(bytes);
      const size_t last = bytes - Chunks::kGranuleBytes;
      ASSERT_EQ(arena.At(ref + last / Chunks::kGranuleBytes),
                static_cast<std::byte*>(arena.At(ref)) + last);
      blocks.emplace_back(ref, bytes);
      total += bytes;
    }
    for (const auto& [ref, bytes] : blocks) arena.Free(ref, bytes);
    blocks.clear();
    ASSERT_TRUE(arena.CheckInvariants().ok()) << arena.CheckInvariants();
  }
  EXPECT_LT(arena.carved_bytes(), kTotal + (1 << 20));
}

// The oldest go, as in a cache without hits, or any; the total is constant.
TEST(ArenaTest, RandomSizesWasteLessThanATwentieth) {
  constexpr size_t kTotal = 16 << 20;
  for (const bool oldest_first : {true, false}) {
    std::mt19937_64 random(1);
    Arena arena;
    std::vector<std::pair<Arena::Ref, size_t>> blocks;
    size_t total = 0;
    size_t next = 0;
    for (int i = 0; i < 200'000; ++i) {
      const size_t bytes = 64 + random() % 4081;
      while (total + bytes > kTotal) {
        const size_t victim =
            oldest_first ? next : next + random() % (blocks.size() - next);
        arena.Free(blocks[victim].first, blocks[victim].second);
        total -= blocks[victim].second;
        blocks[victim] = blocks[next++];
      }
      blocks.emplace_back(arena.Allocate(bytes), bytes);
      total += bytes;
    }
    EXPECT_LT(arena.carved_bytes(), kTotal + kTotal / 20) << oldest_first;
    EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
  }
}

// Whether the memory at an address is the process's at present.
bool IsResident(void* address) {
  const size_t bytes = PageBytes(1);
  const uintptr_t page = reinterpret_cast<uintptr_t>(address) / bytes * bytes;
  unsigned char resident = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void*>(page), bytes, &resident), 0);
  return (resident & 1) != 0;
}

TEST(ArenaTest, WhatNobodyNeedsGoesBackToTheSystem) {
  Arena arena;
  std::vector<Arena::Ref> refs(20'000);
  for (Arena::Ref& ref : refs) {
    ref = arena.Allocate(1000);
    std::memset(arena.At(ref), 1, 1000);
  }
  const auto resident = [&] {
    return std::count_if(refs.begin(), refs.end(), [&](Arena::Ref ref) {
      return IsResident(arena.At(ref));
    });
  };
  EXPECT_EQ(resident(), 20'000);
  for (const Arena::Ref ref : refs) arena.Free(ref, 1000);
  EXPECT_LT(resident(), 20'000 / 4);
  EXPECT_EQ(arena.CheckInvariants(), absl::OkStatus());
}

// Another size is freed and allocated all the time, but all that it leaves free
// are gaps of 512 bytes.
TEST(ArenaTest, ASizeThatNobodyAsksForLeavesTheStripes) {
  Arena arena;
  std::vector<Arena::Ref> gone(800);
  std::vector<Arena::Ref> busy(1024);
  for (Arena::Ref& ref : gone) ref = arena.Allocate(64);
  for (Arena::Ref& ref : busy) ref = arena.Allocate(512);
  for (int round = 0; round < 10; ++round) {
    if (round == 1) {
      for (const Arena::Ref ref : gone) arena.Free(ref, 64);
    }
    for (size_t i = 0; i < busy.size(); i += 2) arena.Free(busy[i], 512);
    for (size_t i = 0; i < busy.size(); i += 2) busy[i] = arena.Allocate(512);
  }
  const size_t carved = arena.carved_bytes();
  for (int i = 0; i < 6; ++i) arena.Allocate(8000);
  EXPECT_EQ(arena.carved_bytes(), carved);
}

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
TEST(ArenaDeathTest, UseOfAFreeBlockIsReported) {
  Arena arena;
  const Arena::Ref ref = arena.Allocate(100);
  auto* const block = static_cast<volatile char*>(arena.At(ref));
  arena.Free(ref, 100);
  EXPECT_DEATH(block[50] = 1, "AddressSanitizer");
}
#endif

}  // namespace
}  // namespace wheelcache::internal
