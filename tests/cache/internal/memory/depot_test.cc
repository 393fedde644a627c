// Chains of free blocks between a thread that has too many and one that has
// none.

#include "wheelcache/cache/internal/memory/depot.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/memory/chunks.h"

namespace wheelcache::internal {
namespace {

class DepotTest : public testing::Test {
 protected:
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

TEST_F(DepotTest, AChainHas16KiB) {
  for (uint32_t granules = 2; granules <= Depot::kMaxBlock; ++granules) {
    const uint32_t blocks = Depot::ChainBlocks(granules);
    EXPECT_GE(blocks * granules, 2048u) << granules;
    EXPECT_LT((blocks - 1) * granules, 2048u) << granules;
  }
}

TEST_F(DepotTest, AnEmptyDepotHasNothing) {
  EXPECT_EQ(depot_.granules(), 0u);
  for (uint32_t granules = 0; granules <= Depot::kMaxBlock; ++granules) {
    EXPECT_EQ(depot_.Take(granules), 0u);
  }
  EXPECT_EQ(depot_.TakeForHeap(/*keep=*/0).first, 0u);
}

TEST_F(DepotTest, GivesWholeChainsOfTheSizeAskedFor) {
  const GranuleRef small = NewChain(2);
  const GranuleRef large = NewChain(64);
  const GranuleRef other_large = NewChain(64);
  depot_.Put(small, 2);
  depot_.Put(large, 64);
  depot_.Put(other_large, 64);
  EXPECT_EQ(depot_.granules(), 3u * 2048);

  EXPECT_EQ(depot_.Take(3), 0u);
  EXPECT_EQ(depot_.Take(64), other_large);
  EXPECT_EQ(depot_.Take(64), large);
  EXPECT_EQ(depot_.Take(64), 0u);
  EXPECT_EQ(depot_.granules(), 2048u);

  uint32_t blocks = 0;
  for (GranuleRef ref = depot_.Take(2); ref != 0; ref = chunks_.Load(ref, 0)) {
    EXPECT_EQ(ref, small + 2 * blocks);
    ++blocks;
  }
  EXPECT_EQ(blocks, 1024u);
  EXPECT_EQ(depot_.granules(), 0u);
}

TEST_F(DepotTest, KeepsChainsFromTheHeapTheLargestLongest) {
  const GranuleRef large = NewChain(64);
  const GranuleRef small = NewChain(2);
  depot_.Put(large, 64);
  depot_.Put(small, 2);
  EXPECT_EQ(depot_.TakeForHeap(/*keep=*/4096).first, 0u);
  EXPECT_EQ(depot_.granules(), 4096u);

  const Depot::Blocks first = depot_.TakeForHeap(/*keep=*/4095);
  EXPECT_EQ(first.first, small);
  EXPECT_EQ(first.granules, 2u);
  EXPECT_EQ(first.count, 1024u);
  EXPECT_EQ(depot_.TakeForHeap(/*keep=*/2048).first, 0u);

  const Depot::Blocks second = depot_.TakeForHeap(/*keep=*/0);
  EXPECT_EQ(second.first, large);
  EXPECT_EQ(second.granules, 64u);
  EXPECT_EQ(second.count, 32u);
  EXPECT_EQ(depot_.granules(), 0u);
}

TEST_F(DepotTest, GivesLooseBlocksToTheHeapAloneAndFirst) {
  const GranuleRef chain = NewChain(2);
  depot_.Put(chain, 2);
  depot_.PutLoose(next_, 64);
  depot_.PutLoose(next_ + 64, 5000);
  EXPECT_EQ(depot_.granules(), 2048u + 64 + 5000);
  EXPECT_EQ(depot_.Take(64), 0u);

  for (const uint32_t granules : {5000u, 64u}) {
    const Depot::Blocks block = depot_.TakeForHeap(/*keep=*/1 << 20);
    EXPECT_EQ(block.first, granules == 64 ? next_ : next_ + 64);
    EXPECT_EQ(block.granules, granules);
    EXPECT_EQ(block.count, 1u);
    EXPECT_EQ(chunks_.Load(block.first, 0), 0u);
  }
  EXPECT_EQ(depot_.TakeForHeap(/*keep=*/1 << 20).first, 0u);
  EXPECT_EQ(depot_.granules(), 2048u);
}

}  // namespace
}  // namespace wheelcache::internal
