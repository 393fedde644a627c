// The room that conditional calls take and leave: who is evicted for a winner,
// what becomes of a value that is refused, and that a loser takes nothing.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_conditional_environment.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using CacheConditionalRoomTest = CacheConditionalEnvironment;

TEST_F(CacheConditionalRoomTest, RefusedValueTakesTheOneThatMatchesAlong) {
  const std::string large(20'000, 'x');
  {
    const StringHandle old = SetAndFind(1, "old");
    EXPECT_EQ(cache_->SetIf(1, old, large), Put::kRefused);
    EXPECT_THAT(log_.Take(),
                ElementsAre(Left(1, "old", RemovalCause::kReplaced)));
  }
  for (const int seconds : {0, -1}) {
    const StringHandle old = SetAndFind(1, "old");
    EXPECT_EQ(cache_->SetIf(1, old, "new", absl::Seconds(seconds)),
              Put::kRefused);
    EXPECT_THAT(log_.Take(),
                ElementsAre(Left(1, "old", RemovalCause::kDeleted)));
  }
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(cache_->bytes(), 0);
}

TEST_F(CacheConditionalRoomTest, RefusedValueLeavesOneThatDoesNotMatch) {
  const std::string large(20'000, 'x');
  EXPECT_EQ(cache_->SetIf(1, {}, large), Put::kRefused);
  EXPECT_EQ(cache_->SetIf(1, {}, "brief", absl::ZeroDuration()), Put::kRefused);
  cache_->Set(1, "old");
  EXPECT_EQ(cache_->SetIf(1, {}, large), Put::kLost);
  EXPECT_EQ(cache_->SetIf(1, {}, "brief", absl::ZeroDuration()), Put::kLost);
  EXPECT_EQ(cache_->Get(1), "old");
  EXPECT_THAT(log_.Take(), IsEmpty());
}

TEST_F(CacheConditionalRoomTest, RoomIsThatOfTheNewValue) {
  cache_->Set(2, std::string(500, 'x'));
  const int64_t expected = cache_->bytes();
  StringHandle handle = SetAndFind(1, "short");
  for (const size_t size : {4000, 10, 500}) {
    EXPECT_EQ(cache_->SetIf(1, handle, std::string(size, 'x')), Put::kStored);
    handle = cache_->Find(1);
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }
  EXPECT_EQ(cache_->bytes(), 2 * expected);
  EXPECT_TRUE(cache_->DelIf(1, handle));
  EXPECT_EQ(cache_->bytes(), expected);
  EXPECT_EQ(*cache_->Take(2), std::string(500, 'x'));
  EXPECT_EQ(cache_->bytes(), 0);
}

TEST_F(CacheConditionalRoomTest, WinnerEvictsOthersAndNeverTheValueItReplaces) {
  const StringHandle old = SetAndFind(1, "old");
  for (int key = 2; cache_->stats().evictions == 0; ++key) {
    (void)cache_->Get(1);
    cache_->Set(key, "other");
  }
  for (int key = 2; key < 20; ++key) (void)cache_->Get(key);  // 1 is the last.
  const int64_t evictions = cache_->stats().evictions;
  (void)log_.Take();
  EXPECT_EQ(cache_->SetIf(1, old, std::string(5000, 'x')), Put::kStored);
  EXPECT_GT(cache_->stats().evictions, evictions);
  EXPECT_EQ(cache_->stats().replaced, 1);
  EXPECT_TRUE(cache_->Contains(1));
}

TEST_F(CacheConditionalRoomTest, LoserEvictsNobody) {
  const StringHandle old = SetAndFind(1, "old");
  cache_->Set(1, "newer");
  for (int key = 2; cache_->stats().evictions == 0; ++key) {
    (void)cache_->Get(1);
    cache_->Set(key, "other");
  }
  (void)log_.Take();
  EXPECT_EQ(cache_->SetIf(1, old, std::string(5000, 'x')), Put::kLost);
  EXPECT_EQ(cache_->SetIf(1, {}, std::string(5000, 'x')), Put::kLost);
  EXPECT_EQ(cache_->SetIf(100'000, old, std::string(5000, 'x')), Put::kLost);
  EXPECT_THAT(log_.Take(), IsEmpty());
}

// Where a cache evicts for memory, not for room: what handles pin is not moved,
// and what comes later does not fit between it.
TEST_F(CacheConditionalRoomTest, LoserEvictsNobodyWhereMemoryIsShort) {
  options_.max_bytes = 32 << 20;
  cache_ = New<int, std::string>();
  int key = 2;
  while (cache_->stats().evictions == 0) {
    cache_->Set(++key, std::string(1000, 'x'));
  }
  std::vector<StringHandle> pinned;
  for (int i = 0; i <= key; ++i) {
    if (i % 3 == 0) {
      pinned.push_back(cache_->Find(i));
    } else {
      cache_->Del(i);
    }
  }
  const StringHandle old = SetAndFind(1, "old");
  cache_->Set(1, "newer");
  const std::string large(10'000, 'x');
  int64_t evictions = cache_->stats().evictions;
  int evicting_sets = 0;
  for (int i = 0; i < 10'000 && evicting_sets < 10; ++i) {
    ASSERT_EQ(cache_->SetIf(1, old, large), Put::kLost);
    ASSERT_EQ(cache_->stats().evictions, evictions);
    (void)cache_->Get(1);
    cache_->Set(++key, large);
    if (std::exchange(evictions, cache_->stats().evictions) != evictions) {
      ++evicting_sets;
    }
  }
  EXPECT_EQ(evicting_sets, 10);
  EXPECT_LT(cache_->bytes(), options_.max_bytes * 3 / 4);
}

TEST_F(CacheConditionalRoomTest, ValueOfALoserIsDestroyedAtOnce) {
  auto cache = New<int, std::shared_ptr<int>>();
  const auto value = std::make_shared<int>(7);
  cache->Set(1, nullptr);
  EXPECT_EQ(cache->SetIf(1, {}, value), Put::kLost);
  EXPECT_EQ(cache->SetIf(2, {}, value, absl::ZeroDuration()), Put::kRefused);
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(cache->SetIf(1, cache->Find(1), value), Put::kStored);
  EXPECT_EQ(value.use_count(), 2);
  (void)cache->Take(1);
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace wheelcache
