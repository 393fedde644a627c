// What LRU lists promise beyond the order that lru_model_test.cc compares,
// namely how old the victim of a lazy list may be and what a use costs; the
// sketch against the true numbers of occurrences; and the ghosts against a
// plain list of what was added to their bucket.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/lru/frequency_sketch.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

constexpr uint64_t kNoLimit = uint64_t{1} << 40;

struct Page {
  LruLinks<uint32_t> links;
  uint32_t stamp = 0;
};

struct Pages {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref].links; }
  uint32_t stamp(Ref ref) const { return all[ref].stamp; }
  Page* all;
};

class LazyLruListTest : public testing::Test {
 protected:
  static constexpr uint32_t kPages = 1000;

  void Push(uint32_t page) {
    pages_[page].stamp = now_++;
    list_.PushFront(page);
  }
  void PushAll() {
    for (uint32_t page = 1; page <= kPages; ++page) Push(page);
  }
  void Use(uint32_t page) { pages_[page].stamp = now_++; }

  uint32_t FindOldest(uint64_t budget = kNoLimit) {
    const uint32_t oldest = list_.FindOldest(&budget);
    EXPECT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
    return oldest;
  }

  uint32_t AgeOf(uint32_t page) const { return now_ - pages_[page].stamp; }

  std::vector<Page> pages_ = std::vector<Page>(kPages + 1);
  LazyLruList<Pages> list_{Pages{pages_.data()}};
  uint32_t now_ = 0;
};

TEST_F(LazyLruListTest, AnElementGoesWhereItWasUsedNotToTheFront) {
  PushAll();
  const uint32_t middle = now_;
  Use(1);
  for (uint32_t i = 0; i < 10 * kPages; ++i) {
    const uint32_t oldest = FindOldest();
    if (oldest == 1) break;
    list_.Remove(oldest);
    Push(oldest);
  }
  // As many insertions as there are elements, and a resolution more or less.
  EXPECT_NEAR(now_ - middle, kPages, kPages * 0.125);
}

TEST_F(LazyLruListTest, BudgetStopsTheSearchAndTheNextOneGoesOn) {
  PushAll();
  for (uint32_t page = 1; page <= 30; ++page) Use(page);
  EXPECT_EQ(FindOldest(10), 0u);
  EXPECT_EQ(FindOldest(10), 0u);
  EXPECT_EQ(FindOldest(10), 31u);
  uint64_t budget = 10;
  EXPECT_EQ(list_.FindOldest(&budget), 31u);
  EXPECT_EQ(budget, 10u);
}

// What is returned is never much younger than the oldest of all, whatever the
// pattern of uses, across the stamps' wrap-around.
TEST_F(LazyLruListTest, OldestIsAmongTheOldestQuarter) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  now_ = uint32_t{0} - 50'000;
  PushAll();
  for (int i = 0; i < 20'000; ++i) {
    // Some are used often, some now and then, some never.
    for (int uses = 0; uses < 5; ++uses) {
      Use(1 + random() % (uses < 3 ? 20 : kPages / 2));
    }
    uint64_t budget = kNoLimit;
    const uint32_t oldest = list_.FindOldest(&budget);
    uint32_t greatest_age = 0;
    for (uint32_t page = 1; page <= kPages; ++page) {
      greatest_age = std::max(greatest_age, AgeOf(page));
    }
    ASSERT_GE(AgeOf(oldest), greatest_age - greatest_age / 4)
        << "after " << i << ", seed " << TestSeed();
    list_.Remove(oldest);
    Push(oldest);
    if (i % 100 == 0) {
      ASSERT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
    }
  }
}

TEST_F(LazyLruListTest, EachUseCostsAtMostOneMove) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  PushAll();
  uint64_t moves = 0;
  constexpr uint64_t kUses = 20'000;
  for (uint64_t i = 0; i < kUses; ++i) {
    Use(1 + random() % kPages);
    uint64_t budget = kNoLimit;
    const uint32_t oldest = list_.FindOldest(&budget);
    moves += kNoLimit - budget;
    list_.Remove(oldest);
    Push(oldest);
  }
  EXPECT_LE(moves, kUses);
}

TEST_F(LazyLruListTest, CheckInvariantsFindsABrokenLink) {
  PushAll();
  auto& links = pages_[500].links;
  const auto intact = links;
  links.older = 0;
  EXPECT_FALSE(list_.CheckInvariants().ok());
  links = intact;
  EXPECT_TRUE(list_.CheckInvariants().ok());
}

class Sketch {
 public:
  explicit Sketch(uint64_t elements)
      : blocks_(FrequencySketch::BlocksFor(elements)),
        sketch_(blocks_.data(), blocks_.size()) {
    sketch_.Fit(elements);
  }
  FrequencySketch* operator->() { return &sketch_; }

 private:
  std::vector<FrequencySketch::Block> blocks_;
  FrequencySketch sketch_;
};

TEST(FrequencySketchTest, FrequencyIsNeverTooLowAndRarelyTooHigh) {
  constexpr uint32_t kElements = 4'096;
  Sketch sketch(kElements);
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  std::map<uint32_t, uint32_t> counts;
  for (uint32_t i = 0; i < 2 * kElements; ++i) {
    const uint32_t hash =
        random() % 4 == 0 ? random() : random() % 512 * 77'777;
    ++counts[hash];
    sketch->Increment(hash);
  }
  uint32_t too_high = 0;
  for (const auto& [hash, count] : counts) {
    EXPECT_GE(sketch->Frequency(hash), std::min(count, 15u));
    if (sketch->Frequency(hash) > std::min(count, 15u)) ++too_high;
  }
  EXPECT_LT(too_high, counts.size() / 200);
}

TEST(FrequencySketchTest, CountersOfOneLineDoNotOverflowIntoOthers) {
  Sketch sketch(8);  // One line.
  for (uint32_t hash = 0; hash < 128; ++hash) {
    for (uint32_t i = 0; i < 20 && sketch->Frequency(hash) < 15; ++i) {
      const uint32_t before = sketch->Frequency(hash);
      const uint32_t other = sketch->Frequency(hash + 1);
      sketch->Fit(1'000'000);  // Not to be halved meanwhile.
      sketch->Increment(hash);
      ASSERT_EQ(sketch->Frequency(hash), before + 1) << hash;
      ASSERT_LE(sketch->Frequency(hash + 1), other + 1) << hash;
    }
  }
}

TEST(FrequencySketchTest, AKeptFrequencyIsThePresentOne) {
  constexpr uint32_t kElements = 64;
  Sketch sketch(kElements);
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  uint32_t kept = 0;
  for (uint32_t i = 0; i < 100 * kElements; ++i) {
    if (random() % 20 == 0) kept = random() % kElements;
    // Back and forth between one block and all of them.
    if (random() % 50 == 0) sketch->Fit(random() % 2 == 0 ? 1 : kElements);
    if (random() % 4 == 0) sketch->Increment(random() % kElements);
    ASSERT_EQ(sketch->KeepFrequency(kept), sketch->Frequency(kept))
        << "seed " << TestSeed();
  }
}

TEST(FrequencySketchTest, AFrequencyBeyondANumberIsExact) {
  constexpr uint32_t kElements = 64;
  Sketch sketch(kElements);
  for (uint32_t i = 0; i < 4 * kElements; ++i) sketch->Increment(i * i);
  int above = 0;
  for (uint32_t hash = 0; hash < 1'000; ++hash) {
    const uint32_t frequency = sketch->Frequency(hash);
    for (uint32_t most = 0; most <= 15; ++most) {
      const uint32_t found = sketch->FrequencyBeyond(most, hash);
      ASSERT_GE(found, frequency) << hash << " " << most;
      ASSERT_LE(found, std::max(frequency, most)) << hash << " " << most;
      if (found > frequency) ++above;
    }
  }
  EXPECT_GT(above, 0);
}

TEST(FrequencySketchTest, HalvesAllAfterTenIncrementsForEachElement) {
  constexpr uint32_t kElements = 800;
  Sketch sketch(kElements);
  for (uint32_t i = 0; i < 12; ++i) sketch->Increment(1);
  for (uint32_t i = 12; i < 10 * kElements - 1; ++i) sketch->Increment(2);
  EXPECT_EQ(sketch->Frequency(1), 12u);
  EXPECT_EQ(sketch->Frequency(2), 15u);
  for (uint64_t i = 0; i < sketch->blocks(); ++i) sketch->Increment(3);
  EXPECT_EQ(sketch->Frequency(1), 6u);
  EXPECT_EQ(sketch->Frequency(2), 7u);
}

TEST(FrequencySketchTest, FitsFewerElementsInFewerBlocks) {
  Sketch sketch(8'000);
  EXPECT_EQ(sketch->blocks(), 1'024u);
  sketch->Fit(3'000);  // Not for a factor of two.
  EXPECT_EQ(sketch->blocks(), 1'024u);
  sketch->Fit(500);
  EXPECT_EQ(sketch->blocks(), 64u);
  sketch->Increment(1);
  EXPECT_EQ(sketch->Frequency(1), 1u);
  sketch->Fit(1'000'000);  // As many as there are.
  EXPECT_EQ(sketch->blocks(), 1'024u);
}

TEST(FrequencySketchTest, CountsAnewWhereItsBlocksChange) {
  Sketch sketch(8'000);
  for (uint32_t i = 0; i < 10 * 500; ++i) sketch->Increment(i);
  sketch->Fit(500);
  const uint32_t before = sketch->Frequency(7);
  for (uint32_t i = 0; i < 6; ++i) sketch->Increment(7);
  for (uint64_t i = 0; i < sketch->blocks(); ++i) sketch->Increment(8);
  EXPECT_EQ(sketch->Frequency(7), before + 6);
}

TEST(FrequencySketchTest, SpreadsSequencesOverItsLines) {
  Sketch sketch(uint64_t{64} * 1024);
  for (const uint32_t stride : {1u, 64u, 65'536u, 1u << 24}) {
    std::map<const void*, int> lines;
    for (uint32_t i = 0; i < 256; ++i) {
      ++lines[sketch->LineOf(i * stride)];
    }
    EXPECT_GT(lines.size(), 220u) << stride;
  }
}

constexpr GhostList::Part kFirst = GhostList::kFirst;
constexpr GhostList::Part kSecond = GhostList::kSecond;
constexpr GhostList::Part kNone = GhostList::kNone;

class Ghosts {
 public:
  explicit Ghosts(uint64_t elements)
      : buckets_(GhostList::BucketsFor(elements)),
        ghosts_(buckets_.data(), buckets_.size()) {}
  GhostList* operator->() { return &ghosts_; }

 private:
  std::vector<GhostList::Bucket> buckets_;
  GhostList ghosts_;
};

TEST(GhostListTest, AgreesWithAListForEachBucket) {
  constexpr uint32_t kHashes = 2'000;
  Ghosts ghosts(300);
  std::map<const void*, std::vector<std::pair<uint32_t, GhostList::Part>>> all;
  std::array<int64_t, 2> sizes = {};
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t hash = random() % kHashes * 2'147'483;
    auto& bucket = all[ghosts->LineOf(hash)];
    ASSERT_EQ(ghosts->Has(hash),
              std::any_of(bucket.begin(), bucket.end(), [&](const auto& ghost) {
                return ghost.first == hash;
              }));
    if (random() % 2 == 0) {
      const auto part = random() % 3 == 0 ? kSecond : kFirst;
      if (bucket.size() == 8) {
        --sizes[bucket.front().second];
        bucket.erase(bucket.begin());
      }
      bucket.emplace_back(hash, part);
      ++sizes[part];
      ghosts->Add(hash, part);
    } else {
      // The latest of those with this hash, but for its lowest bit.
      size_t at = bucket.size();
      while (at > 0 && bucket[at - 1].first >> 1 != hash >> 1) --at;
      const GhostList::Part expected = at == 0 ? kNone : bucket[at - 1].second;
      if (at > 0) {
        --sizes[expected];
        bucket.erase(bucket.begin() + static_cast<ptrdiff_t>(at) - 1);
      }
      ASSERT_EQ(ghosts->Take(hash), expected) << i;
    }
    ASSERT_EQ(ghosts->size(kFirst), sizes[kFirst]);
    ASSERT_EQ(ghosts->size(kSecond), sizes[kSecond]);
  }
}

TEST(GhostListTest, EachHashHasAFingerprint) {
  Ghosts ghosts(1'000);
  for (const uint32_t hash : {0u, 1u, 2u, 3u, ~0u, ~0u - 1}) {
    for (const auto part : {kFirst, kSecond}) {
      ghosts->Add(hash, part);
      EXPECT_EQ(ghosts->Take(hash), part) << hash;
    }
  }
}

TEST(GhostListTest, FitsFewerElementsInFewerBuckets) {
  Ghosts ghosts(8'000);
  EXPECT_EQ(ghosts->buckets(), 1'001u);
  ghosts->Fit(7'000);  // Not for less than a quarter.
  EXPECT_EQ(ghosts->buckets(), 1'001u);
  for (uint32_t i = 0; i < 4'000; ++i) ghosts->Add(i << 16, kFirst);
  ghosts->Fit(800);
  EXPECT_EQ(ghosts->buckets(), 101u);
  EXPECT_LE(ghosts->size(kFirst), 404);
  for (uint32_t i = 0; i < 4'000; ++i) ghosts->Add(i << 16, kSecond);
  EXPECT_EQ(ghosts->size(kFirst), 0);
  EXPECT_EQ(ghosts->Take(3'999u << 16), kSecond);
  ghosts->Fit(1'000);  // Not for less than a quarter.
  EXPECT_EQ(ghosts->buckets(), 101u);
  ghosts->Fit(1'100);
  EXPECT_EQ(ghosts->buckets(), 138u);
}

TEST(GhostListTest, SpreadsSequencesOverItsBuckets) {
  Ghosts ghosts(64 * 1024);
  for (const uint32_t stride : {1u, 64u, 65'536u, 1u << 24}) {
    std::map<const void*, int> lines;
    for (uint32_t i = 0; i < 256; ++i) ++lines[ghosts->LineOf(i * stride)];
    EXPECT_GT(lines.size(), 200u) << stride;
  }
}

}  // namespace
}  // namespace wheelcache
