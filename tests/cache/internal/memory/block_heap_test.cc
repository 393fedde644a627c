// The heap of blocks: what idle memory goes back to the system, in what rounds,
// and that nothing in use is lost by that; the chunks below it, whose granules,
// bits and units have memory of their own; and the depot above it, of chains of
// free blocks between a thread that has too many and one that has none.

#include "wheelcache/cache/internal/memory/block_heap.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/arena.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/page_release.h"

namespace wheelcache::internal {
namespace {

using Ref = GranuleRef;

// A heap with the blocks that are in use, each filled with words of its own.
class BlockHeapTest : public ::testing::Test {
 protected:
  struct Block {
    Ref ref;
    uint32_t granules;
    uint32_t fill;
  };

  Block Allocate(uint32_t granules) {
    Ref ref = heap_.Take(granules);
    if (ref == 0) ref = heap_.Carve(granules);
    const Block block = {ref, granules, ++fills_};
    for (uint32_t i = 0; i < granules; ++i) {
      chunks_.Store(ref + i, 0, block.fill);
      chunks_.Store(ref + i, 1, block.fill + i);
    }
    return block;
  }

  void Free(const Block& block) {
    for (uint32_t i = 0; i < block.granules; ++i) {
      ASSERT_EQ(chunks_.Load(block.ref + i, 0), block.fill);
      ASSERT_EQ(chunks_.Load(block.ref + i, 1), block.fill + i);
    }
    heap_.Give(block.ref, block.granules);
  }

  // So many granules in blocks of a size.
  std::vector<Block> Fill(uint32_t granules, uint32_t size) {
    std::vector<Block> blocks;
    for (uint32_t i = 0; i < granules; i += size) {
      blocks.push_back(Allocate(size));
    }
    return blocks;
  }

  // Frees all blocks but each n-th, and returns those.
  std::vector<Block> FreeAllBut(int n, const std::vector<Block>& blocks) {
    std::vector<Block> kept;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % n == 0) {
        kept.push_back(blocks[i]);
      } else {
        Free(blocks[i]);
      }
    }
    return kept;
  }

  void Pardon() {
    while (!heap_.Pardon(/*most_ranges=*/10)) ExpectNoBrokenInvariant();
  }

  void ExpectNoBrokenInvariant() {
    const absl::Status status = heap_.CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
  }

  Chunks chunks_;
  BlockHeap heap_{&chunks_};
  uint32_t fills_ = 0;
};

#ifdef __linux__
// Of this thread, without a look at a disk.
long PageFaults() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}
#endif

constexpr uint32_t kMiB = (1 << 20) / Chunks::kGranuleBytes;

// The granules of a page of the system: less cannot go back.
uint32_t SystemPage() { return Chunks::PagesAtOnce() * Chunks::kPage; }

// Every so many blocks of 16 granules one is kept, and at least a page between.
int BlocksApart() {
  return static_cast<int>(std::max(512u, 2 * SystemPage() / 16));
}

TEST_F(BlockHeapTest, WhatIsFreeGoesBackBeyondASixteenth) {
  const std::vector<Block> blocks = Fill(32 * kMiB, 16);
  for (size_t i = 0; i < blocks.size() / 32; ++i) Free(blocks[i]);
  EXPECT_EQ(heap_.resident(), heap_.carved());
  for (size_t i = blocks.size() / 32; i < blocks.size(); ++i) Free(blocks[i]);
  EXPECT_LT(heap_.idle(), 3 * kMiB);  // As of when more was in use.
  heap_.ReleaseLarge(/*most_ranges=*/1000);
  EXPECT_LE(heap_.idle(), kMiB);
  EXPECT_EQ(heap_.resident(), heap_.idle() + 8);
  ExpectNoBrokenInvariant();
}

TEST_F(BlockHeapTest, ALargeBlockGivesItsPagesBack) {
  const uint32_t size =
      std::min(5000 * Chunks::PagesAtOnce(), BlockHeap::kMaxBlock);
  const std::vector<Block> blocks = Fill(64 * kMiB, size);
  for (size_t i = 0; i < blocks.size(); i += 2) Free(blocks[i]);
  // All but two pages at each end of half of the blocks, and what is no
  // surplus.
  EXPECT_LT(heap_.idle(), 5 * kMiB + blocks.size() / 2 * 2 * SystemPage());
  ExpectNoBrokenInvariant();
}

TEST_F(BlockHeapTest, CheckInvariantsFindsAFreeBlockWithoutItsMark) {
  const std::vector<Block> blocks = Fill(3 * 16, 16);
  Free(blocks[1]);
  ExpectNoBrokenInvariant();
  const Chunks::Bit last = chunks_.BitOf(blocks[1].ref + 15);
  last.word &= ~last.mask;
  EXPECT_FALSE(heap_.CheckInvariants().ok());
}

TEST_F(BlockHeapTest, NothingIsTakenFromCondemnedUnits) {
  const std::vector<Block> kept = FreeAllBut(8, Fill(32 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  ExpectNoBrokenInvariant();
  for (int i = 0; i < 10'000; ++i) {
    const Block block = Allocate(16);
    ASSERT_FALSE(heap_.IsCondemned(block.ref));
  }
  ExpectNoBrokenInvariant();
}

TEST_F(BlockHeapTest, TheUnitsOfARoundGoBackInFewCalls) {
  const std::vector<Block> kept = FreeAllBut(8, Fill(32 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  const uint64_t releases = heap_.releases();
  const uint64_t resident = heap_.resident();
  uint64_t moved = 0;
  for (const Block& block : kept) {
    if (!heap_.IsCondemned(block.ref)) continue;
    Allocate(16);
    Free(block);
    moved += 16;
  }
  ASSERT_GT(moved, 0u);
  Pardon();
  ExpectNoBrokenInvariant();
  // An eighth was in use: seven times as much has gone back.
  EXPECT_LE(heap_.resident(), resident - 6 * moved);
  // A call for each 2 MiB, and for the ends of what lay together.
  EXPECT_LT(heap_.releases() - releases, 8 * moved / (2 * kMiB) + 4);
}

#ifdef __linux__
// A page that is read before it is written to is mapped twice, and the second
// time interrupts all threads.
TEST_F(BlockHeapTest, ThePagesOfBitsAreMappedOnceAndAsTheyAreUsed) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  GTEST_SKIP() << "its shadow memory has page faults, too";
#endif
  // A page has the bits of 256 KiB.
  constexpr long kPages = 64 * 4;
  const std::vector<Block> blocks = Fill(64 * kMiB, 16);
  const long before = PageFaults();
  // Not so much that pages go back.
  for (size_t i = 0; i < blocks.size(); i += 32) Free(blocks[i]);
  const long faults = PageFaults() - before;
  EXPECT_LT(faults, kPages * 3 / 2);
  EXPECT_GT(faults, kPages / 32);  // Pages of the system may be larger.
  ExpectNoBrokenInvariant();
}
#endif

// What was released before lies between, in many pieces.
TEST_F(BlockHeapTest, WhatIsFreeTogetherGoesBackInOneCall) {
  const std::vector<Block> kept =
      FreeAllBut(BlocksApart(), Fill(16 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  Pardon();
  const uint64_t releases = heap_.releases();
  EXPECT_GT(releases, 100u);
  for (const Block& block : kept) Free(block);
  EXPECT_LE(heap_.releases() - releases, 16u);
  ExpectNoBrokenInvariant();
}

// The free block begins and ends in other units.
TEST_F(BlockHeapTest, ACondemnedUnitGoesBackWithItsNeighbours) {
  const std::vector<Block> blocks = Fill(16 * kMiB, 16);
  const auto is_sparse = [](Ref ref) {
    return ref / Chunks::kUnit % 4 == 1 && ref % Chunks::kUnit >= 32;
  };
  for (const Block& block : blocks) {
    const Ref unit = block.ref / Chunks::kUnit;
    const bool at_end = block.ref % Chunks::kUnit >= Chunks::kUnit - 64;
    const bool at_begin = block.ref % Chunks::kUnit < 64;
    if (is_sparse(block.ref) || (unit % 4 == 0 && at_end) ||
        (unit % 4 == 2 && at_begin)) {
      Free(block);
    }
  }
  ASSERT_TRUE(heap_.Condemn());
  for (const Block& block : blocks) {
    if (heap_.IsCondemned(block.ref) && !is_sparse(block.ref)) Free(block);
  }
  Pardon();
  ExpectNoBrokenInvariant();
  EXPECT_LT(heap_.resident(), 13 * kMiB);
}

TEST_F(BlockHeapTest, ARoundEndsInSteps) {
  const std::vector<Block> kept =
      FreeAllBut(BlocksApart(), Fill(16 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  const uint64_t releases = heap_.releases();
  int steps = 1;
  while (!heap_.Pardon(/*most_ranges=*/10)) ++steps;
  const auto calls = static_cast<int>(heap_.releases() - releases);
  EXPECT_GT(calls, 100);
  EXPECT_GE(steps, calls / 20);
  for (const Block& block : kept) EXPECT_FALSE(heap_.IsCondemned(block.ref));
}

TEST_F(BlockHeapTest, WhatBecomesFreeInAHopelessRoundIsForTheNext) {
  const std::vector<Block> kept = FreeAllBut(2, Fill(32 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  FreeAllBut(8, kept);
  Pardon();
  EXPECT_TRUE(heap_.NeedsRound());
}

TEST_F(BlockHeapTest, NothingIsHopelessWhenHalfOfWhatWasInUseHasGone) {
  const std::vector<Block> kept = FreeAllBut(32, Fill(32 * kMiB, 16));
  while (heap_.NeedsRound()) {
    ASSERT_TRUE(heap_.Condemn());
    Pardon();
  }
  const std::vector<Block> left = FreeAllBut(2, kept);
  EXPECT_FALSE(heap_.NeedsRound());
  FreeAllBut(2, left);
  EXPECT_TRUE(heap_.NeedsRound());
}

TEST_F(BlockHeapTest, PardonedMemoryIsUsedAgain) {
  const std::vector<Block> kept = FreeAllBut(2, Fill(32 * kMiB, 16));
  ASSERT_TRUE(heap_.Condemn());
  Pardon();
  const Ref carved = heap_.carved();
  Fill(15 * kMiB, 16);
  EXPECT_EQ(heap_.carved(), carved);
  ExpectNoBrokenInvariant();
}

// Or the block would be coalesced with one that the next chunk begins with.
TEST_F(BlockHeapTest, TheLastGranuleOfAChunkStaysUnused) {
  constexpr uint32_t kFirst = 8;
  constexpr uint32_t kMost = BlockHeap::kMaxBlock;
  for (uint32_t i = 1; i < Chunks::kChunk / kMost; ++i) {
    EXPECT_EQ(heap_.Carve(kMost), kFirst + (i - 1) * kMost);
  }
  const Ref last = heap_.Carve(kMost - kFirst);
  EXPECT_GE(last, Chunks::kChunk);
  heap_.Give(last, kMost - kFirst);
  EXPECT_EQ(heap_.Take(kMost), 0u);  // Two blocks, and neither is so large.
  ExpectNoBrokenInvariant();
}

// Any history leaves each block as it was filled, and the invariants.
TEST_F(BlockHeapTest, HoldsAgainstRandomHistories) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return random() % n; };
  std::vector<Block> blocks;
  bool in_round = false;
  for (int step = 0; step < 30; ++step) {
    // Each step has a range of sizes of its own, and grows or shrinks.
    const uint32_t largest = uint32_t{2} << below(14);
    const uint32_t most = 64 * kMiB / (largest + 4);
    const bool grows = blocks.empty() || below(3) != 0;
    for (uint32_t i = 0; i < std::min(most, 10'000u); ++i) {
      if (grows == (below(4) != 0)) {
        blocks.push_back(Allocate(2 + below(largest)));
      } else if (!blocks.empty()) {
        std::swap(blocks[below(static_cast<uint32_t>(blocks.size()))],
                  blocks.back());
        Free(blocks.back());
        blocks.pop_back();
      }
    }
    switch (below(3)) {
      case 0:
        heap_.ReleaseLarge(static_cast<int>(below(100)));
        break;
      case 1:
        if (!in_round) in_round = heap_.Condemn();
        break;
      default:
        if (in_round) Pardon();
        in_round = false;
    }
    ExpectNoBrokenInvariant();
  }
  if (in_round) Pardon();
  for (const Block& block : blocks) Free(block);
  ExpectNoBrokenInvariant();
  EXPECT_EQ(heap_.free_granules() + 8, heap_.carved());
}

using Ref = GranuleRef;

constexpr Ref kChunk = Chunks::kChunk;

class ChunksTest : public ::testing::Test {
 protected:
  static constexpr Ref kEnd = kChunk + 10 * Chunks::kHugePage;

  void SetUp() override { ASSERT_TRUE(chunks_.Extend(kEnd)); }

  // Some at the ends of all parts.
  static std::vector<Ref> SomeRefs() {
    std::vector<Ref> refs;
    for (const Ref at : {Ref{Chunks::kPage}, Ref{Chunks::kUnit},
                         Chunks::kHugePage, kChunk, kEnd}) {
      for (Ref ref = at - 3; ref < at + 3 && ref < kEnd; ++ref) {
        refs.push_back(ref);
      }
    }
    return refs;
  }

  Chunks chunks_;
};

TEST_F(ChunksTest, GranulesOfAChunkLieOneBehindTheOther) {
  for (const Ref first : {Ref{0}, kChunk}) {
    const auto* const begin = static_cast<std::byte*>(chunks_.At(first));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % (2 << 20), 0u);
    for (const Ref ref : SomeRefs()) {
      if (ref / kChunk != first / kChunk) continue;
      EXPECT_EQ(chunks_.At(ref), begin + size_t{ref - first} * 8) << ref;
    }
  }
}

TEST_F(ChunksTest, ReleasedPagesAreZeroAndTheirNeighboursAreNot) {
  constexpr uint32_t kPage = Chunks::kPage;
  const uint32_t begin = 2 * kChunk / kPage / 2;  // Of the second chunk.
  const uint32_t few = Chunks::PagesAtOnce();
  for (uint32_t page = begin; page < begin + 3 * few; ++page) {
    chunks_.Store(page * kPage, 0, page);
    chunks_.Store(page * kPage + kPage - 1, 1, page);
  }
  {
    PageRelease release;
    chunks_.Release(begin + few, begin + 2 * few, &release);
  }
  for (uint32_t page = begin; page < begin + 3 * few; ++page) {
    const bool released = page >= begin + few && page < begin + 2 * few;
    EXPECT_EQ(chunks_.Load(page * kPage, 0), released ? 0 : page);
    EXPECT_EQ(chunks_.Load(page * kPage + kPage - 1, 1), released ? 0 : page);
  }
}

class DepotTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kChain = Depot::kChainGranules;

  DepotTest() { chunks_.Extend(1 << 16); }

  // A chain of such blocks, in memory of its own.
  GranuleRef NewChain(uint32_t granules) {
    const GranuleRef first = next_;
    for (uint32_t i = 1; i <= Depot::ChainBlocks(granules); ++i) {
      const bool last = i == Depot::ChainBlocks(granules);
      chunks_.Store(next_, 0, last ? 0 : next_ + granules);
      next_ += granules;
    }
    return first;
  }

  Chunks chunks_;
  Depot depot_{&chunks_};
  GranuleRef next_ = 8;
};

TEST_F(DepotTest, KeepsChainsFromTheHeapTheLargestLongest) {
  const GranuleRef large = NewChain(64);
  const GranuleRef small = NewChain(2);
  depot_.Put(large, 64);
  depot_.Put(small, 2);
  EXPECT_EQ(depot_.TakeForHeap(2 * kChain).first, 0u);
  EXPECT_EQ(depot_.granules(), 2 * kChain);

  const Depot::Blocks first = depot_.TakeForHeap(2 * kChain - 1);
  EXPECT_EQ(first.first, small);
  EXPECT_EQ(first.granules, 2u);
  EXPECT_EQ(first.count, kChain / 2);
  EXPECT_EQ(depot_.TakeForHeap(kChain).first, 0u);

  const Depot::Blocks second = depot_.TakeForHeap(/*keep=*/0);
  EXPECT_EQ(second.first, large);
  EXPECT_EQ(second.granules, 64u);
  EXPECT_EQ(second.count, kChain / 64);
  EXPECT_EQ(depot_.granules(), 0u);
}

TEST_F(DepotTest, GivesLooseBlocksToTheHeapAloneAndFirst) {
  const GranuleRef chain = NewChain(2);
  depot_.Put(chain, 2);
  depot_.PutLoose(next_, 64);
  depot_.PutLoose(next_ + 64, 5000);
  EXPECT_EQ(depot_.granules(), kChain + 64 + 5000);
  EXPECT_EQ(depot_.Take(64), 0u);

  for (const uint32_t granules : {5000u, 64u}) {
    const Depot::Blocks block = depot_.TakeForHeap(/*keep=*/1 << 20);
    EXPECT_EQ(block.first, granules == 64 ? next_ : next_ + 64);
    EXPECT_EQ(block.granules, granules);
    EXPECT_EQ(block.count, 1u);
    EXPECT_EQ(chunks_.Load(block.first, 0), 0u);
  }
  EXPECT_EQ(depot_.TakeForHeap(/*keep=*/1 << 20).first, 0u);
  EXPECT_EQ(depot_.granules(), kChain);
}

}  // namespace
}  // namespace wheelcache::internal
