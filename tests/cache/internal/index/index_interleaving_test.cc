// What a look-up in the index sees of a change in its middle.

#include <cstdint>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/hash32.h"
#include "wheelcache/cache/internal/index/index.h"
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

}  // namespace
}  // namespace wheelcache::internal
