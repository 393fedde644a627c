// What the scan-resistant policy promises, and that all other promises hold
// with it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"

namespace wheelcache {
namespace {

// Each test with one shard and with several.
class CachePolicyTest : public CacheEnvironment,
                        public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kEntries = 1'000;
  static constexpr int kHot = kEntries / 2;

  CachePolicyTest() {
    options_.max_entries = kEntries;
    options_.shards = GetParam();
    options_.policy = EvictionPolicy::kScanResistant;
  }

  // Reads keys below kHot through, several times, with others between them, so
  // that they are known to be used.
  void MakeHot() {
    for (int round = 0; round < 8; ++round) {
      for (int key = 0; key < kHot; ++key) {
        if (!cache_->Get(key).has_value()) cache_->Set(key, key);
      }
      Scan(kEntries / 4);
    }
  }

  // Stores so many keys that never come back.
  void Scan(int keys) {
    for (int i = 0; i < keys; ++i) cache_->Set(next_key_++, 0);
  }

  int CountHot() const {
    int count = 0;
    for (int key = 0; key < kHot; ++key) count += cache_->Contains(key);
    return count;
  }

  void Make(Cache<int, int>::Hooks hooks = {}) {
    cache_ = New<int, int>(std::move(hooks));
  }

  std::unique_ptr<Cache<int, int>> cache_;
  int next_key_ = 1'000'000;
};

TEST_P(CachePolicyTest, ScanLeavesWhatIsUsedOften) {
  Make();
  MakeHot();
  Scan(3 * kEntries);
  EXPECT_GT(CountHot(), kHot / 2);
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

TEST_P(CachePolicyTest, LruDoesNot) {
  options_.policy = EvictionPolicy::kLru;
  Make();
  MakeHot();
  Scan(3 * kEntries);
  EXPECT_EQ(CountHot(), 0);
}

TEST_P(CachePolicyTest, SetOfAResidentKeyKeepsItsList) {
  Make();
  MakeHot();
  for (int key = 0; key < kHot; ++key) cache_->Set(key, key + 1);
  Scan(3 * kEntries);
  EXPECT_GT(CountHot(), kHot / 2);
}

// However often others were used: the window is a twentieth at least.
TEST_P(CachePolicyTest, NewestTwentiethOfTheNewcomersStays) {
  Make();
  MakeHot();
  // Shards differ by chance in how many of the keys are theirs.
  const int stays = kEntries / 20 - (GetParam() == 1 ? 1 : kEntries / 60);
  for (int round = 0; round < 20; ++round) {
    Scan(kEntries / 3);
    for (int i = 1; i <= stays; ++i) {
      ASSERT_TRUE(cache_->Contains(next_key_ - i)) << i;
    }
    for (int key = 0; key < kHot; ++key) cache_->Get(key);
  }
}

TEST_P(CachePolicyTest, SetIsNeverRefusedForItsFrequency) {
  Make();
  MakeHot();
  for (int i = 0; i < 3 * kEntries; ++i) {
    ASSERT_TRUE(cache_->Set(next_key_, i));
    ASSERT_EQ(cache_->Get(next_key_++), i);
  }
  EXPECT_EQ(cache_->stats().refused, 0);
}

TEST_P(CachePolicyTest, LimitsHoldAtEveryInstant) {
  options_.max_bytes = kEntries * 64;
  Make();
  for (int i = 0; i < 5 * kEntries; ++i) {
    cache_->Set(i % 3 == 0 ? i % kHot : next_key_++, i);
    ASSERT_LE(cache_->size(), options_.max_entries);
    ASSERT_LE(cache_->bytes(), options_.max_bytes);
  }
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

TEST_P(CachePolicyTest, ExpiredEntriesGoFirst) {
  RemovalLog<int, int> log;
  Make(log.hooks());
  MakeHot();
  log.Take();
  for (int i = 0; i < kEntries / 40; ++i) {
    cache_->Set(i, 0, absl::Seconds(1));
  }
  clock_.Advance(absl::Seconds(1));
  Scan(1);
  int expired = 0;
  for (const auto& removal : log.Take()) {
    if (removal.cause == RemovalCause::kReplaced) continue;
    if (removal.cause == RemovalCause::kExpired) ++expired;
    EXPECT_EQ(removal.cause, RemovalCause::kExpired);
  }
  EXPECT_GT(expired, 0);
}

TEST_P(CachePolicyTest, ClearEmptiesBothLists) {
  RemovalLog<int, int> log;
  Make(log.hooks());
  MakeHot();
  const int64_t present = cache_->size();
  log.Take();
  cache_->Clear();
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(log.Take().size(), static_cast<size_t>(present));
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  for (int i = 0; i < 4; ++i) MakeHot();
  Scan(3 * kEntries);
  EXPECT_GT(CountHot(), kHot / 2);
}

TEST_P(CachePolicyTest, FollowsSetLimits) {
  Make();
  MakeHot();
  ASSERT_TRUE(cache_->SetLimits(kEntries / 4, kUnlimited).ok());
  EXPECT_LE(cache_->size(), kEntries / 4);
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  Scan(kEntries);
  ASSERT_TRUE(cache_->SetLimits(kUnlimited, kUnlimited).ok());
  Scan(4 * kEntries);
  EXPECT_GT(cache_->size(), 4 * kEntries);
  ASSERT_TRUE(cache_->SetLimits(kEntries, kUnlimited).ok());
  EXPECT_EQ(cache_->size(), kEntries);
  for (int i = 0; i < 4; ++i) MakeHot();
  Scan(3 * kEntries);
  EXPECT_GT(CountHot(), kHot / 8);
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

TEST_P(CachePolicyTest, MovedEntriesKeepTheirList) {
  Make();
  MakeHot();
  testing::RequireRound(cache_.get());
  cache_->RunMaintenance();
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  Scan(3 * kEntries);
  EXPECT_GT(CountHot(), kHot / 2);
}

// A shard's smallest step takes more than one call then.
TEST_P(CachePolicyTest, EvictsWithTheSmallestBudget) {
  options_.maintenance_budget = 1;
  Make();
  MakeHot();
  Scan(3 * kEntries);
  EXPECT_EQ(cache_->size(), kEntries);
  EXPECT_GT(CountHot(), kHot / 2);
}

TEST_P(CachePolicyTest, EntryThatMovesToTheMainListKeepsItsAge) {
  options_.shards = 1;
  Make();
  for (int key = 0; key < kEntries; ++key) cache_->Set(key, 0);
  // Younger now than the newest tenth, which is in the window.
  for (int key = 0; key < 400; ++key) cache_->Set(key, 1);
  for (int key = 400; key < 450; ++key) cache_->Del(key);
  Scan(50);  // What the window holds takes the room in the main list.
  ASSERT_TRUE(cache_->SetLimits(/*entries=*/420, kUnlimited).ok());
  for (int key = 905; key < 940; ++key) EXPECT_FALSE(cache_->Contains(key));
  for (int key = 50; key < 350; ++key) EXPECT_TRUE(cache_->Contains(key));
}

TEST_P(CachePolicyTest, CacheOfAFewEntriesWorks) {
  for (const int entries : {1, 2, 3, 7, 20}) {
    options_.max_entries = entries;
    Make();
    for (int i = 0; i < 200; ++i) {
      cache_->Set(i % 5, i);
      ASSERT_EQ(cache_->Get(i % 5), i);
      Scan(i % 3);
      ASSERT_LE(cache_->size(), entries);
    }
    EXPECT_EQ(cache_->size(), entries);
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }
}

TEST_P(CachePolicyTest, CacheWithoutLimitsKeepsAll) {
  options_.max_entries = kUnlimited;
  Make();
  Scan(10 * kEntries);
  EXPECT_EQ(cache_->size(), 10 * kEntries);
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

// What lives longer is worth more.
TEST_P(CachePolicyTest, BetweenEqualsTheOneThatLivesLongerStays) {
  Make();
  for (int key = 0; key < kEntries; ++key) {
    cache_->Set(key, 0, absl::Minutes(1));
  }
  for (int key = 0; key < kEntries / 2; ++key) {
    cache_->Set(10'000 + key, 0, absl::Minutes(10));
  }
  for (int i = 0; i < kEntries; ++i) {
    cache_->Set(next_key_++, 0, absl::Minutes(1));
  }
  int stayed = 0;
  for (int key = 0; key < kEntries / 2; ++key) {
    stayed += cache_->Contains(10'000 + key);
  }
  EXPECT_GT(stayed, kEntries / 3);
}

INSTANTIATE_TEST_SUITE_P(Shards, CachePolicyTest, ::testing::Values(1, 4));

TEST(CachePolicyOptionsTest, UnknownPolicyIsAnError) {
  CacheOptions options;
  options.policy = static_cast<EvictionPolicy>(2);
  const auto cache = Cache<int, int>::Create(options);
  EXPECT_EQ(cache.status().message(),
            "CacheOptions of \"cache\": policy is 2, must be kLru or "
            "kScanResistant");
}

TEST(CachePolicyOptionsTest, AnyLimitsAreAccepted) {
  for (const int64_t entries : {int64_t{1}, int64_t{1} << 40, kUnlimited}) {
    for (const int64_t bytes : {int64_t{1}, int64_t{1} << 60, kUnlimited}) {
      CacheOptions options;
      options.policy = EvictionPolicy::kScanResistant;
      options.max_entries = entries;
      options.max_bytes = bytes;
      options.reaper = nullptr;
      const auto cache = Cache<int, int>::Create(options);
      ASSERT_TRUE(cache.ok()) << cache.status();
      (*cache)->Set(1, 1);
      EXPECT_TRUE((*cache)->CheckInvariants().ok());
    }
  }
}

}  // namespace
}  // namespace wheelcache
