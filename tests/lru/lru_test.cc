// What LRU lists promise beyond the order that lru_model_test.cc compares,
// namely how old the victim of a list of generations may be and what a use
// costs; and the ghosts against a plain list of what was added to their bucket.

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
#include "wheelcache/lru/generational_list.h"
#include "wheelcache/lru/ghost_list.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

constexpr uint64_t kNoLimit = uint64_t{1} << 40;

struct Page {
  LruLinks<uint32_t> links;
  uint32_t number = 0;
};

struct Pages {
  using Ref = uint32_t;
  LruLinks<Ref>& lru_links(Ref ref) const { return all[ref].links; }
  uint32_t number(Ref ref) const { return all[ref].number; }
  void set_number(Ref ref, uint32_t number) const { all[ref].number = number; }
  void Publish(uint32_t number) const { *published = number; }
  uint32_t Now() const { return *time; }
  Page* all;
  uint32_t* published;
  uint32_t* time;
};

class GenerationalListTest : public testing::Test {
 protected:
  static constexpr uint32_t kPages = 1000;

  void Push(uint32_t page) {
    last_use_[page] = ++uses_;
    ++time_;
    list_.PushFront(page);
  }
  void PushAll() {
    for (uint32_t page = 1; page <= kPages; ++page) Push(page);
  }
  // Counts as an append, as a hit in a cache does now and then.
  void Use(uint32_t page) {
    last_use_[page] = ++uses_;
    if (pages_[page].number == list_.number()) return;
    pages_[page].number = list_.number();
    ++stores_;
    list_.CountUses(1);
  }

  uint32_t FindOldest(uint64_t budget = kNoLimit) {
    const uint32_t oldest = list_.FindOldest(&budget);
    EXPECT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
    return oldest;
  }

  std::vector<Page> pages_ = std::vector<Page>(kPages + 1);
  uint32_t published_ = 0;
  uint32_t time_ = 0;
  GenerationalList<Pages>::Generations generations_ = {};
  GenerationalList<Pages> list_{&generations_,
                                Pages{pages_.data(), &published_, &time_}};
  std::vector<uint64_t> last_use_ = std::vector<uint64_t>(kPages + 1);
  uint64_t uses_ = 0;
  uint64_t stores_ = 0;
};

TEST_F(GenerationalListTest, AnElementGoesWhereItWasUsedNotToTheFront) {
  PushAll();
  Use(1);
  uint32_t pushed = 0;
  for (; pushed < 10 * kPages; ++pushed) {
    const uint32_t oldest = FindOldest();
    if (oldest == 1) break;
    list_.Remove(oldest);
    Push(oldest);
  }
  // As many insertions as there are elements, and a generation more or less.
  EXPECT_NEAR(pushed, kPages, kPages * 0.125);
}

TEST_F(GenerationalListTest, BudgetStopsTheSearchAndTheNextOneGoesOn) {
  PushAll();
  for (uint32_t page = 1; page <= 30; ++page) Use(page);
  EXPECT_EQ(FindOldest(10), 0u);
  EXPECT_EQ(FindOldest(10), 0u);
  EXPECT_EQ(FindOldest(10), 31u);
  uint64_t budget = 10;
  EXPECT_EQ(list_.FindOldest(&budget), 31u);
  EXPECT_EQ(budget, 10u);
}

// What is returned is among the oldest, whatever the pattern of uses.
TEST_F(GenerationalListTest, OldestIsAmongTheOldestEighth) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  PushAll();
  for (int i = 0; i < 20'000; ++i) {
    // Some are used often, some now and then, some never.
    for (int uses = 0; uses < 5; ++uses) {
      Use(1 + random() % (uses < 3 ? 20 : kPages / 2));
    }
    const uint64_t use = last_use_[FindOldest()];
    uint32_t older = 0;
    for (uint32_t page = 1; page <= kPages; ++page) {
      older += last_use_[page] < use ? 1 : 0;
    }
    ASSERT_LE(older, kPages / 8) << "after " << i << ", seed " << TestSeed();
    const uint32_t oldest = FindOldest();
    list_.Remove(oldest);
    Push(oldest);
  }
}

TEST_F(GenerationalListTest, EachStoreCostsAtMostOneMove) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  PushAll();
  uint64_t moves = 0;
  for (int i = 0; i < 20'000; ++i) {
    Use(1 + random() % kPages);
    uint64_t budget = kNoLimit;
    const uint32_t oldest = list_.FindOldest(&budget);
    moves += kNoLimit - budget;
    list_.Remove(oldest);
    Push(oldest);
  }
  EXPECT_LE(moves, stores_);
  EXPECT_LT(stores_, uses_);
}

// Nothing is pushed or moved, and yet the uses have an order.
TEST_F(GenerationalListTest, CountedUsesBeginGenerations) {
  PushAll();
  const uint32_t before = list_.number();
  list_.CountUses(kPages / 16);
  EXPECT_NE(list_.number(), before);
  EXPECT_EQ(published_, list_.number());
}

TEST_F(GenerationalListTest, NumberAheadOfTheListCountsAsUsedNow) {
  PushAll();
  pages_[1].number = list_.number() + 1'000;
  EXPECT_EQ(FindOldest(), 2u);
  EXPECT_EQ(pages_[1].number, list_.number());
  EXPECT_EQ(list_.front(), 1u);
}

TEST_F(GenerationalListTest, TellsWhenTheBackWasAppended) {
  EXPECT_EQ(list_.BackTime(/*now=*/77, /*each=*/1), 77u);
  PushAll();
  for (uint32_t page = 1; page <= kPages * 3 / 4; ++page) {
    ASSERT_NEAR(list_.BackTime(/*now=*/0, /*each=*/1), page, 5) << page;
    list_.Remove(page);
  }
  // No later than its generation ended, whatever is said of each.
  EXPECT_LE(list_.BackTime(/*now=*/0, /*each=*/1'000), kPages * 7 / 8);
  for (uint32_t page = kPages * 3 / 4 + 1; page <= kPages; ++page) {
    list_.Remove(page);
  }
  EXPECT_EQ(list_.BackTime(/*now=*/77, /*each=*/1), 77u);
}

TEST_F(GenerationalListTest, CheckInvariantsFindsABrokenLink) {
  PushAll();
  auto& links = pages_[500].links;
  const auto intact = links;
  links.older = 0;
  EXPECT_FALSE(list_.CheckInvariants().ok());
  links = intact;
  EXPECT_TRUE(list_.CheckInvariants().ok());
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
  constexpr uint32_t kHashes = 200;  // No two of a bucket look alike.
  Ghosts ghosts(300);
  std::map<const void*, std::vector<std::pair<uint32_t, GhostList::Part>>> all;
  std::array<int64_t, 2> sizes = {};
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t hash = random() % kHashes * 2'147'483;
    auto& bucket = all[ghosts->LineOf(hash)];
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
      size_t at = bucket.size();  // The latest of those with this hash.
      while (at > 0 && bucket[at - 1].first != hash) --at;
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

TEST(GhostListTest, RarelyTakesOneElementForAnother) {
  Ghosts ghosts(64 * 1024);
  std::mt19937 random(1);
  for (int i = 0; i < 64 * 1024; ++i) ghosts->Add(random(), kFirst);
  int taken = 0;
  for (int i = 0; i < 64 * 1024; ++i) {
    const uint32_t hash = random();
    const GhostList::Part part = ghosts->Take(hash);
    if (part == kNone) continue;
    ++taken;
    ghosts->Add(hash, part);
  }
  EXPECT_LT(taken, 40);
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
