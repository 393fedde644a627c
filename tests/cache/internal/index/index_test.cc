// The hash index of a shard, against a set of what is in it, with hashes chosen
// to hurt it; and what a look-up sees of a change in its middle.

#include "wheelcache/cache/internal/index/index.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index_table.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/table_memory.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache::internal {
namespace {

auto Is(uint32_t ref) {
  return [ref](uint32_t other) { return other == ref; };
}

// An index over elements that are their own references: reference r has the
// hash hashes[r].
class Elements {
 public:
  explicit Elements(std::vector<Hash32> hashes) : hashes_(std::move(hashes)) {}

  // Returns how many hashes the index asked for.
  size_t Insert(uint32_t ref) {
    const size_t asked = Resize();
    index_.Insert(hashes_[ref], ref);
    return asked;
  }
  size_t Resize() {
    size_t asked = 0;
    index_.Reserve([&](uint32_t other) {
      ++asked;
      return hashes_[other];
    });
    return asked;
  }
  // REQUIRES: they have the same hash.
  void Replace(uint32_t old, uint32_t ref) {
    index_.Replace(hashes_[ref], old, ref);
  }
  void Erase(uint32_t ref) { index_.Erase(hashes_[ref], ref); }
  void Clear() { index_.Clear(); }

  bool Holds(uint32_t ref) const {
    const uint32_t found = index_.Find(hashes_[ref], Is(ref));
    EXPECT_EQ(found != 0, index_.Holds(hashes_[ref], ref));
    Index::Rest rest;
    const uint32_t at_home = FindAtHome(ref, &rest);
    EXPECT_EQ(found, rest.empty() ? at_home : FindBeyondHome(ref, rest));
    return found == ref;
  }

  uint32_t FindAtHome(uint32_t ref, Index::Rest* rest) const {
    return index_.FindAtHome(hashes_[ref], rest, Is(ref));
  }
  uint32_t FindBeyondHome(uint32_t ref, Index::Rest rest) const {
    return Index::FindBeyondHome(rest, hashes_[ref], Is(ref));
  }

  Index& index() { return index_; }

 private:
  const std::vector<Hash32> hashes_;
  TableMemory memory_;
  Index index_{&memory_};
};

// Hashes for the references from 1 to `count`.
template <typename HashOf>
std::vector<Hash32> Hashes(uint32_t count, HashOf hash_of) {
  std::vector<Hash32> hashes = {0};
  for (uint32_t ref = 1; ref <= count; ++ref) hashes.push_back(hash_of(ref));
  return hashes;
}

// Inserts, replaces and erases at random, and compares with a set of what is
// there. Each element has another one that may take its place.
void ExpectKeepsWhatIsInIt(std::vector<Hash32> hashes, uint64_t operations) {
  const std::vector<Hash32> once = hashes;
  hashes.insert(hashes.end(), once.begin() + 1, once.end());
  const auto count = static_cast<uint32_t>(hashes.size() - 1);
  const auto other = [half = count / 2](uint32_t ref) {
    return ref <= half ? ref + half : ref - half;
  };
  Elements elements(std::move(hashes));
  std::vector<bool> held(count + 1);
  std::mt19937_64 random(TestSeed());
  size_t size = 0;
  for (uint64_t i = 0; i < operations; ++i) {
    const auto ref = static_cast<uint32_t>(1 + random() % count);
    ASSERT_EQ(elements.Holds(ref), held[ref]) << "operation " << i;
    // Grows and shrinks alternately.
    const bool wants_more = random() % 8 < (i / 1000 % 2 == 0 ? 6 : 2);
    if (held[ref] && !held[other(ref)] && random() % 4 == 0) {
      elements.Replace(ref, other(ref));
      held[ref] = false;
      held[other(ref)] = true;
    } else if (!held[ref] && wants_more) {
      elements.Insert(ref);
      held[ref] = true;
      ++size;
    } else if (held[ref] && !wants_more) {
      elements.Erase(ref);
      held[ref] = false;
      --size;
    }
    if (random() % 5000 == 0) {
      elements.Clear();
      held.assign(count + 1, false);
      size = 0;
    }
    ASSERT_EQ(elements.index().size(), size);
  }
  for (uint32_t ref = 1; ref <= count; ++ref) {
    EXPECT_EQ(elements.Holds(ref), held[ref]);
  }
}

// What went on from its home is mostly at home in a larger array.
TEST(IndexTest, ALookUpGoesOnInTheArrayWhereItBegan) {
  constexpr uint32_t kElements = 5000;
  std::mt19937 random(1);
  Elements elements(Hashes(kElements, [&](uint32_t) { return random(); }));
  const ReadSection keeps_the_arrays;
  struct LookUp {
    uint32_t ref;
    Index::Rest rest;
  };
  std::vector<LookUp> begun;
  for (uint32_t ref = 1; ref <= kElements; ++ref) {
    elements.Insert(ref);
    Index::Rest rest;
    if (elements.FindAtHome(ref, &rest) == 0) begun.push_back({ref, rest});
  }
  ASSERT_GT(begun.size(), 10u);
  for (const LookUp& look_up : begun) {
    ASSERT_FALSE(look_up.rest.empty());
    EXPECT_EQ(elements.FindBeyondHome(look_up.ref, look_up.rest), look_up.ref);
  }
}

TEST(IndexTest, KeepsWhatIsInItWithRandomHashes) {
  std::mt19937 random(1);
  ExpectKeepsWhatIsInIt(Hashes(5000, [&](uint32_t) { return random(); }),
                        TestOperations());
}

TEST(IndexTest, KeepsWhatIsInItWhereAllHashesAreEqual) {
  ExpectKeepsWhatIsInIt(Hashes(200, [](uint32_t) { return 0x12345678u; }),
                        TestOperations() / 10);
}

// Hashes whose home is the last bucket of the array, and hashes that go on to
// it from their home: what it has no room for goes on in the first.
TEST(IndexTest, KeepsWhatIsInItWhereTheArrayEnds) {
  ExpectKeepsWhatIsInIt(Hashes(200,
                               [](uint32_t ref) {
                                 return ref % 2 == 0 ? 0xffffffffu
                                                     : 0xf174d0afu;
                               }),
                        TestOperations() / 10);
}

TEST(IndexTest, KeepsWhatIsInItWhereAllTagsAreEqual) {
  std::mt19937 random(1);
  ExpectKeepsWhatIsInIt(
      Hashes(2000, [&](uint32_t) { return random() & 0xffffff00u; }),
      TestOperations() / 2);
}

// Tag 0 marks a free cell, and tag 1 stands for both.
TEST(IndexTest, KeepsWhatIsInItWithTheTagsOfFreeCells) {
  ExpectKeepsWhatIsInIt(Hashes(100, [](uint32_t ref) { return ref % 2; }),
                        TestOperations() / 10);
}

// Promise: No long pauses
// A Set pays for no more than its share of the growth.
TEST(IndexTest, NoInsertCopiesMoreThanAFew) {
  constexpr uint32_t kElements = 50'000;
  std::mt19937 random(1);
  Elements elements(Hashes(kElements, [&](uint32_t) { return random(); }));
  size_t copied = 0;
  for (uint32_t ref = 1; ref <= kElements; ++ref) {
    const size_t now = elements.Insert(ref);
    EXPECT_LE(now, Index::kMostCopied);
    copied += now;
  }
  EXPECT_GT(copied, kElements / 2) << "it has not grown";
  for (uint32_t ref = 1; ref <= kElements; ++ref) {
    ASSERT_TRUE(elements.Holds(ref)) << ref;
  }
}

// Two arrays take more memory than one.
TEST(IndexTest, GrowthGoesOnWhereOthersLeave) {
  constexpr uint32_t kElements = 50'000;
  std::mt19937 random(1);
  Elements elements(Hashes(kElements, [&](uint32_t) { return random(); }));
  uint32_t last = 1'000;
  for (uint32_t ref = 1; ref <= last; ++ref) elements.Insert(ref);
  while (elements.Insert(++last) == 0) continue;
  const size_t size = elements.index().size();
  for (uint32_t ref = 1; ref <= 100; ++ref) elements.Erase(ref);
  size_t copied = 0;
  for (uint32_t ref = 1; ref <= 100; ++ref) copied += elements.Insert(ref);
  EXPECT_GT(copied, size / 2);
}

// As in a full cache, where each new entry takes the place of the oldest. Full
// buckets come and go, but entries that they sent on stay where they are.
TEST(IndexTest, TurnoverDoesNotMakeLookUpsLong) {
  constexpr uint32_t kSize = 15'000;
  constexpr uint32_t kTurns = 10;
  std::mt19937 random(1);
  const std::vector<Hash32> hashes =
      Hashes(kSize * kTurns, [&](uint32_t) { return random(); });
  TableMemory memory;
  Index index(&memory, kSize);
  const auto hash_of = [&](uint32_t ref) { return hashes[ref]; };
  for (uint32_t ref = 1; ref < hashes.size(); ++ref) {
    index.Reserve(hash_of);
    index.Insert(hashes[ref], ref);
    if (ref > kSize) index.Erase(hashes[ref - kSize], ref - kSize);
  }
  // In a bucket, one of 26 look-ups meets a tag like its own.
  constexpr int kLookUps = 100'000;
  int asked = 0;
  for (int i = 0; i < kLookUps; ++i) {
    index.Find(random(), [&](uint32_t) {
      ++asked;
      return false;
    });
  }
  EXPECT_LT(asked, 2 * kLookUps / 26) << "more than two buckets a look-up";
}

TEST(IndexTest, HasRoomForWhatIsExpectedAndLittleMore) {
  for (const uint32_t expected : {5'000u, 20'000u, 50'000u}) {
    std::mt19937 random(1);
    const std::vector<Hash32> hashes =
        Hashes(expected, [&](uint32_t) { return random(); });
    TableMemory memory;
    Index index(&memory, expected);
    for (uint32_t ref = 1; ref <= expected; ++ref) {
      index.Reserve([&](uint32_t other) { return hashes[other]; });
      index.Insert(hashes[ref], ref);
    }
    index.FreeOldTables();
    EXPECT_EQ(memory.allocated_bytes(),
              static_cast<int64_t>(Index::TableBytesFor(expected)));
    const auto cells =
        static_cast<double>(index.buckets() * IndexTable::kCellsPerBucket);
    EXPECT_LT(cells, 1.23 * expected);
  }
}

// A table that shrinks gives pages back to the system, and loses its huge page.
TEST(IndexTest, NeverShrinksWhileItFills) {
  constexpr uint32_t kCount = 50'000;
  std::mt19937 random(1);
  const std::vector<Hash32> hashes =
      Hashes(kCount, [&](uint32_t) { return random(); });
  for (uint32_t expected = 0; expected < 400'000;
       expected = expected / 2 * 3 + 50) {
    TableMemory memory;
    Index index(&memory, expected);
    size_t buckets = 0;
    for (uint32_t ref = 1; ref <= kCount; ++ref) {
      index.Reserve([&](uint32_t other) { return hashes[other]; });
      index.Insert(hashes[ref], ref);
      ASSERT_GE(index.buckets(), buckets) << expected << " are expected";
      buckets = index.buckets();
    }
  }
}

// Promise: Failures leave the cache whole
// Instead of an endless loop, or of an entry that the index has and the cache
// has not.
TEST(IndexDeathTest, AChangeWithAnotherHashEndsTheProgram) {
  TableMemory memory;
  Index index(&memory);
  const auto insert = [&](Hash32 hash, uint32_t ref) {
    index.Reserve([&](uint32_t) { return hash; });
    index.Insert(hash, ref);
  };
  const char message[] = "Hash gave another value for a key than before";
  insert(0, 1);
  EXPECT_DEATH(index.Replace(2, 1, 3), message);
  EXPECT_DEATH(index.Erase(2, 1), message);
  index.Erase(0, 1);

  // A bucket that very many had to pass does not forget it: in the end, no
  // bucket tells that the search may end there.
  constexpr uint32_t kBuckets = 16;
  constexpr uint32_t kMany = 150;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const Hash32 hash = bucket << 28;
    for (uint32_t ref = 1; ref <= kMany; ++ref) insert(hash, ref);
    for (uint32_t ref = 1; ref <= kMany; ++ref) index.Erase(hash, ref);
  }
  insert(0, 1);
  EXPECT_DEATH(index.Erase(2, 1), message);
}

TEST(IndexTest, ShrinksInStepsWhenMostHaveLeft) {
  constexpr uint32_t kCount = 10'000;
  constexpr uint32_t kLeft = 100;
  Elements elements(
      Hashes(kCount, [](uint32_t ref) { return ref * 2654435761u; }));
  for (uint32_t ref = 1; ref <= kCount; ++ref) elements.Insert(ref);
  const size_t buckets = elements.index().buckets();
  for (uint32_t ref = kLeft + 1; ref <= kCount; ++ref) elements.Erase(ref);
  EXPECT_EQ(elements.index().buckets(), buckets);
  int steps = 0;
  while (elements.index().IsSparse()) {
    EXPECT_LE(elements.Resize(), Index::kMostCopied);
    for (uint32_t ref = 1; ref <= kLeft; ++ref) {
      ASSERT_TRUE(elements.Holds(ref));
    }
    ++steps;
  }
  EXPECT_GT(steps, 50);
  EXPECT_LE(elements.index().buckets() * IndexTable::kCellsPerBucket,
            8 * kLeft);
  EXPECT_EQ(elements.index().size(), kLeft);
  for (uint32_t ref = kLeft + 1; ref <= kCount; ++ref) elements.Insert(ref);
  for (uint32_t ref = 1; ref <= kCount; ++ref) ASSERT_TRUE(elements.Holds(ref));
}

// What stays in the index is found at every instant, while the index grows, is
// cleared of others and overflows around it.
TEST(IndexTest, ReadersFindWhatStaysWhileOthersComeAndGo) {
  constexpr uint32_t kStay = 50;
  constexpr uint32_t kCount = 3000;
  std::mt19937 random(1);
  // Few tags and buckets, so that all meet.
  Elements elements(
      Hashes(kCount, [&](uint32_t) { return (random() & 0xc0000003u) + 4; }));
  for (uint32_t ref = 1; ref <= kStay; ++ref) elements.Insert(ref);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (uint32_t ref = 1; !done; ref = ref % kStay + 1) {
      const ReadSection section;
      ASSERT_TRUE(elements.Holds(ref)) << ref;
    }
  });
  for (int round = 0; round < 4; ++round) {
    for (uint32_t ref = kStay + 1; ref <= kCount; ++ref) elements.Insert(ref);
    for (uint32_t ref = kCount; ref > kStay; --ref) elements.Erase(ref);
  }
  done = true;
  reader.join();
}

TEST(IndexTableTest, FirstHashOfABucketIsTheLeastThatIsAtHomeThere) {
  TableMemory memory;
  for (const size_t buckets : {1, 2, 3, 7, 8, 100, 1023, 65'536, 100'003}) {
    const IndexTable table(&memory, buckets);
    EXPECT_EQ(table.FirstHashOf(0), 0u);
    EXPECT_EQ(table.FirstHashOf(buckets), uint64_t{1} << 32);
    for (size_t b = 1; b < buckets; ++b) {
      const uint64_t first = table.FirstHashOf(b);
      ASSERT_EQ(table.Home(static_cast<Hash32>(first)), b);
      ASSERT_EQ(table.Home(static_cast<Hash32>(first - 1)), b - 1);
    }
  }
}

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

// By a reader that has seen the tag of an earlier entry in its cell, as by all
// others: a value that one has found, the next does not miss.
TEST_F(IndexInterleavingTest, ANewEntryIsFoundByAllAtOnce) {
  Insert(1);
  uint32_t found = 0;
  PausedCall reader("index: between tag and cell", 1, [&] { found = Find(2); });
  index_.Erase(kHash, 1);
  At("index: between tag and cell of a new entry", [&] {
    reader.GoOn();
    EXPECT_EQ(found, Find(2));
  });
  Insert(2);
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
