// Limits: which entries leave when there is no room, with each policy; and
// what SetLimits does to the entries, to the limits and to the memory, also
// while others use the cache.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/cache_peer.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The values are weights: an entry is charged its value and the overhead.
using WeightCache = Cache<int, int64_t>;

uint64_t Weigh(int /*key*/, int64_t weight) {
  return static_cast<uint64_t>(weight);
}

using Removals = Removal<int, int64_t>;

class CacheEvictionTest : public CacheEnvironment {
 protected:
  std::unique_ptr<WeightCache> NewCache() {
    auto hooks = log_.hooks();
    hooks.weigher = &Weigh;
    return New<int, int64_t>(std::move(hooks));
  }

  static Removals Evicted(int key, int64_t value = 0) {
    return {key, value, RemovalCause::kEvicted, {}};
  }

  const int64_t overhead_ = OverheadOfAnEntry<int, int64_t>();
  RemovalLog<int, int64_t> log_;
};

// Keys of two shards in turn.
std::vector<int> KeysOfTwoShardsInTurn(size_t count) {
  std::vector<int> keys;
  for (int key = 0; keys.size() < count; ++key) {
    const auto shard = internal::HashKey<DefaultHash<int>>(key).for_shard % 2;
    if (shard == keys.size() % 2) keys.push_back(key);
  }
  return keys;
}

// Promise: Expired entries go first
TEST_F(CacheEvictionTest, SmallCacheEvictsInTheExactOrderOfUse) {
  constexpr int kEntries = 1000;
  options_.max_entries = kEntries;
  auto cache = NewCache();
  for (int i = 0; i < kEntries; ++i) cache->Set(i, 0);
  std::vector<int> order(kEntries);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (const int key : order) {
    switch (key % 4) {
      case 0:
        cache->Get(key);
        break;
      case 1:
        cache->Find(key);
        break;
      case 2:
        cache->Touch(key, absl::Hours(1));
        break;
      default:
        cache->Set(key, 0);
    }
  }
  log_.Take();
  for (int i = 0; i < kEntries; ++i) cache->Set(kEntries + i, 0);
  const auto removals = log_.Take();
  ASSERT_EQ(removals.size(), order.size());
  for (int i = 0; i < kEntries; ++i) {
    ASSERT_EQ(removals[i], Evicted(order[i])) << i;
  }
}

// Of several shards, which keep credits.
class CreditsTest : public CacheEvictionTest {
 protected:
  static constexpr int kEntries = 2560;
  static constexpr int64_t kMean = 1000;

  CreditsTest() { options_.shards = 4; }

  // Sets another key. Weights differ.
  void SetNext(WeightCache* cache) {
    ASSERT_TRUE(cache->Set(next_, static_cast<int64_t>(random_() % 1000)));
    ++next_;
  }

  int next_ = 0;
  std::mt19937 random_{1};
};

// Promise: Hard limits
TEST_F(CreditsTest, NothingIsEvictedWhileAnyShardKeepsRoom) {
  options_.max_entries = kEntries;
  auto cache = NewCache();
  while (next_ < kEntries - 50) SetNext(cache.get());
  // More than a shard keeps.
  for (int key = 0; key < 30; ++key) cache->Del(key);
  while (next_ < kEntries + 30) SetNext(cache.get());
  EXPECT_EQ(cache->size(), kEntries);
  // Fewer, of other shards than what comes for them.
  const std::vector<int> keys = KeysOfTwoShardsInTurn(4 * kEntries);
  for (size_t i = 100; i < 110; i += 2) EXPECT_TRUE(cache->Del(keys[i]));
  for (size_t i = 1; i < 10; i += 2) cache->Set(keys[keys.size() - i], 0);
  EXPECT_EQ(cache->size(), kEntries);
  EXPECT_EQ(cache->stats().evictions, 0);
}

// The shards keep what would be far too much then, and none would ask for it.
TEST_F(CreditsTest, LimitThatFallsBelowAllCreditsLeavesNone) {
  options_.max_entries = kEntries;
  auto cache = NewCache();
  while (next_ < 8) SetNext(cache.get());
  ASSERT_TRUE(cache->SetLimits(60, options_.max_bytes).ok());
  // Of one shard, or two.
  const std::vector<int> keys = KeysOfTwoShardsInTurn(1000);
  for (size_t i = 100; cache->size() < 60 && i < keys.size(); i += 2) {
    cache->Set(keys[i], 0);
    ASSERT_EQ(cache->stats().evictions, 0) << cache->size();
  }
  EXPECT_EQ(cache->stats().evictions, 0);
}

TEST_F(CreditsTest, EntryOfTheWholeLimitFindsItsPlace) {
  options_.max_bytes = kEntries * kMean;
  auto cache = NewCache();
  for (const int sets : {kEntries / 2, 3 * kEntries}) {
    for (int i = 0; i < sets; ++i) SetNext(cache.get());
    EXPECT_TRUE(cache->Set(-1, options_.max_bytes - overhead_));
    EXPECT_EQ(cache->size(), 1);
    EXPECT_EQ(cache->bytes(), options_.max_bytes);
  }
}

TEST_F(CreditsTest, BytesThatEvictionsLeaveAreAtMostA256thOfTheLimit) {
  options_.max_bytes = kEntries * kMean;
  auto cache = NewCache();
  while (next_ < 2 * kEntries) SetNext(cache.get());
  while (next_ < 5 * kEntries) {
    SetNext(cache.get());
    ASSERT_LE(cache->bytes(), options_.max_bytes);
    ASSERT_GE(cache->bytes(),
              options_.max_bytes * 255 / 256 - kMean - overhead_);
  }
}

// Promise: Hard limits
// Refused, and told; its old value is gone; nobody else had to make room.
TEST_F(CacheEvictionTest, EntryLargerThanTheLimitIsRefused) {
  options_.max_bytes = 10 * overhead_;
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2);
  EXPECT_FALSE(cache->Set(1, 9 * overhead_ + 1));
  EXPECT_FALSE(cache->Contains(1));
  EXPECT_TRUE(cache->Contains(2));
  EXPECT_THAT(log_.Take(),
              ElementsAre(Removals{1, 1, RemovalCause::kReplaced, {}}));
  EXPECT_FALSE(cache->Set(3, 9 * overhead_ + 1));
  EXPECT_THAT(log_.Take(), ElementsAre());
  EXPECT_EQ(cache->size(), 1);
}

TEST_F(CacheEvictionTest, WeightTooLargeForACountIsRefused) {
  auto cache = NewCache();  // Without limits.
  EXPECT_FALSE(cache->Set(1, std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE(cache->Set(1, -1));  // As a weight: 2^64 - 1.
  EXPECT_FALSE(cache->Set(1, int64_t{1} << 32));
  const int64_t most = (int64_t{1} << 32) - 1;
  EXPECT_TRUE(cache->Set(1, most - overhead_));
  EXPECT_EQ(cache->bytes(), most);
}

TEST_F(CacheEvictionTest, OneEntryFitsInAnyNumberOfShards) {
  options_.max_entries = 1;
  options_.shards = 64;
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(cache->Set(i, 0));
    EXPECT_TRUE(cache->Contains(i));
    EXPECT_EQ(cache->size(), 1);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Promise: Hard limits
// quick_cache refused it, as the limit was split over the shards.
TEST_F(CacheEvictionTest, EntryOfHalfTheLimitIsStored) {
  options_.max_bytes = 1 << 20;
  options_.shards = 64;
  auto cache = NewCache();
  for (int i = 0; i < 10'000; ++i) cache->Set(i, 400);
  EXPECT_TRUE(cache->Set(-1, options_.max_bytes / 2));
  EXPECT_TRUE(cache->Contains(-1));
  EXPECT_LE(cache->bytes(), options_.max_bytes);
  EXPECT_GE(cache->bytes(), options_.max_bytes * 9 / 10);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Promise: Expired entries go first
// The shares of the limit move to where the keys are, bit by bit.
TEST_F(CacheEvictionTest, LongUnusedEntriesOfAnotherShardGoInTheEnd) {
  constexpr int kKeys = 1'000;
  options_.shards = 2;
  options_.max_entries = int64_t{2} * kKeys;
  auto cache = New<int, int>();
  const std::vector<int> keys = KeysOfTwoShardsInTurn(8 * kKeys);
  for (int i = 0; i < kKeys; ++i) cache->Set(keys[2 * i], i);
  for (int i = 0; i < 4 * kKeys; ++i) cache->Set(keys[2 * i + 1], i);
  int held = 0;
  for (int i = 0; i < kKeys; ++i) held += cache->Contains(keys[2 * i]);
  EXPECT_LE(held, kKeys / 50);
}

// Hits are uses by which the others grow older, also in several shards. With
// two Sets alone between the first and the last hit, no other time passes.
TEST_F(CacheEvictionTest, HitsAreOrderedAmongEachOtherInSeveralShards) {
  constexpr int kKeys = 8'000;
  constexpr int kHit = kKeys / 2;
  options_.shards = 2;
  options_.max_entries = kKeys;
  auto cache = New<int, int>();
  const std::vector<int> keys = KeysOfTwoShardsInTurn(2 * kKeys);
  for (int i = 0; i < kKeys; ++i) cache->Set(keys[i], i);
  // Against their order in the lists.
  for (int i = kHit - 1; i >= 0; --i) {
    EXPECT_EQ(cache->Get(keys[i]), i);
    if (i != kHit / 2) continue;
    // The list of each shard learns that time has passed.
    cache->Set(keys[kKeys - 1], 0);
    cache->Set(keys[kKeys - 2], 0);
  }
  // Those that were not hit leave, and then half of those that were.
  for (int i = 0; i < kKeys - kHit / 2; ++i) cache->Set(keys[kKeys + i], i);
  const auto held = [&](int begin, int end) {
    return std::count_if(keys.begin() + begin, keys.begin() + end,
                         [&](int key) { return cache->Contains(key); });
  };
  EXPECT_LE(held(kHit / 2, kHit), kHit / 100);
  EXPECT_GE(held(0, kHit / 2), kHit / 2 - kHit / 100);
}

// What the scan-resistant policy promises.

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

  void Make() { cache_ = New<int, int>(); }

  std::unique_ptr<Cache<int, int>> cache_;
  int next_key_ = 1'000'000;
};

// Promise: Expired entries go first
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

// Promise: Expired entries go first
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

// Promise: Expired entries go first
TEST_P(CachePolicyTest, SetIsNeverRefusedForItsFrequency) {
  Make();
  MakeHot();
  for (int i = 0; i < 3 * kEntries; ++i) {
    ASSERT_TRUE(cache_->Set(next_key_, i));
    ASSERT_EQ(cache_->Get(next_key_++), i);
  }
  EXPECT_EQ(cache_->stats().refused, 0);
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

INSTANTIATE_TEST_SUITE_P(Shards, CachePolicyTest, ::testing::Values(1, 4));

// SetLimits.

using IntCache = Cache<int, int>;

void Fill(IntCache* cache, int first, int last) {
  for (int key = first; key <= last; ++key) cache->Set(key, key);
}

Removal<int, int> Evicted(int key) {
  return {key, key, RemovalCause::kEvicted, {}};
}

class SetLimitsTest : public CacheEnvironment {};

TEST_F(SetLimitsTest, LimitsAreAtFirstThoseOfTheOptions) {
  auto unlimited = New<int, int>();
  EXPECT_EQ(unlimited->limits().entries, kUnlimited);
  EXPECT_EQ(unlimited->limits().bytes, kUnlimited);
  options_.max_entries = 7;
  options_.max_bytes = 1000;
  auto cache = New<int, int>();
  EXPECT_EQ(cache->limits().entries, 7);
  EXPECT_EQ(cache->limits().bytes, 1000);
  ASSERT_TRUE(cache->SetLimits(8, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 8);
  EXPECT_EQ(cache->limits().bytes, kUnlimited);
  EXPECT_EQ(cache->options().max_entries, 7) << "as given";
}

TEST_F(SetLimitsTest, RefusesWhatCreateWouldRefuseInTheSameWords) {
  options_.name = "users";
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 10);
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, -kUnlimited}) {
    CacheOptions options = options_;
    options.max_entries = bad;
    const absl::Status entries = cache->SetLimits(bad, 100);
    EXPECT_EQ(entries.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(entries, internal::Validate(options, /*may_refresh=*/false));
    options.max_entries = 100;
    options.max_bytes = bad;
    const absl::Status bytes = cache->SetLimits(100, bad);
    EXPECT_EQ(bytes, internal::Validate(options, /*may_refresh=*/false));
    EXPECT_THAT(std::string(bytes.message()),
                AllOf(HasSubstr("\"users\""), HasSubstr("max_bytes"),
                      HasSubstr("must be at least 1")));
  }
  EXPECT_EQ(cache->size(), 10);
  EXPECT_EQ(cache->limits().entries, kUnlimited);
}

TEST_F(SetLimitsTest, GrowsAtOnceAndShrinksToTheMostRecentlyUsed) {
  RemovalLog<int, int> log;
  options_.max_entries = 2;
  auto cache = New<int, int>(log.hooks());
  ASSERT_TRUE(cache->SetLimits(6, kUnlimited).ok());
  Fill(cache.get(), 1, 6);
  EXPECT_EQ(cache->size(), 6);
  EXPECT_THAT(log.Take(), IsEmpty());
  cache->Get(1);
  cache->Get(3);
  ASSERT_TRUE(cache->SetLimits(3, kUnlimited).ok());
  EXPECT_THAT(log.Take(), ElementsAre(Evicted(2), Evicted(4), Evicted(5)));
  EXPECT_EQ(cache->size(), 3);
  EXPECT_EQ(cache->limits().entries, 3);
}

// Far beyond what index and arena were made for.
TEST_F(SetLimitsTest, GrowsFarBeyondTheFirstLimits) {
  for (const bool weighs : {false, true}) {
    options_.max_entries = 10;
    IntCache::Hooks hooks;
    if (weighs) hooks.weigher = &Weigh;
    auto cache = New<int, int>(std::move(hooks));
    Fill(cache.get(), 1, 100);
    EXPECT_EQ(cache->size(), 10);
    ASSERT_TRUE(cache->SetLimits(40'000, kUnlimited).ok());
    Fill(cache.get(), 1, 50'000);
    EXPECT_EQ(cache->size(), 40'000);
    int64_t found = 0;
    for (int key = 1; key <= 50'000; ++key) found += cache->Contains(key);
    EXPECT_EQ(found, 40'000);
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_F(SetLimitsTest, FirstVictimsAreTheOldestWhicheverShardTheyAreIn) {
  constexpr uint32_t kShards = 4;
  options_.shards = kShards;
  for (uint32_t youngest = 0; youngest < kShards; ++youngest) {
    auto cache = New<int, int>();
    std::vector<int> last;
    for (int key = 0; key < 2000; ++key) {
      const auto hash = internal::HashKey<DefaultHash<int>>(key);
      if (hash.for_shard % kShards == youngest) {
        last.push_back(key);
      } else {
        cache->Set(key, key);
      }
    }
    for (const int key : last) cache->Set(key, key);
    ASSERT_TRUE(cache->SetLimits(1950, kUnlimited).ok());
    for (const int key : last) ASSERT_TRUE(cache->Contains(key));
  }
}

// The room of what left is not free for others: the limit has it.
TEST_F(SetLimitsTest, ListenerFindsTheLimitWhereTheUseIs) {
  options_.maintenance_budget = 4;
  auto cache =
      NewListening<int, int>([](auto& of_listener, int, int, RemovalCause) {
        EXPECT_EQ(of_listener.size(), of_listener.limits().entries);
      });
  Fill(cache.get(), 1, 100);
  ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
}

// Promise: Hard limits
TEST_F(SetLimitsTest, GivesMemoryBack) {
  constexpr int64_t kMiB = 1 << 20;
  for (const bool by_bytes : {false, true}) {
    options_.max_bytes = by_bytes ? 64 * kMiB : kUnlimited;
    options_.shards = 4;
    auto cache = New<int, std::string>();
    const int64_t empty = cache->stats().resident_bytes;
    for (int key = 0; key < 100'000; ++key) {
      cache->Set(key, std::string(100 + key % 200, 'x'));
    }
    // The youngest lie among those that are to go.
    for (int key = 0; key < 100'000; key += 10) cache->Get(key);
    const int64_t full = cache->stats().resident_bytes;
    ASSERT_TRUE(by_bytes ? cache->SetLimits(kUnlimited, 2 * kMiB).ok()
                         : cache->SetLimits(5'000, kUnlimited).ok());
    const CacheStats stats = cache->stats();
    EXPECT_GT(stats.entries, 0);
    EXPECT_GT(full, 24 * kMiB);
    // A twelfth and 2 MiB may be free, and stay.
    EXPECT_LE(stats.resident_bytes,
              empty + stats.bytes * 9 / 8 + 2 * kMiB + kMiB / 2);
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_F(SetLimitsTest, GivesTheMemoryOfItsIndexesBack) {
  options_.shards = 4;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 200'000);
  const int64_t full = cache->stats().resident_bytes;
  ASSERT_TRUE(cache->SetLimits(100, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 100);
  EXPECT_LE(cache->stats().resident_bytes, full / 5);
}

// The bytes that memory may take follow the limit: else a Set would evict for
// memory what the limit allows.
TEST_F(SetLimitsTest, MemoryMayGrowWithTheLimit) {
  constexpr int64_t kMiB = 1 << 20;
  options_.max_bytes = kMiB;
  auto cache = New<int, std::string>();
  ASSERT_TRUE(cache->SetLimits(kUnlimited, 64 * kMiB).ok());
  int key = 0;
  while (cache->bytes() < 60 * kMiB && key < 100'000) {
    cache->Set(key++, std::string(1000, 'x'));
  }
  EXPECT_EQ(cache->stats().evictions, 0);
  EXPECT_GE(cache->bytes(), 60 * kMiB);
}

// And fall with it: entries of other sizes than before do not pile up.
TEST_F(SetLimitsTest, MemoryFollowsALowerLimit) {
  constexpr int64_t kMiB = 1 << 20;
  options_.max_bytes = 64 * kMiB;
  auto cache = New<int, std::string>();
  ASSERT_TRUE(cache->SetLimits(kUnlimited, 8 * kMiB).ok());
  int key = 0;
  for (const size_t size : {100, 10'000, 100, 3000, 50'000, 100}) {
    for (int64_t set = 0; set < 10 * kMiB; set += static_cast<int64_t>(size)) {
      cache->Set(key++, std::string(size, 'x'));
      if (key % 64 != 0) continue;
      ASSERT_LE(cache->stats().resident_bytes, 8 * kMiB * 112 / 100 + 8 * kMiB);
    }
  }
}

TEST_F(SetLimitsTest, ListenerMayChangeThemAgain) {
  int told = 0;
  options_.maintenance_budget = 4;
  auto cache =
      NewListening<int, int>([&](auto& of_listener, int, int, RemovalCause) {
        if (++told > 1) return;
        EXPECT_TRUE(of_listener.SetLimits(50, kUnlimited).ok());
        EXPECT_EQ(of_listener.limits().entries, 50);
      });
  Fill(cache.get(), 1, 100);
  ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 50) << "the last call's";
  EXPECT_EQ(cache->size(), 50);
  EXPECT_EQ(told, 50);
}

// Between the steps of a call.

constexpr char kStep[] = "limits: before a step makes room";

class SetLimitsRaceTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  std::unique_ptr<WeightCache> NewWeighing() {
    WeightCache::Hooks hooks;
    hooks.weigher = &Weigh;
    return New<int, int64_t>(std::move(hooks));
  }
  template <typename CacheType>
  static void ExpectWhole(CacheType* cache) {
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    const CacheStats stats = cache->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.evictions + stats.deletes +
                              stats.expirations + stats.replaced);
  }
};

// Else it would evict all there is, and then wait for ever.
TEST_P(SetLimitsRaceTest, SetThatNoLongerFitsIsRefused) {
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    options_.max_bytes = 100'000;
    auto cache = NewWeighing();
    for (int key = 0; key < 20; ++key) cache->Set(key, 100);
    cache->Set(1000, 7);
    At("store: between clock and lock",
       [&] { EXPECT_TRUE(cache->SetLimits(kUnlimited, 2000).ok()); });
    EXPECT_FALSE(cache->Set(1000, 5000));
    EXPECT_FALSE(cache->Contains(1000)) << "the old value goes, too";
    EXPECT_EQ(cache->stats().refused, 1);
    EXPECT_TRUE(cache->Set(1, 100));
    ExpectWhole(cache.get());
  }
}

TEST_P(SetLimitsRaceTest, CallThatGrowsEndsAnothersShrinking) {
  options_.maintenance_budget = 2;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 100);
  AtNth(kStep, 2, [&] { EXPECT_TRUE(cache->SetLimits(500, kUnlimited).ok()); });
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 500);
  EXPECT_GE(cache->size(), 90);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, CallThatShrinksFurtherIsTheOneThatHolds) {
  options_.maintenance_budget = 2;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 100);
  At(kStep, [&] {
    EXPECT_TRUE(cache->SetLimits(5, kUnlimited).ok());
    EXPECT_EQ(cache->limits().entries, 5);
    EXPECT_EQ(cache->size(), 5);
  });
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 5);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, LimitFollowsTheUseDown) {
  options_.maintenance_budget = 4;
  options_.shards = 1;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 100);
  std::vector<int64_t> limits;
  const std::function<void()> look = [&] {
    limits.push_back(cache->limits().entries);
    EXPECT_EQ(cache->size(), limits.back());
    EXPECT_EQ(cache->limits().bytes, kUnlimited);
    if (limits.size() < 20) At(kStep, look);
  };
  At(kStep, look);
  EXPECT_TRUE(cache->SetLimits(20, kUnlimited).ok());
  EXPECT_EQ(limits.size(), 20u);
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_EQ(limits[i], 100 - 4 * static_cast<int64_t>(i));
  }
}

// Promise: Hard limits
// It finds the room that its own eviction makes, not that of the shrinking.
TEST_P(SetLimitsRaceTest, NoSetPaysForTheShrinking) {
  options_.maintenance_budget = 1;
  options_.shards = 1;
  options_.max_entries = 100;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 100);
  int set = 0;
  const std::function<void()> set_one = [&] {
    const int64_t before = cache->stats().evictions;
    EXPECT_TRUE(cache->Set(1000 + set, 1));
    EXPECT_LE(cache->stats().evictions, before + 1);
    EXPECT_LE(cache->size(), cache->limits().entries);
    if (++set < 50) At(kStep, set_one);
  };
  At(kStep, set_one);
  EXPECT_TRUE(cache->SetLimits(20, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 20);
  EXPECT_EQ(set, 50);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, ClearDelAndSetMayComeBetweenAnySteps) {
  for (int at = 0; at < 12; ++at) {
    options_.maintenance_budget = 3;
    options_.shards = 4;
    auto cache = New<int, int>();
    Fill(cache.get(), 1, 60);
    AtNth(kStep, at + 1, [&] {
      switch (at % 3) {
        case 0:
          cache->Clear();
          break;
        case 1:
          for (int key = 0; key < 60; ++key) cache->Del(key);
          break;
        default:
          Fill(cache.get(), 1, 200);
      }
    });
    EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
    EXPECT_EQ(cache->limits().entries, 10);
    EXPECT_LE(cache->size(), 10);
    ExpectWhole(cache.get());
  }
}

// All there is to take is in the hand of a Set, which then finds that the limit
// is too low for it.
TEST_P(SetLimitsRaceTest, ShrinkAndSetThatHoldEachOthersRoomBothEnd) {
  options_.shards = 1;
  options_.maintenance_budget = 1;
  options_.max_bytes = 10 * (100 + OverheadOfAnEntry<int, int64_t>());
  auto cache = NewWeighing();
  for (int key = 0; key < 10; ++key) cache->Set(key, 100);
  PausedCall set("store: between clock and lock", 8,
                 [&] { EXPECT_FALSE(cache->Set(100, 1200)); });
  // After two steps the limit is below what the entry takes.
  AtNth(kStep, 3, [&] { set.LetGo(); });
  EXPECT_TRUE(cache->SetLimits(kUnlimited, 500).ok());
  EXPECT_LE(cache->bytes(), 500);
  set.GoOn();
  EXPECT_EQ(cache->limits().bytes, 500);
  ExpectWhole(cache.get());
}

TEST_P(SetLimitsRaceTest, UseIsShownBetweenTheStepsOfGrowth) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 10);
  At("budget: between the limit and its room",
     [&] { EXPECT_GE(cache->size(), 10); });
  EXPECT_TRUE(cache->SetLimits(30, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 10);
}

INSTANTIATE_TEST_SUITE_P(Policies, SetLimitsRaceTest, testing::EachPolicy());

// The memory of a cache follows max_bytes through any history of sizes, and
// comes back: by what the cache itself says is resident, which a benchmark
// compares with the process's.

constexpr int64_t kMiB = 1 << 20;

using StringCache = Cache<uint64_t, std::string>;

// A value that tells its key.
class Values {
 public:
  static constexpr size_t kMost = 1 << 20;

  std::string_view Of(uint64_t key, size_t size) const {
    return std::string_view(bytes_).substr(key % 251, size);
  }
  bool IsOf(uint64_t key, std::string_view value) const {
    return value == Of(key, value.size());
  }

 private:
  static std::string Bytes() {
    std::string bytes(kMost + 251, '\0');
    std::mt19937_64 random(1);
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  const std::string bytes_ = Bytes();
};

class CacheMemoryTest : public CacheEnvironment {
 protected:
  static constexpr int64_t kMaxBytes = 20 * kMiB;
  static constexpr int64_t kMostResident = kMaxBytes / 100 * 112 + 8 * kMiB;

  void SetUp() override {
    options_.max_bytes = kMaxBytes;
    options_.reaper = nullptr;
    options_.shards = 4;
  }

  // Sets values of these sizes until so many bytes were Set. `maintains` after
  // each thousand.
  template <typename CacheType>
  void Fill(CacheType* cache, size_t least, size_t most, int64_t bytes,
            bool maintains = false) {
    while (bytes > 0) {
      const size_t size = least + random_() % (most - least + 1);
      cache->Set(next_key_, values_.Of(next_key_, size));
      bytes -= static_cast<int64_t>(size) + 64;
      ++next_key_;
      if (next_key_ % 64 == 0) {
        const CacheStats stats = cache->stats();
        ASSERT_LE(stats.resident_bytes, kMostResident);
        ASSERT_GE(stats.resident_bytes, stats.bytes / 2);
      }
      if (maintains && next_key_ % 1000 == 0) cache->RunMaintenance(10'000);
    }
  }

  // All that is there is right.
  template <typename CacheType>
  void ExpectValid(CacheType* cache) {
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    int64_t found = 0;
    for (uint64_t key = 0; key < next_key_; ++key) {
      cache->Visit(key, [&](std::string_view value) {
        ASSERT_TRUE(values_.IsOf(key, value)) << key;
        ++found;
      });
    }
    EXPECT_EQ(found, cache->size());
  }

  const Values values_{};
  std::mt19937_64 random_{1};
  uint64_t next_key_ = 0;
};

// Promise: Hard limits
TEST_F(CacheMemoryTest, FollowsTheLimitThroughSizes) {
  for (const bool maintains : {false, true}) {
    const auto cache = New<uint64_t, std::string>();
    const auto fill = [&](size_t least, size_t most) {
      Fill(cache.get(), least, most, kMaxBytes * 3 / 2, maintains);
    };
    fill(128, 256);
    fill(8 << 10, 16 << 10);
    ExpectValid(cache.get());
    fill(128, 256);
    fill(64 << 10, 512 << 10);
    ExpectValid(cache.get());
    fill(128, 256);
    ExpectValid(cache.get());
    // Nearly all of the limit serves.
    EXPECT_GT(cache->bytes(), kMaxBytes / 100 * 80);
  }
}

// Which entries moving reaches first depends on the hash.
struct FixedHash {
  size_t operator()(uint64_t key) const {
    key = (key + seed) * 0x9e3779b97f4a7c15;
    return (key ^ key >> 32) * 0xd6e8feb86659fd93;
  }
  static inline uint64_t seed = 0;
};

// Promise: Hard limits
TEST_F(CacheMemoryTest, FollowsTheLimitWhereAFewSmallEntriesStay) {
  for (FixedHash::seed = 0; FixedHash::seed < 3; ++FixedHash::seed) {
    const auto cache = New<uint64_t, std::string, FixedHash>();
    const uint64_t first = next_key_;
    Fill(cache.get(), 64, 128, kMaxBytes);
    const uint64_t last = next_key_;
    for (int i = 0; i < 24; ++i) {
      for (uint64_t key = first; key < last; key += 64) cache->Get(key);
      Fill(cache.get(), 16 << 10, 16 << 10, kMaxBytes / 8);
    }
    ExpectValid(cache.get());
    int64_t kept = 0;
    for (uint64_t key = first; key < last; key += 64) {
      kept += cache->Contains(key);
    }
    // Some are evicted where moving could not keep up; were it most of them,
    // this would be another history.
    EXPECT_GT(kept, static_cast<int64_t>((last - first) / 64 / 2));
  }
}

// Promise: Hard limits
TEST_F(CacheMemoryTest, PinnedEntriesStayWhereTheyAre) {
  const auto cache = New<uint64_t, std::string>();
  Fill(cache.get(), 64, 128, kMaxBytes / 2);
  std::vector<std::pair<const char*, StringCache::Handle>> pinned;
  for (uint64_t key = 0; key < next_key_; key += 200) {
    auto handle = cache->Find(key);
    ASSERT_TRUE(handle);
    pinned.emplace_back(handle->data(), std::move(handle));
  }
  Fill(cache.get(), 8 << 10, 16 << 10, 3 * kMaxBytes, /*maintains=*/true);
  for (const auto& [data, handle] : pinned) {
    EXPECT_EQ(handle->data(), data);
    EXPECT_TRUE(values_.IsOf(handle.key(), *handle));
  }
  ExpectValid(cache.get());
}

// What was deleted or replaced is no memory that evicting others gives back.
TEST_F(CacheMemoryTest, WhatOnlyHandlesKeepEvictsNothing) {
  constexpr uint64_t kEntries = 4'000;  // 16 MiB.
  const auto cache = New<uint64_t, std::string>();
  const std::string_view value = values_.Of(0, 4'000);
  std::vector<StringCache::Handle> handles;
  for (uint64_t key = 0; key < kEntries; ++key) {
    cache->Set(key, value);
    handles.push_back(cache->Find(key));
    ASSERT_TRUE(handles.back());
  }
  for (uint64_t key = 0; key < kEntries; key += 2) cache->Del(key);
  for (uint64_t key = 0; key < kEntries; ++key) cache->Set(key, value);
  EXPECT_GT(cache->stats().resident_bytes, 2 * int64_t{kEntries} * 4'000);
  EXPECT_EQ(cache->size(), kEntries);
  EXPECT_EQ(cache->stats().evictions, 0);
  for (const auto& handle : handles) EXPECT_EQ(*handle, value);
}

template <typename V>
class CacheMemoryOfTypesTest : public CacheEnvironment {};

using MemoryTypes =
    ::testing::Types<uint64_t, std::string, std::shared_ptr<int>>;
TYPED_TEST_SUITE(CacheMemoryOfTypesTest, MemoryTypes);

// Promise: Memory comes back by itself
TYPED_TEST(CacheMemoryOfTypesTest, ComesBackWhenAllHasExpired) {
  this->options_.max_entries = 200'000;
  this->options_.default_ttl = absl::Seconds(1);
  this->options_.reaper = nullptr;
  const auto cache = this->template New<uint64_t, TypeParam>();
  const int64_t empty = cache->stats().resident_bytes;
  for (const bool clears : {false, true}) {
    for (uint64_t key = 0; key < 200'000; ++key) cache->Set(key, TypeParam());
    const int64_t peak = cache->stats().resident_bytes;
    EXPECT_GT(peak, 200'000 * 56);
    if (clears) {
      cache->Clear();
    } else {
      this->clock_.RunFor(absl::Seconds(2));
    }
    while (cache->RunMaintenance(10'000) == 10'000) {
    }
    EXPECT_EQ(cache->size(), 0);
    EXPECT_LE(cache->stats().resident_bytes, empty + peak / 10 + 4 * kMiB);
  }
}

}  // namespace
}  // namespace wheelcache
