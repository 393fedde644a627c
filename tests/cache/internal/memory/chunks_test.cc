// Chunks: that granules, bits and units have memory of their own, and that all
// of it goes back.

#include "wheelcache/cache/internal/memory/chunks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

using Ref = GranuleRef;

constexpr Ref kChunk = Chunks::kChunk;

// msync() fails where nothing is mapped.
bool IsMapped(const void* memory) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) / page * page;
  return msync(reinterpret_cast<void*>(begin), page, MS_ASYNC) == 0;
}

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

TEST_F(ChunksTest, UnitHas64KibibytesInPagesOf4) {
  EXPECT_EQ(Chunks::kUnit * Chunks::kGranuleBytes, 64u << 10);
  EXPECT_EQ(Chunks::kPage * Chunks::kGranuleBytes, 4u << 10);
}

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

TEST_F(ChunksTest, WordsBitsAndUnitsAreApartAndZeroAtFirst) {
  const std::vector<Ref> refs = SomeRefs();
  uint32_t written = 0;
  for (const Ref ref : refs) {
    EXPECT_EQ(chunks_.Load(ref, 0), 0u);
    EXPECT_EQ(chunks_.Load(ref, 1), 0u);
    const Chunks::Bit bit = chunks_.BitOf(ref);
    EXPECT_EQ(bit.word & bit.mask, 0u) << ref;
    chunks_.Store(ref, 0, ++written);
    chunks_.Store(ref, 1, ++written);
    bit.word |= bit.mask;
    chunks_.UnitOf(ref).free = static_cast<uint16_t>(ref / Chunks::kUnit % 997);
    chunks_.UnitOf(ref).released = 0xffff;
  }
  written = 0;
  for (const Ref ref : refs) {
    EXPECT_EQ(chunks_.Load(ref, 0), ++written);
    EXPECT_EQ(chunks_.Load(ref, 1), ++written);
    EXPECT_EQ(chunks_.UnitOf(ref).free, ref / Chunks::kUnit % 997);
    EXPECT_FALSE(chunks_.UnitOf(ref).condemned.load());
    const Chunks::Bit bit = chunks_.BitOf(ref);
    EXPECT_NE(bit.word & bit.mask, 0u);
    bit.word &= ~bit.mask;
  }
  for (const Ref ref : refs) EXPECT_EQ(chunks_.BitOf(ref).word, 0u);
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

TEST_F(ChunksTest, SystemPagesAreReleasedAsAWhole) {
  EXPECT_EQ(Chunks::PagesAtOnce() * Chunks::kPage * Chunks::kGranuleBytes,
            static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(ChunksEndTest, AllMemoryGoesBack) {
  std::vector<const void*> memory;
  {
    Chunks chunks;
    ASSERT_TRUE(chunks.Extend(kChunk + 1));
    for (const Ref ref : {Ref{1}, kChunk - 1, kChunk}) {
      memory.push_back(chunks.At(ref));
      memory.push_back(&chunks.BitOf(ref).word);
    }
    memory.push_back(&chunks.UnitOf(kChunk - 1));
    memory.push_back(&chunks.UnitOf(2 * kChunk - 1));
    for (const void* at : memory) EXPECT_TRUE(IsMapped(at));
  }
  for (const void* at : memory) EXPECT_FALSE(IsMapped(at));
}

}  // namespace
}  // namespace wheelcache::internal
