// The ghosts against a plain list of what was added to their bucket.

#include "wheelcache/lru/ghost_list.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/tests/testing/test_environment.h"

namespace wheelcache {
namespace {

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

TEST(GhostListTest, TellsOnceWhichPartAnElementHasLeft) {
  Ghosts ghosts(100);
  EXPECT_EQ(ghosts->Take(1), kNone);
  ghosts->Add(1, kFirst);
  ghosts->Add(200, kSecond);
  EXPECT_EQ(ghosts->size(kFirst), 1);
  EXPECT_EQ(ghosts->size(kSecond), 1);
  EXPECT_TRUE(ghosts->Has(200));
  EXPECT_EQ(ghosts->Take(200), kSecond);
  EXPECT_FALSE(ghosts->Has(200));
  EXPECT_EQ(ghosts->Take(200), kNone);
  EXPECT_EQ(ghosts->Take(1), kFirst);
  EXPECT_EQ(ghosts->size(kFirst), 0);
  EXPECT_EQ(ghosts->size(kSecond), 0);
}

TEST(GhostListTest, RemembersTheLastEightOfABucket) {
  Ghosts ghosts(0);
  for (uint32_t i = 1; i <= 9; ++i) ghosts->Add(i << 8, kFirst);
  EXPECT_EQ(ghosts->size(kFirst), 8);
  EXPECT_EQ(ghosts->Take(1 << 8), kNone);
  for (uint32_t i = 2; i <= 9; ++i) EXPECT_EQ(ghosts->Take(i << 8), kFirst);
}

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
