// SetIf, DelIf, Take and Update: who wins, what it gets and leaves behind, and
// what a loser leaves alone. For races see cache_conditional_race_test.cc, for
// loads that they supersede cache_load_test.cc.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
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
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using StringCache = Cache<int, std::string>;
using IntCache = Cache<int, int>;
using Strings = Cache<std::string, std::string>;

template <typename Value>
Removal<int, Value> Left(int key, Value value, RemovalCause cause) {
  return {key, std::move(value), cause, {}};
}

class CacheConditionalTest : public CacheEnvironment {
 protected:
  using Handle = StringCache::Handle;

  CacheConditionalTest() {
    options_.max_bytes = 10'000;
    options_.default_ttl = absl::Minutes(5);
    cache_ = New<int, std::string>(log_.hooks());
  }
  ~CacheConditionalTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  // A handle on the value, which is then the key's.
  Handle SetAndFind(int key, const std::string& value,
                    absl::Duration ttl = absl::InfiniteDuration()) {
    cache_->Set(key, value, ttl);
    return cache_->Find(key);
  }
  void ExpectLeft(const std::string& value, RemovalCause cause) {
    EXPECT_THAT(log_.Take(), ElementsAre(Left(1, value, cause)));
  }

  const std::string large_ = std::string(20'000, 'x');  // Has no room.
  RemovalLog<int, std::string> log_;
  std::unique_ptr<StringCache> cache_;
};

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
  const Handle old = SetAndFind(1, "old");
  EXPECT_EQ(cache_->SetIf(1, old, "new"), Put::kStored);
  EXPECT_EQ(cache_->Get(1), "new");
  EXPECT_EQ(*old, "old");
  ExpectLeft("old", RemovalCause::kReplaced);
  EXPECT_EQ(cache_->SetIf(1, old, "newer"), Put::kLost);
  EXPECT_EQ(cache_->stats().replaced, 1);
}

TEST_F(CacheConditionalTest, DelIfDeletesWhatWasReadAndNothingElse) {
  const Handle old = SetAndFind(1, "old");
  EXPECT_FALSE(cache_->DelIf(1, {}));
  EXPECT_FALSE(cache_->DelIf(2, old));
  EXPECT_TRUE(cache_->DelIf(1, old));
  EXPECT_FALSE(cache_->DelIf(1, old));
  EXPECT_EQ(cache_->Get(1), std::nullopt);
  ExpectLeft("old", RemovalCause::kDeleted);
  EXPECT_EQ(cache_->stats().deletes, 1);
}

// Whatever came in the place of the value stays.
TEST_F(CacheConditionalTest, HandleOfAValueThatHasLeftItsKeyLoses) {
  const std::function<void()> events[] = {
      [&] { cache_->Set(1, "old"); },  // An equal value.
      [&] {
        for (int i = 0; i < 100; ++i) {  // Blocks are used again.
          cache_->Del(1);
          cache_->RunMaintenance();
          cache_->Set(1, "old");
        }
      },
      [&] { cache_->Del(1); },
      [&] { cache_->Clear(); },
      [&] {
        for (int key = 2; cache_->Contains(1); ++key) cache_->Set(key, "other");
      },
      [&] { clock_.Advance(absl::Seconds(10)); },
      [&] {  // Another call with the same handle.
        EXPECT_EQ(cache_->SetIf(1, cache_->Find(1), "faster"), Put::kStored);
      },
  };
  for (const auto& event : events) {
    const Handle old = SetAndFind(1, "old", absl::Seconds(10));
    event();
    const CacheStats before = cache_->stats();
    const std::optional<std::string> value = cache_->Peek(1);
    EXPECT_EQ(cache_->SetIf(1, old, "mine"), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, "mine", absl::Seconds(1)), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, "mine", absl::ZeroDuration()), Put::kLost);
    EXPECT_EQ(cache_->SetIf(1, old, large_), Put::kLost);
    EXPECT_FALSE(cache_->DelIf(1, old));
    EXPECT_EQ(cache_->Peek(1), value);
    EXPECT_EQ(cache_->stats().sets, before.sets);
    EXPECT_EQ(cache_->stats().deletes, before.deletes);
    EXPECT_EQ(cache_->stats().evictions, before.evictions);
    EXPECT_EQ(*old, "old");
  }
}

TEST_F(CacheConditionalTest, HandleThatWasMovedFromIsEmpty) {
  Handle old = SetAndFind(1, "old");
  const Handle moved = std::move(old);
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
  const Handle foreign = other->Find(1);
#ifdef NDEBUG
  EXPECT_EQ(cache_->SetIf(1, foreign, "new"), Put::kLost);
  EXPECT_FALSE(cache_->DelIf(1, foreign));
  EXPECT_EQ(cache_->Get(1), "mine");
#else
  EXPECT_DEATH(cache_->SetIf(1, foreign, "new"), "a handle of another cache");
  EXPECT_DEATH(cache_->DelIf(1, foreign), "a handle of another cache");
#endif
}

// With jitter, of which a deadline that is kept must get nothing.
class KeepsDeadlineTest : public CacheConditionalTest {
 protected:
  KeepsDeadlineTest() {
    options_.jitter = 0.05;
    cache_ = New<int, std::string>();
  }
};

// Promise: Conditional writes
TEST_F(KeepsDeadlineTest, ToTheNanosecondWithoutATtl) {
  for (int i = 0; i < 10; ++i) {
    Handle handle = SetAndFind(1, "value", absl::Hours(1));
    const absl::Duration before = handle.TimeToLive();
    for (int seconds = 0; seconds < 10; ++seconds) {
      ASSERT_EQ(cache_->SetIf(1, handle, "value"), Put::kStored);
      handle = cache_->Find(1);
      EXPECT_EQ(handle.TimeToLive(), before - absl::Seconds(seconds));
      EXPECT_EQ(handle.Age(), absl::ZeroDuration());
      clock_.Advance(absl::Seconds(1));
    }
  }
}

TEST_F(KeepsDeadlineTest, OrGetsAnotherThatIsVaried) {
  const auto expect_about = [&](absl::Duration ttl) {
    const absl::Duration got = *cache_->TimeToLive(1);
    EXPECT_NE(got, ttl);
    EXPECT_GE(got, ttl * 0.95);
    EXPECT_LE(got, ttl * 1.05);
  };
  EXPECT_EQ(cache_->SetIf(1, {}, "value"), Put::kStored);
  expect_about(options_.default_ttl);
  EXPECT_EQ(cache_->SetIf(1, cache_->Find(1), "value", absl::Hours(100)),
            Put::kStored);
  expect_about(absl::Hours(100));
}

TEST_F(KeepsDeadlineTest, OrGetsOneThatIsNotVaried) {
  options_.jitter = 1;
  auto cache = New<int, int>();
  const absl::Duration later = absl::Seconds(3) + absl::Nanoseconds(1);
  EXPECT_EQ(cache->SetIf(1, {}, 10, Deadline(clock_.Now() + later)),
            Put::kStored);
  EXPECT_EQ(cache->TimeToLive(1), later);
  EXPECT_EQ(cache->SetIf(1, {}, 11, Deadline(absl::InfiniteDuration())),
            Put::kLost);
  EXPECT_EQ(
      cache->SetIf(1, cache->Find(1), 12, Deadline(absl::InfiniteDuration())),
      Put::kStored);
  EXPECT_EQ(cache->TimeToLive(1), absl::InfiniteDuration());
  EXPECT_EQ(cache->SetIf(1, cache->Find(1), 13, Deadline(clock_.Now())),
            Put::kRefused);
  EXPECT_EQ(cache->Get(1), std::nullopt);
  EXPECT_EQ(cache->SetIf(1, {}, 14, Deadline(clock_.Now() + later)),
            Put::kStored);
  clock_.Advance(later);
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheConditionalTest, TakeReturnsTheValueThatItDeletes) {
  cache_->Set(1, "one", absl::Minutes(1));
  clock_.Advance(absl::Seconds(20));
  const Handle taken = cache_->Take(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, "one");
  EXPECT_EQ(taken.key(), 1);
  EXPECT_EQ(taken.TimeToLive(), absl::Seconds(40));
  EXPECT_EQ(taken.Age(), absl::Seconds(20));
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_FALSE(cache_->Take(1));
  ExpectLeft("one", RemovalCause::kDeleted);
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.deletes, 1);
}

TEST_F(CacheConditionalTest, TakenValueOutlivesTheCacheAndMatchesNothing) {
  cache_->Set(1, "one");
  const Handle taken = cache_->Take(1);
  cache_->Set(1, "one");
  EXPECT_EQ(cache_->SetIf(1, taken, "mine"), Put::kLost);
  EXPECT_FALSE(cache_->DelIf(1, taken));
  cache_ = New<int, std::string>();
  EXPECT_EQ(*taken, "one");
}

// Promise: Conditional writes
TEST_F(CacheConditionalTest, RefusedValueTakesTheOneThatMatchesAlong) {
  {
    const Handle old = SetAndFind(1, "old");
    EXPECT_EQ(cache_->SetIf(1, old, large_), Put::kRefused);
    ExpectLeft("old", RemovalCause::kReplaced);
  }
  for (const int seconds : {0, -1}) {
    const Handle old = SetAndFind(1, "old");
    EXPECT_EQ(cache_->SetIf(1, old, "new", absl::Seconds(seconds)),
              Put::kRefused);
    ExpectLeft("old", RemovalCause::kDeleted);
  }
  EXPECT_EQ(cache_->bytes(), 0);
}

// Where a cache evicts for memory, not for room: what handles pin is not moved,
// and what comes later does not fit between it.
TEST_F(CacheConditionalTest, LoserEvictsNobodyWhereMemoryIsShort) {
  options_.max_bytes = 32 << 20;
  int evictions = 0;
  StringCache::Hooks hooks;
  hooks.on_removal = [&](int, std::string_view, RemovalCause cause) {
    if (cause == RemovalCause::kEvicted) ++evictions;
  };
  auto cache = New<int, std::string>(hooks);
  int key = 2;
  while (evictions == 0) cache->Set(++key, std::string(1000, 'x'));
  std::vector<Handle> pinned;
  for (int i = 0; i <= key; ++i) {
    if (i % 3 == 0) {
      pinned.push_back(cache->Find(i));
    } else {
      cache->Del(i);
    }
  }
  cache->Set(1, "old");
  const Handle old = cache->Find(1);
  cache->Set(1, "newer");
  const std::string large(10'000, 'x');
  int evicting_sets = 0;
  for (int i = 0; i < 10'000 && evicting_sets < 10; ++i) {
    evictions = 0;
    ASSERT_EQ(cache->SetIf(1, old, large), Put::kLost);
    ASSERT_EQ(evictions, 0);
    (void)cache->Get(1);
    cache->Set(++key, large);
    evicting_sets += evictions > 0 ? 1 : 0;
  }
  EXPECT_EQ(evicting_sets, 10);
  EXPECT_LT(cache->bytes(), options_.max_bytes * 3 / 4);
}

TEST_F(CacheConditionalTest, ValueOfALoserIsDestroyedAtOnce) {
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

class CacheUpdateTest : public CacheEnvironment {
 protected:
  using Handle = IntCache::Handle;
  using Decision = IntCache::Decision;

  ~CacheUpdateTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  static Decision Increment(const Handle& old) {
    return Decision::Set(old ? *old + 1 : 1);
  }
  static Decision Keep(const Handle&) { return Decision::Keep(); }
  static Decision Delete(const Handle&) { return Decision::Delete(); }

  RemovalLog<int, int> log_;
  std::unique_ptr<IntCache> cache_ = New<int, int>(log_.hooks());
};

TEST_F(CacheUpdateTest, DoesWhatItsFunctionDecides) {
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 1, RemovalCause::kReplaced)));
  EXPECT_FALSE(cache_->Update(1, Keep));
  EXPECT_EQ(cache_->Get(1), 2);
  EXPECT_THAT(log_.Take(), IsEmpty());
  EXPECT_TRUE(cache_->Update(1, Delete));
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 2, RemovalCause::kDeleted)));
  EXPECT_FALSE(cache_->Update(1, Delete));
  EXPECT_EQ(cache_->size(), 0);
}

TEST_F(CacheUpdateTest, TtlIsKeptOrGivenOrTheDefault) {
  options_.default_ttl = absl::Minutes(5);
  cache_ = New<int, int>();
  cache_->Update(1, Increment);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Minutes(5));
  clock_.Advance(absl::Minutes(1));
  cache_->Update(1, Increment);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Minutes(4));
  cache_->Update(
      1, [](const Handle& old) { return Decision::Set(*old, absl::Hours(1)); });
  EXPECT_EQ(cache_->TimeToLive(1), absl::Hours(1));
}

TEST_F(CacheUpdateTest, CountsAsOneGetAndAsWhatItDoes) {
  cache_->Update(1, Increment);
  cache_->Update(1, Increment);
  int calls = 0;
  cache_->Update(1, [&](const Handle& old) {
    if (++calls < 5) cache_->Set(1, calls);
    return Increment(old);
  });
  EXPECT_EQ(calls, 5);
  const CacheStats stats = cache_->stats();
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.sets, 3 + 4);
  EXPECT_EQ(stats.replaced, 2 + 4);
}

TEST_F(CacheUpdateTest, FunctionMayCallTheCacheAndItsOwnKey) {
  cache_->Set(1, 10);
  int calls = 0;
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    EXPECT_EQ(cache_->Get(1), *old);
    EXPECT_TRUE(cache_->Touch(1, absl::Hours(1)));
    if (++calls == 1) {
      EXPECT_TRUE(cache_->Update(1, Increment));
    }
    cache_->RunMaintenance();
    return Increment(old);
  }));
  EXPECT_EQ(calls, 2);  // The one within was faster.
  EXPECT_EQ(cache_->Get(1), 12);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Hours(1));
}

// So that what is missing is loaded and then changed.
TEST_F(CacheUpdateTest, FunctionMayLoadItsOwnKey) {
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    if (old) return Increment(old);
    return Decision::Set(*cache_->GetOrLoad(1, [] { return 10; }));
  }));
  EXPECT_EQ(cache_->Get(1), 11);
}

TEST_F(CacheUpdateTest, FunctionMayBeOfAnyKind) {
  struct Adder {
    Decision operator()(const Handle& old) const {
      return Decision::Set((old ? *old : 0) + number);
    }
    int number;
  };
  const std::function<Decision(const Handle&)> function = Adder{2};
  EXPECT_TRUE(cache_->Update(1, Adder{1}));
  EXPECT_TRUE(cache_->Update(1, function));
  EXPECT_TRUE(cache_->Update(1, &Increment));
  EXPECT_TRUE(cache_->Update(1, [n = 0](const auto& old) mutable {
    return Decision::Set(*old + ++n);
  }));
  EXPECT_EQ(cache_->Get(1), 5);
}

// Promise: Failures leave the cache whole
TEST_F(CacheUpdateTest, ExceptionOfTheFunctionChangesNothing) {
  cache_->Set(1, 10, absl::Seconds(1));
  const auto throws = [](const Handle&) -> Decision {
    throw std::runtime_error("undecided");
  };
  EXPECT_THROW(cache_->Update(1, throws), std::runtime_error);
  EXPECT_THROW(cache_->Update(2, throws), std::runtime_error);
  EXPECT_EQ(cache_->Peek(1), 10);
  EXPECT_EQ(cache_->size(), 1);
  EXPECT_THAT(log_.Take(), IsEmpty());
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_EQ(cache_->Get(1), 11);
}

TEST_F(CacheUpdateTest, ChildOfForkMayGoOnInTheMiddleOfOne) {
  cache_->Set(1, 10);
  bool holds = false;
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    holds = testing::HoldsInChild([&] {
      return cache_->Update(1, Increment) && cache_->Get(1) == 11 &&
             cache_->SetIf(1, old, 12) == Put::kLost &&
             cache_->CheckInvariants().ok();
    });
    return Increment(old);
  }));
  EXPECT_TRUE(holds);
  EXPECT_EQ(cache_->Get(1), 11);
}

// Conditional calls for other types of keys and values.
using ConditionalTypesTest = CacheEnvironment;

TEST_F(ConditionalTypesTest, StringsMayBeViews) {
  auto cache = New<std::string, std::string>();
  const std::string_view key = std::string_view("keyhole").substr(0, 3);
  EXPECT_EQ(cache->SetIf(key, {}, std::string_view("one")), Put::kStored);
  const auto handle = cache->Find("key");
  EXPECT_EQ(cache->SetIf("key", handle, "two", std::nullopt), Put::kStored);
  EXPECT_FALSE(cache->DelIf(key, handle));
  EXPECT_TRUE(cache->DelIf(key, cache->Find(key)));
  const auto append = [](const Strings::Handle& old) {
    if (!old) return Strings::Decision::Set(std::string_view("a"));
    return Strings::Decision::Set(std::string(*old) + "b");
  };
  EXPECT_TRUE(cache->Update(key, append));
  EXPECT_TRUE(cache->Update("key", append));
  EXPECT_TRUE(cache->Update(std::string("key"), append));
  EXPECT_EQ(*cache->Take(key), "abb");
}

// What the key views goes with the entry, but not before the call has ended.
TEST_F(ConditionalTypesTest, KeyAndValueMayBeThoseOfTheHandle) {
  auto cache = New<std::string, std::string>();
  for (const size_t size : {3, 200, 100'000}) {
    cache->Set(std::string(size, 'k'), std::string(size, 'v'));
    auto handle = cache->Find(std::string(size, 'k'));
    EXPECT_EQ(cache->SetIf(handle.key(), handle, *handle), Put::kStored);
    EXPECT_TRUE(cache->Update(handle.key(), [&](const Strings::Handle& old) {
      return Strings::Decision::Set(*old);
    }));
    EXPECT_FALSE(cache->DelIf(handle.key(), handle));
    handle = cache->Take(handle.key());
    EXPECT_EQ(*handle, std::string(size, 'v'));
    EXPECT_EQ(cache->size(), 0);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(ConditionalTypesTest, ValuesMayBeMoveOnly) {
  using Pointers = Cache<int, std::unique_ptr<int>>;
  auto cache = New<int, std::unique_ptr<int>>();
  EXPECT_EQ(cache->SetIf(1, {}, std::make_unique<int>(7)), Put::kStored);
  const auto handle = cache->Find(1);
  EXPECT_EQ(cache->SetIf(1, handle, std::make_unique<int>(8)), Put::kStored);
  auto lost = std::make_unique<int>(9);
  EXPECT_EQ(cache->SetIf(1, handle, std::move(lost)), Put::kLost);
  EXPECT_EQ(lost, nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(cache->Update(1, [](const Pointers::Handle& old) {
    return Pointers::Decision::Set(std::make_unique<int>(**old + 1));
  }));
  EXPECT_EQ(**cache->Take(1), 9);
}

// Nothing but Update moves a value.
TEST_F(ConditionalTypesTest, ValuesThatCannotBeMovedDoWithoutUpdate) {
  auto cache = New<int, std::atomic<int>>();
  EXPECT_EQ(cache->SetIf(1, {}, 7), Put::kStored);
  const auto handle = cache->Find(1);
  EXPECT_EQ(cache->SetIf(1, handle, 8), Put::kStored);
  EXPECT_EQ(cache->Take(1)->load(), 8);
}

// Updates a key of its cache when it is destroyed.
struct UpdatesAtItsEnd {
  using CacheType = Cache<int, std::shared_ptr<UpdatesAtItsEnd>>;

  ~UpdatesAtItsEnd() {
    cache->Update(next, [](const CacheType::Handle&) {
      return CacheType::Decision::Set(nullptr);
    });
  }

  CacheType* cache;
  int next;
};

TEST_F(ConditionalTypesTest, DestructorsOfValuesMayUpdateAndTake) {
  auto cache = New<int, std::shared_ptr<UpdatesAtItsEnd>>();
  for (int key = 0; key < 10; ++key) {
    cache->Set(key, std::shared_ptr<UpdatesAtItsEnd>(
                        new UpdatesAtItsEnd{cache.get(), key + 1}));
  }
  (void)cache->Take(0);  // The end of each value replaces the next.
  EXPECT_EQ(cache->size(), 10);
  for (int key = 1; key < 10; ++key) EXPECT_EQ(cache->Get(key), nullptr);
}

}  // namespace
}  // namespace wheelcache
