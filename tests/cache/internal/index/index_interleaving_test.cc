// What a look-up in the index sees of a change in its middle.

#include <cstddef>
#include <cstdint>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache::internal {
namespace {

class IndexInterleavingTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr Hash32 kHash = 7;  // Of all.

  void Insert(uint32_t ref) {
    index_.Reserve([](uint32_t) { return kHash; });
    index_.Insert(kHash, ref);
  }

  // No entry has the reference 0; asking for its key would read none.
  uint32_t Find(uint32_t ref) {
    const ReadSection section;
    return index_.Find(kHash, [ref](uint32_t other) {
      EXPECT_NE(other, 0u);
      return other == ref || other == 0;
    });
  }

  TableMemory memory_;
  Index index_{&memory_};
};

TEST_F(IndexInterleavingTest, ACellFreedAfterItsTagWasReadIsPassedOver) {
  Insert(1);
  Insert(2);
  At("index: between tag and cell", [&] { index_.Erase(kHash, 1); });
  EXPECT_EQ(Find(2), 2u);
}

TEST_F(IndexInterleavingTest, AnEntryReplacedAfterItsTagWasReadIsFound) {
  Insert(1);
  At("index: between tag and cell", [&] { index_.Replace(kHash, 1, 2); });
  EXPECT_EQ(Find(2), 2u);
}

// With an earlier epoch a table would be freed under a reader that came before
// it was unlinked.
TEST_F(IndexInterleavingTest, AnEpochEndsForATableThatIsUnlinkedAlready) {
  int changes = 0;
  for (uint32_t ref = 1; ref < 200; ++ref) {
    const size_t buckets = index_.buckets();
    size_t published = 0;
    At("epoch: after its end", [&] { published = index_.buckets(); });
    Insert(ref);
    if (testing::interruption.point.empty()) {
      EXPECT_GT(published, buckets);
      ++changes;
    }
    testing::interruption = {};
  }
  EXPECT_GT(changes, 2);
  const size_t buckets = index_.buckets();
  size_t published = 0;
  At("epoch: after its end", [&] { published = index_.buckets(); });
  index_.Clear();
  EXPECT_LT(published, buckets);
}

// A table that was unlinked after the section began.
TEST_F(IndexInterleavingTest, AnOldTableStaysWhileAReaderMayLookAtIt) {
  for (uint32_t ref = 1; ref <= 10; ++ref) Insert(ref);
  const int64_t one_table = memory_.allocated_bytes();
  const size_t buckets = index_.buckets();
  {
    const ReadSection section;
    for (uint32_t ref = 11; index_.buckets() == buckets; ++ref) Insert(ref);
    index_.FreeOldTables();
    EXPECT_GT(memory_.allocated_bytes(),
              static_cast<int64_t>(IndexTable::Bytes(index_.buckets())));
  }
  index_.FreeOldTables();
  EXPECT_EQ(memory_.allocated_bytes(),
            static_cast<int64_t>(IndexTable::Bytes(index_.buckets())));
  EXPECT_GT(memory_.allocated_bytes(), one_table);
  {
    const ReadSection section;
    index_.Clear();
    index_.FreeOldTables();
    EXPECT_GT(memory_.allocated_bytes(), 0);
  }
  index_.FreeOldTables();
  EXPECT_EQ(memory_.allocated_bytes(), 0);
}

// A reader that comes as the old table is unlinked does not hold it back.
TEST_F(IndexInterleavingTest, AnOldTableGoesWithItsLastReader) {
  for (uint32_t ref = 1; ref <= 10; ++ref) Insert(ref);
  const size_t buckets = index_.buckets();
  for (uint32_t ref = 11; index_.buckets() == buckets; ++ref) Insert(ref);
  EXPECT_EQ(memory_.allocated_bytes(),
            static_cast<int64_t>(IndexTable::Bytes(index_.buckets())));
}

}  // namespace
}  // namespace wheelcache::internal
