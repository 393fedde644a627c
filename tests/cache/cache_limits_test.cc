// SetLimits: what it does to the entries, to the limits and to the memory.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Told = Removal<int, int>;
using IntCache = Cache<int, int>;

class SetLimitsTest : public CacheEnvironment {
 protected:
  static Told Evicted(int key) {
    return {key, key, RemovalCause::kEvicted, {}};
  }
  static void Fill(IntCache* cache, int first, int last) {
    for (int key = first; key <= last; ++key) cache->Set(key, key);
  }
  // Whose weigher says what the value is.
  std::unique_ptr<IntCache> NewWeighing() {
    IntCache::Hooks hooks;
    hooks.weigher = [](int, int value) { return static_cast<uint64_t>(value); };
    return New<int, int>(std::move(hooks));
  }
};

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
    EXPECT_EQ(entries, internal::Validate(options, /*has_reload=*/false));
    options.max_entries = 100;
    options.max_bytes = bad;
    const absl::Status bytes = cache->SetLimits(100, bad);
    EXPECT_EQ(bytes, internal::Validate(options, /*has_reload=*/false));
    EXPECT_THAT(std::string(bytes.message()),
                AllOf(HasSubstr("\"users\""), HasSubstr("max_bytes"),
                      HasSubstr("must be at least 1")));
  }
  EXPECT_EQ(cache->size(), 10);
  EXPECT_EQ(cache->limits().entries, kUnlimited);
}

TEST_F(SetLimitsTest, GrowthIsThereAtOnce) {
  options_.max_entries = 2;
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  Fill(cache.get(), 1, 2);
  ASSERT_TRUE(cache->SetLimits(4, kUnlimited).ok());
  Fill(cache.get(), 3, 4);
  EXPECT_THAT(log.Take(), IsEmpty());
  EXPECT_EQ(cache->size(), 4);
  cache->Set(5, 5);
  EXPECT_THAT(log.Take(), ElementsAre(Evicted(1)));
}

TEST_F(SetLimitsTest, EvictsTheLeastRecentlyUsedAndTellsTheListener) {
  RemovalLog<int, int> log;
  options_.max_entries = 100;
  for (const int64_t budget : {1, 3, 64}) {
    options_.maintenance_budget = budget;
    auto cache = New<int, int>(log.hooks());
    Fill(cache.get(), 1, 6);
    cache->Get(1);
    cache->Get(3);
    ASSERT_TRUE(cache->SetLimits(3, kUnlimited).ok());
    EXPECT_THAT(log.Take(), ElementsAre(Evicted(2), Evicted(4), Evicted(5)));
    EXPECT_EQ(cache->size(), 3);
    EXPECT_EQ(cache->limits().entries, 3);
    EXPECT_EQ(cache->stats().evictions, 3);
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    cache->Set(7, 7);
    EXPECT_THAT(log.Take(), ElementsAre(Evicted(6)));
  }
}

TEST_F(SetLimitsTest, RemovesTheExpiredFirst) {
  RemovalLog<int, int> log;
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    auto cache = New<int, int>(log.hooks());
    Fill(cache.get(), 1, 10);
    for (int key = 11; key <= 20; ++key) {
      cache->Set(key, key, absl::Seconds(1));
    }
    clock_.Advance(absl::Seconds(2));
    ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
    for (const Told& told : log.Take()) {
      EXPECT_EQ(told.cause, RemovalCause::kExpired);
    }
    for (int key = 1; key <= 10; ++key) EXPECT_TRUE(cache->Contains(key));
  }
}

TEST_F(SetLimitsTest, ShrinkThatHasRoomRemovesNothing) {
  RemovalLog<int, int> log;
  options_.shards = 1;
  auto cache = New<int, int>(log.hooks());
  Fill(cache.get(), 1, 10);
  ASSERT_TRUE(cache->SetLimits(10, cache->bytes()).ok());
  EXPECT_THAT(log.Take(), IsEmpty());
  EXPECT_EQ(cache->size(), 10);
  cache->Set(11, 11);
  EXPECT_THAT(log.Take(), ElementsAre(Evicted(1)));
}

TEST_F(SetLimitsTest, OneLimitMayGrowWhileTheOtherShrinks) {
  options_.max_entries = 10;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 10);
  const int64_t each = cache->bytes() / 10;
  ASSERT_TRUE(cache->SetLimits(20, 5 * each).ok());
  EXPECT_EQ(cache->size(), 5);
  ASSERT_TRUE(cache->SetLimits(3, 100 * each).ok());
  EXPECT_EQ(cache->size(), 3);
  Fill(cache.get(), 11, 30);
  EXPECT_EQ(cache->size(), 3);
}

TEST_F(SetLimitsTest, ShrinksToTheLeastAndBack) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<int, int>();
    for (int round = 0; round < 3; ++round) {
      Fill(cache.get(), 1, 5000);
      EXPECT_EQ(cache->size(), 5000);
      ASSERT_TRUE(cache->SetLimits(1, kUnlimited).ok());
      EXPECT_EQ(cache->size(), 1);
      EXPECT_TRUE(cache->Set(6000, 1));
      EXPECT_EQ(cache->size(), 1);
      EXPECT_EQ(cache->Get(6000), 1);
      ASSERT_TRUE(cache->SetLimits(kUnlimited, kUnlimited).ok());
      Fill(cache.get(), 1, 5000);
      ASSERT_TRUE(cache->SetLimits(kUnlimited, 1).ok());
      EXPECT_EQ(cache->size(), 0);
      EXPECT_EQ(cache->bytes(), 0);
      EXPECT_FALSE(cache->Set(1, 1)) << "is larger than the limit";
      ASSERT_TRUE(cache->SetLimits(kUnlimited, kUnlimited).ok());
      EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
    }
  }
}

TEST_F(SetLimitsTest, EntryLargerThanTheNewLimitGoesAndIsRefused) {
  RemovalLog<int, std::string> log;
  options_.shards = 1;
  auto cache = New<int, std::string>(log.hooks());
  cache->Set(1, "small");
  const int64_t small = cache->bytes();
  cache->Set(2, std::string(5000, 'x'));
  ASSERT_TRUE(cache->SetLimits(100, 2 * small).ok());
  EXPECT_EQ(cache->size(), 0) << "the large one was used last";
  log.Take();
  cache->Set(3, "small");
  EXPECT_FALSE(cache->Set(3, std::string(5000, 'x')));
  EXPECT_FALSE(cache->Contains(3)) << "the old value goes, too";
  EXPECT_THAT(log.Take(), ElementsAre(Removal<int, std::string>{
                              3, "small", RemovalCause::kReplaced, {}}));
  ASSERT_TRUE(cache->SetLimits(100, 10'000).ok());
  EXPECT_TRUE(cache->Set(3, std::string(5000, 'x')));
}

TEST_F(SetLimitsTest, CountsWhatTheWeigherSays) {
  options_.max_bytes = 100'000;
  auto cache = NewWeighing();
  const int64_t overhead = OverheadOfAnEntry<int, int>();
  for (int key = 0; key < 10; ++key) cache->Set(key, 1000);
  ASSERT_TRUE(cache->SetLimits(kUnlimited, 3 * (1000 + overhead)).ok());
  EXPECT_EQ(cache->size(), 3);
  EXPECT_EQ(cache->bytes(), 3 * (1000 + overhead));
  EXPECT_FALSE(cache->Set(20, static_cast<int>(3 * (1000 + overhead))));
  EXPECT_TRUE(
      cache->Set(20, static_cast<int>(3 * (1000 + overhead) - overhead)));
  EXPECT_EQ(cache->size(), 1);
  ASSERT_TRUE(cache->SetLimits(kUnlimited, 1'000'000).ok());
  for (int key = 0; key < 10; ++key) cache->Set(key, 10'000);
  EXPECT_EQ(cache->size(), 11);
}

// Far beyond what index and arena were made for.
TEST_F(SetLimitsTest, GrowsFarBeyondTheFirstLimits) {
  for (const bool weighs : {false, true}) {
    options_.max_entries = 10;
    auto cache = weighs ? NewWeighing() : New<int, int>();
    Fill(cache.get(), 1, 100);
    EXPECT_EQ(cache->size(), 10);
    ASSERT_TRUE(cache->SetLimits(200'000, kUnlimited).ok());
    Fill(cache.get(), 1, 250'000);
    EXPECT_EQ(cache->size(), 200'000);
    int64_t found = 0;
    for (int key = 1; key <= 250'000; ++key) found += cache->Contains(key);
    EXPECT_EQ(found, 200'000);
    EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  }
}

TEST_F(SetLimitsTest, ManyShardsKeepWhatWasUsedLast) {
  options_.shards = 16;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 20'000);
  ASSERT_TRUE(cache->SetLimits(10'000, kUnlimited).ok());
  int64_t late = 0;
  for (int key = 12'001; key <= 20'000; ++key) late += cache->Contains(key);
  EXPECT_GT(late, 7'900) << "of 8000 that are among the 10000 last";
}

// Of a cache that has never evicted.
TEST_F(SetLimitsTest, FewVictimsComeFromTheShardWhoseEntriesAreOldest) {
  options_.shards = 16;
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 16'000);
  ASSERT_TRUE(cache->SetLimits(15'900, kUnlimited).ok());
  int64_t late = 0;
  for (int key = 4'001; key <= 16'000; ++key) late += cache->Contains(key);
  EXPECT_EQ(late, 12'000);
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
  IntCache* of_listener = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    EXPECT_EQ(of_listener->size(), of_listener->limits().entries);
  };
  options_.maintenance_budget = 4;
  auto cache = New<int, int>(std::move(hooks));
  of_listener = cache.get();
  Fill(cache.get(), 1, 100);
  ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
}

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
    EXPECT_LE(stats.resident_bytes, empty + stats.bytes * 5 / 4 + kMiB);
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
    for (int64_t set = 0; set < 20 * kMiB; set += static_cast<int64_t>(size)) {
      cache->Set(key++, std::string(size, 'x'));
      ASSERT_LE(cache->stats().resident_bytes, 8 * kMiB * 112 / 100 + 8 * kMiB);
    }
  }
}

TEST_F(SetLimitsTest, ListenerMayChangeThemAgain) {
  IntCache* of_listener = nullptr;
  int told = 0;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    ++told;
    if (told == 1) {
      EXPECT_TRUE(of_listener->SetLimits(50, kUnlimited).ok());
      EXPECT_EQ(of_listener->limits().entries, 50);
    }
  };
  options_.maintenance_budget = 4;
  auto cache = New<int, int>(std::move(hooks));
  of_listener = cache.get();
  Fill(cache.get(), 1, 100);
  ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(cache->limits().entries, 50) << "the last call's";
  EXPECT_EQ(cache->size(), 50);
  EXPECT_EQ(told, 50);
}

TEST_F(SetLimitsTest, ListenerMaySetWithinTheLimits) {
  IntCache* of_listener = nullptr;
  int64_t most = 0;
  IntCache::Hooks hooks;
  int next = 1000;
  hooks.on_removal = [&](int, int, RemovalCause) {
    EXPECT_LE(of_listener->size(), of_listener->limits().entries);
    if (next < 1200) of_listener->Set(next++, 1);
    most = of_listener->size();
  };
  options_.maintenance_budget = 4;
  auto cache = New<int, int>(std::move(hooks));
  of_listener = cache.get();
  Fill(cache.get(), 1, 500);
  ASSERT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_LE(cache->size(), 10);
  EXPECT_LE(most, 500);
}

TEST_F(SetLimitsTest, LoaderAndWeigherMayChangeThem) {
  IntCache* of_hooks = nullptr;
  IntCache::Hooks hooks;
  bool shrinks = false;
  hooks.weigher = [&](int, int value) {
    if (shrinks) {
      shrinks = false;
      EXPECT_TRUE(of_hooks->SetLimits(5, kUnlimited).ok());
    }
    return static_cast<uint64_t>(value);
  };
  auto cache = New<int, int>(std::move(hooks));
  of_hooks = cache.get();
  Fill(cache.get(), 1, 100);
  const absl::StatusOr<int> got =
      cache->GetOrLoad(200, [&]() -> absl::StatusOr<int> {
        EXPECT_TRUE(cache->SetLimits(20, kUnlimited).ok());
        return 3;
      });
  EXPECT_EQ(*got, 3);
  EXPECT_EQ(cache->size(), 20);
  EXPECT_TRUE(cache->Contains(200));
  shrinks = true;
  cache->Set(300, 3);
  EXPECT_EQ(cache->size(), 5);
  EXPECT_TRUE(cache->Contains(300));
}

// What only a handle keeps is not in the cache.
TEST_F(SetLimitsTest, HandlesKeepWhatWasEvicted) {
  auto cache = New<int, int>();
  Fill(cache.get(), 1, 100);
  std::vector<IntCache::Handle> handles;
  for (int key = 1; key <= 100; ++key) handles.push_back(cache->Find(key));
  ASSERT_TRUE(cache->SetLimits(1, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 1);
  for (int key = 1; key <= 100; ++key) EXPECT_EQ(*handles[key - 1], key);
}

}  // namespace
}  // namespace wheelcache
