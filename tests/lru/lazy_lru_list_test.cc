// The LRU list that is put in order at its tail, against the stamps themselves.

#include "wheelcache/lru/lazy_lru_list.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <vector>

#include "gtest/gtest.h"
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

TEST_F(LazyLruListTest, EmptyListHasNoOldest) {
  EXPECT_EQ(FindOldest(), 0u);
  Push(1);
  EXPECT_EQ(FindOldest(), 1u);
  list_.Remove(1);
  EXPECT_EQ(FindOldest(), 0u);
}

TEST_F(LazyLruListTest, WithoutUsesTheOrderIsThatOfInsertion) {
  PushAll();
  for (uint32_t page = 1; page <= kPages; ++page) {
    ASSERT_EQ(FindOldest(), page);
    list_.Remove(page);
  }
}

TEST_F(LazyLruListTest, AUsedElementIsNotTheOldest) {
  PushAll();
  Use(1);
  Use(2);
  EXPECT_EQ(FindOldest(), 3u);
}

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

TEST_F(LazyLruListTest, TheBackIsTheOldestUnlessItWasUsed) {
  const auto back_is_oldest = [&] {
    return list_.IsOldest(pages_[list_.back()].stamp);
  };
  PushAll();
  EXPECT_TRUE(back_is_oldest());
  Use(1);
  EXPECT_FALSE(back_is_oldest());
  EXPECT_EQ(FindOldest(), 2u);
  EXPECT_TRUE(back_is_oldest());
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

TEST_F(LazyLruListTest, IfAllWereUsedTheOrderIsThatOfTheUses) {
  PushAll();
  for (uint32_t page = kPages; page > 0; --page) Use(page);
  const uint32_t oldest = FindOldest();
  EXPECT_GT(oldest, kPages - kPages * 0.125);
}

TEST_F(LazyLruListTest, ElementsMovedAtEachUseAreInExactOrder) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  std::list<uint32_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t page = 1 + random() % 50;
    const auto place = std::find(model.begin(), model.end(), page);
    if (place == model.end()) {
      Push(page);
    } else {
      model.erase(place);
      Use(page);
      list_.MoveToFront(page);
    }
    model.push_front(page);
    if (random() % 4 == 0) {
      ASSERT_EQ(FindOldest(0), model.back()) << "seed " << TestSeed();
      list_.Remove(model.back());
      model.pop_back();
    }
  }
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

TEST_F(LazyLruListTest, ResolutionFollowsAListThatShrinks) {
  PushAll();
  EXPECT_GT(list_.Resolution(), kPages / 32);
  for (uint32_t i = 10; i < kPages; ++i) list_.Remove(FindOldest());
  EXPECT_LT(list_.Resolution(), kPages / 32);
  for (uint32_t i = 0; i < 10; ++i) list_.Remove(FindOldest());
  EXPECT_EQ(list_.Resolution(), 1u);
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

TEST_F(LazyLruListTest, AnyElementCanBeRemoved) {
  std::mt19937 random(static_cast<uint32_t>(TestSeed()));
  PushAll();
  std::vector<uint32_t> order;
  for (uint32_t page = 1; page <= kPages; ++page) order.push_back(page);
  std::shuffle(order.begin(), order.end(), random);
  for (const uint32_t page : order) {
    list_.Remove(page);
    ASSERT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
  }
  EXPECT_TRUE(list_.empty());
}

// Also the newest ones of the generations.
TEST_F(LazyLruListTest, ASubstituteLeavesInTheOrderOfTheOther) {
  constexpr uint32_t kHalf = kPages / 2;
  for (uint32_t page = 1; page <= kHalf; ++page) Push(page);
  for (uint32_t page = 1; page <= kHalf; ++page) {
    pages_[page + kHalf].stamp = pages_[page].stamp;
    list_.Substitute(page, page + kHalf);
    ASSERT_TRUE(list_.CheckInvariants().ok()) << list_.CheckInvariants();
  }
  for (uint32_t page = 1; page <= kHalf; ++page) {
    ASSERT_EQ(FindOldest(), page + kHalf);
    list_.Remove(page + kHalf);
  }
  EXPECT_TRUE(list_.empty());
}

TEST_F(LazyLruListTest, TakeAllLeavesAChainFromTheFrontToTheBack) {
  PushAll();
  uint32_t page = list_.TakeAll();
  EXPECT_TRUE(list_.empty());
  for (uint32_t expected = kPages; expected > 0; --expected) {
    ASSERT_EQ(page, expected);
    page = pages_[page].links.older;
  }
  EXPECT_TRUE(list_.CheckInvariants().ok());
  Push(5);
  EXPECT_EQ(FindOldest(), 5u);
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

}  // namespace
}  // namespace wheelcache
