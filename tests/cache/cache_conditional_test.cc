// SetIf, DelIf and Take: who wins, what it gets, and what a loser leaves alone.
// For the room that it takes see cache_conditional_room_test.cc, for Update
// cache_update_test.cc, for races cache_conditional_race_test.cc.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_conditional_environment.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using CacheConditionalTest = CacheConditionalEnvironment;

TEST_F(CacheConditionalTest, EmptyHandleStoresOnlyWhereThereIsNoValue) {
  EXPECT_EQ(cache_->SetIf(1, {}, "first"), Put::kStored);
  EXPECT_EQ(cache_->SetIf(1, {}, "second"), Put::kLost);
  EXPECT_EQ(cache_->Get(1), "first");
  cache_->Del(1);
  EXPECT_EQ(cache_->SetIf(1, {}, "third"), Put::kStored);
  EXPECT_EQ(cache_->Get(1), "third");
  EXPECT_EQ(cache_->stats().sets, 2);
}

TEST_F(CacheConditionalTest, StoresInThePlaceOfTheValueThatWasRead) {
  const StringHandle old = SetAndFind(1, "old");
  EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
  EXPECT_EQ(cache_->Get(1), "new");
  EXPECT_EQ(*old, "old");
  EXPECT_THAT(log_.Take(),
              ElementsAre(Left(1, "old", RemovalCause::kReplaced)));
  EXPECT_EQ(cache_->SetIf(1, old, "newer"), Put::kLost);
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.sets, 2);
  EXPECT_EQ(stats.replaced, 1);
  EXPECT_EQ(stats.entries, 1);
}

// Has a value leave its key in one of the ways there are.
class LosesTest : public CacheConditionalTest {
 protected:
  // Whatever came in the place of the value stays.
  void ExpectThatAllLoseAfter(const std::function<void()>& event) {
    const StringHandle old = SetAndFind(1, "old", absl::Seconds(10));
    event();
    (void)log_.Take();
    const CacheStats before = cache_->stats();
    const std::optional<std::string> value = cache_->Peek(1);
    EXPECT_EQ(cache_->SetIf(1, old, "mine"), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, "mine", absl::Seconds(1)), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, "mine", absl::ZeroDuration()), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, std::string(20'000, 'x')), Put::kLost);
    EXPECT_FALSE(cache_->DelIf(1, old));
    EXPECT_EQ(cache_->Peek(1), value);
    EXPECT_EQ(cache_->stats().sets, before.sets);
    EXPECT_EQ(cache_->stats().deletes, before.deletes);
    for (const auto& left : log_.Take()) {
      EXPECT_EQ(left.cause, RemovalCause::kExpired);
    }
    EXPECT_EQ(*old, "old");
  }
};

TEST_F(LosesTest, ToAnEqualValue) {
  ExpectThatAllLoseAfter([&] { cache_->Set(1, "old"); });
}

TEST_F(LosesTest, ToAValueThatWasDeletedAndSetAgain) {
  ExpectThatAllLoseAfter([&] {
    for (int i = 0; i < 100; ++i) {  // Blocks are used again.
      cache_->Del(1);
      cache_->RunMaintenance();
      cache_->Set(1, "old");
    }
  });
}

TEST_F(LosesTest, ToADel) {
  ExpectThatAllLoseAfter([&] { cache_->Del(1); });
}

TEST_F(LosesTest, ToAClear) {
  ExpectThatAllLoseAfter([&] { cache_->Clear(); });
}

TEST_F(LosesTest, ToAnEviction) {
  ExpectThatAllLoseAfter([&] {
    for (int key = 2; cache_->Contains(1); ++key) cache_->Set(key, "other");
  });
}

TEST_F(LosesTest, ToItsDeadline) {
  ExpectThatAllLoseAfter([&] { clock_.Advance(absl::Seconds(10)); });
}

TEST_F(LosesTest, ToAnotherWithTheSameHandle) {
  ExpectThatAllLoseAfter([&] {
    const StringHandle again = cache_->Find(1);
    EXPECT_EQ(cache_->SetIf(1, again, "faster"), Put::kStored);
  });
}

TEST_F(CacheConditionalTest, HandleMatchesToTheLastNanosecond) {
  const StringHandle old = SetAndFind(1, "old", absl::Seconds(10));
  clock_.Advance(absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(cache_->SetIf(1, {}, "none"), Put::kLost);
  EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
  EXPECT_EQ(cache_->Get(1), "new");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
}

TEST_F(CacheConditionalTest, ExpiredCountsAsAbsentAndIsToldAsExpired) {
  const StringHandle old = SetAndFind(1, "old", absl::Microseconds(10));
  clock_.Advance(absl::Microseconds(10));  // Not yet due in the wheel.
  EXPECT_EQ(cache_->SetIf(1, old, "lost"), Put::kLost);
  EXPECT_EQ(cache_->SetIf(1, {}, "new"), Put::kStored);
  EXPECT_EQ(cache_->Get(1), "new");
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, "old", RemovalCause::kExpired)));
  EXPECT_EQ(cache_->stats().expirations, 1);
}

TEST_F(CacheConditionalTest, TouchLeavesTheHandleAsItIs) {
  const StringHandle old = SetAndFind(1, "old", absl::Seconds(1));
  cache_->Touch(1, absl::Hours(1));
  EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Hours(1));
  const StringHandle next = cache_->Find(1);
  cache_->Touch(1, absl::Seconds(3));
  EXPECT_TRUE(cache_->DelIf(1, next));
}

TEST_F(CacheConditionalTest, HandleOfAnotherKeyLoses) {
  cache_->Set(1, "one");
  const StringHandle other = SetAndFind(2, "two");
  EXPECT_EQ(cache_->SetIf(1, other, "mine"), Put::kLost);
  EXPECT_EQ(cache_->SetIf(3, other, "mine"), Put::kLost);
  EXPECT_FALSE(cache_->DelIf(1, other));
  EXPECT_EQ(cache_->Get(1), "one");
  EXPECT_EQ(cache_->Get(2), "two");
  EXPECT_EQ(cache_->size(), 2);
}

TEST_F(CacheConditionalTest, HandleThatWasMovedFromIsEmpty) {
  StringHandle old = SetAndFind(1, "old");
  const StringHandle moved = std::move(old);
  // NOLINTNEXTLINE(bugprone-use-after-move)
  EXPECT_EQ(cache_->SetIf(1, old, "mine"), Put::kLost);
  EXPECT_EQ(cache_->SetIf(2, old, "mine"), Put::kStored);
  EXPECT_EQ(cache_->SetIf(1, moved, "mine"), Put::kStored);
}

using CacheConditionalDeathTest = CacheConditionalTest;

// The entries of both lie at the same place of their arenas.
TEST_F(CacheConditionalDeathTest, HandleOfAnotherCacheIsAnErrorAndLoses) {
  auto other = New<int, std::string>();
  other->Set(1, "other");
  cache_->Set(1, "mine");
  const StringHandle foreign = other->Find(1);
#ifdef NDEBUG
  EXPECT_EQ(cache_->SetIf(1, foreign, "new"), Put::kLost);
  EXPECT_FALSE(cache_->DelIf(1, foreign));
  EXPECT_EQ(cache_->Get(1), "mine");
#else
  EXPECT_DEATH(cache_->SetIf(1, foreign, "new"), "a handle of another cache");
  EXPECT_DEATH(cache_->DelIf(1, foreign), "a handle of another cache");
#endif
}

class KeepsDeadlineTest : public CacheConditionalTest {
 protected:
  // With jitter, of which the deadline that is kept must get nothing.
  KeepsDeadlineTest() {
    options_.jitter = 0.05;
    cache_ = New<int, std::string>();
  }
};

TEST_F(KeepsDeadlineTest, ToTheNanosecondWithoutATtl) {
  for (int i = 0; i < 10; ++i) {
    StringHandle handle = SetAndFind(1, "value", absl::Hours(1));
    const absl::Duration before = handle.TimeToLive();
    for (int round = 1; round < 10; ++round) {
      ASSERT_EQ(cache_->SetIf(1, handle, "value"), Put::kStored);
      handle = cache_->Find(1);
      EXPECT_EQ(handle.TimeToLive(),
                before - round * absl::Seconds(1) + absl::Seconds(1));
      EXPECT_EQ(handle.Age(), absl::ZeroDuration());
      clock_.Advance(absl::Seconds(1));
    }
  }
}

TEST_F(KeepsDeadlineTest, WhichMayBeNone) {
  const StringHandle old = SetAndFind(1, "value");
  EXPECT_EQ(cache_->SetIf(1, old, "value"), Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::InfiniteDuration());
}

TEST_F(KeepsDeadlineTest, OrGetsTheOneThatIsGivenVaried) {
  const StringHandle old = SetAndFind(1, "value", absl::Seconds(1));
  EXPECT_EQ(cache_->SetIf(1, old, "value", absl::Hours(100)), Put::kStored);
  EXPECT_NE(cache_->TimeToLive(1), absl::Hours(100));
  EXPECT_GE(cache_->TimeToLive(1), absl::Hours(95));
  EXPECT_LE(cache_->TimeToLive(1), absl::Hours(105));
  const StringHandle next = cache_->Find(1);
  EXPECT_EQ(cache_->SetIf(1, next, "value", absl::InfiniteDuration()),
            Put::kStored);
  EXPECT_EQ(cache_->TimeToLive(1), absl::InfiniteDuration());
}

TEST_F(KeepsDeadlineTest, OrTheDefaultWhereThereIsNone) {
  EXPECT_EQ(cache_->SetIf(1, {}, "value"), Put::kStored);
  EXPECT_NE(cache_->TimeToLive(1), absl::Minutes(5));
  EXPECT_GE(cache_->TimeToLive(1), absl::Minutes(5) * 0.95);
  EXPECT_LE(cache_->TimeToLive(1), absl::Minutes(5) * 1.05);
}

TEST_F(KeepsDeadlineTest, AndIsReclaimedThen) {
  const StringHandle old = SetAndFind(1, "value", absl::Seconds(1));
  const absl::Duration left = old.TimeToLive();
  EXPECT_EQ(cache_->SetIf(1, old, "value"), Put::kStored);
  clock_.Advance(left + absl::Milliseconds(1));
  cache_->RunMaintenance();
  EXPECT_EQ(cache_->size(), 0);
}

TEST_F(CacheConditionalTest, NewValueIsTheMostRecentlyUsed) {
  options_.max_entries = 2;
  cache_ = New<int, std::string>();
  const StringHandle old = SetAndFind(1, "old");
  cache_->Set(2, "two");
  EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
  cache_->Set(3, "three");
  EXPECT_TRUE(cache_->Contains(1));
  EXPECT_FALSE(cache_->Contains(2));
}

TEST_F(CacheConditionalTest, DelIfDeletesWhatWasReadAndNothingElse) {
  const StringHandle old = SetAndFind(1, "old");
  EXPECT_FALSE(cache_->DelIf(1, {}));
  EXPECT_FALSE(cache_->DelIf(2, {}));
  EXPECT_TRUE(cache_->DelIf(1, old));
  EXPECT_FALSE(cache_->DelIf(1, old));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, "old", RemovalCause::kDeleted)));
  EXPECT_EQ(cache_->stats().deletes, 1);
}

TEST_F(CacheConditionalTest, TakeReturnsTheValueThatItDeletes) {
  cache_->Set(1, "one", absl::Minutes(1));
  clock_.Advance(absl::Seconds(20));
  const StringHandle taken = cache_->Take(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, "one");
  EXPECT_EQ(taken.key(), 1);
  EXPECT_EQ(taken.TimeToLive(), absl::Seconds(40));
  EXPECT_EQ(taken.Age(), absl::Seconds(20));
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_FALSE(cache_->Take(1));
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, "one", RemovalCause::kDeleted)));
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.deletes, 1);
}

TEST_F(CacheConditionalTest, TakeReturnsNothingFromTheDeadlineOn) {
  cache_->Set(1, "one", absl::Microseconds(10));
  clock_.Advance(absl::Microseconds(10));
  EXPECT_FALSE(cache_->Take(1));
  EXPECT_EQ(cache_->stats().deletes, 0);
  EXPECT_EQ(cache_->stats().misses, 1);
  clock_.Advance(absl::Milliseconds(1));
  cache_->RunMaintenance();
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, "one", RemovalCause::kExpired)));
}

TEST_F(CacheConditionalTest, TakenValueOutlivesTheCacheAndMatchesNothing) {
  cache_->Set(1, "one");
  const StringHandle taken = cache_->Take(1);
  cache_->Set(1, "one");
  EXPECT_EQ(cache_->SetIf(1, taken, "mine"), Put::kLost);
  EXPECT_FALSE(cache_->DelIf(1, taken));
  cache_ = New<int, std::string>();
  EXPECT_EQ(*taken, "one");
}

// Whether the value of a load is stored that began before the call.
class SupersedeTest : public CacheConditionalTest {
 protected:
  std::optional<std::string> AfterLoadDuring(
      const std::function<void()>& call) {
    EXPECT_EQ(*cache_->GetOrLoad(1,
                                 [&] {
                                   call();
                                   return absl::StatusOr<std::string>("loaded");
                                 }),
              "loaded");
    std::optional<std::string> value = cache_->Get(1);
    cache_->Clear();
    return value;
  }
};

TEST_F(SupersedeTest, WinnersSupersedeALoad) {
  EXPECT_EQ(AfterLoadDuring([&] { cache_->SetIf(1, {}, "mine"); }), "mine");
  EXPECT_EQ(AfterLoadDuring([&] {
              cache_->SetIf(1, {}, "mine");
              cache_->DelIf(1, cache_->Find(1));
            }),
            std::nullopt);
}

TEST_F(SupersedeTest, TakeSupersedesALoadThoughItFindsNothing) {
  EXPECT_EQ(AfterLoadDuring([&] { EXPECT_FALSE(cache_->Take(1)); }),
            std::nullopt);
}

TEST_F(SupersedeTest, LosersAndRefusedValuesThatReplaceNothingDoNot) {
  const StringHandle old = SetAndFind(1, "old");
  cache_->Del(1);
  const std::string large(20'000, 'x');
  EXPECT_EQ(AfterLoadDuring([&] { cache_->SetIf(1, old, "mine"); }), "loaded");
  EXPECT_EQ(AfterLoadDuring([&] { cache_->SetIf(1, old, large); }), "loaded");
  EXPECT_EQ(AfterLoadDuring([&] { cache_->SetIf(1, {}, large); }), "loaded");
  EXPECT_EQ(AfterLoadDuring([&] { cache_->DelIf(1, old); }), "loaded");
  EXPECT_EQ(AfterLoadDuring([&] { cache_->DelIf(1, {}); }), "loaded");
}

TEST_F(CacheConditionalTest, StringKeysMayBeViews) {
  auto cache = New<std::string, std::string>();
  const std::string_view key = std::string_view("keyhole").substr(0, 3);
  EXPECT_EQ(cache->SetIf(key, {}, std::string_view("one")), Put::kStored);
  const auto handle = cache->Find("key");
  EXPECT_EQ(cache->SetIf("key", handle, "two", kNoTtl), Put::kStored);
  EXPECT_FALSE(cache->DelIf(key, handle));
  EXPECT_TRUE(cache->DelIf(key, cache->Find(key)));
  cache->Set(key, "three");
  EXPECT_EQ(*cache->Take(key), "three");
}

TEST_F(CacheConditionalTest, ValuesMayBeMoveOnly) {
  auto cache = New<int, std::unique_ptr<int>>();
  EXPECT_EQ(cache->SetIf(1, {}, std::make_unique<int>(7)), Put::kStored);
  const auto handle = cache->Find(1);
  EXPECT_EQ(cache->SetIf(1, handle, std::make_unique<int>(8)), Put::kStored);
  auto lost = std::make_unique<int>(9);
  EXPECT_EQ(cache->SetIf(1, handle, std::move(lost)), Put::kLost);
  EXPECT_EQ(lost, nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(**cache->Take(1), 8);
}

}  // namespace
}  // namespace wheelcache
