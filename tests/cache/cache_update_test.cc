// Update: what its function sees, what it may decide and do, and what that
// leaves behind.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using IntCache = Cache<int, int>;
using Handle = IntCache::Handle;
using Decision = IntCache::Decision;

Removal<int, int> Left(int key, int value, RemovalCause cause) {
  return {key, value, cause, {}};
}

Decision Increment(const Handle& old) {
  return Decision::Set(old ? *old + 1 : 1);
}

class CacheUpdateTest : public CacheEnvironment {
 protected:
  ~CacheUpdateTest() override {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  RemovalLog<int, int> log_;
  std::unique_ptr<IntCache> cache_ = New<int, int>(log_.hooks());
};

TEST_F(CacheUpdateTest, StoresWhatFollowsFromTheOldValue) {
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_EQ(cache_->Get(1), 1);
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_EQ(cache_->Get(1), 2);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 1, RemovalCause::kReplaced)));
}

TEST_F(CacheUpdateTest, FunctionSeesNothingFromTheDeadlineOn) {
  cache_->Set(1, 10, absl::Microseconds(10));
  clock_.Advance(absl::Microseconds(10));
  EXPECT_TRUE(cache_->Update(1, Increment));
  EXPECT_EQ(cache_->Get(1), 1);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kExpired)));
}

TEST_F(CacheUpdateTest, KeepChangesNothing) {
  const auto keep = [](const Handle&) { return Decision::Keep(); };
  EXPECT_FALSE(cache_->Update(1, keep));
  cache_->Set(1, 10, absl::Seconds(1));
  EXPECT_FALSE(cache_->Update(1, keep));
  EXPECT_EQ(cache_->Get(1), 10);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Seconds(1));
  EXPECT_THAT(log_.Take(), IsEmpty());
  EXPECT_EQ(cache_->stats().sets, 1);
}

TEST_F(CacheUpdateTest, DeleteTellsWhetherThereWasAValue) {
  const auto del = [](const Handle&) { return Decision::Delete(); };
  EXPECT_FALSE(cache_->Update(1, del));
  cache_->Set(1, 10);
  EXPECT_TRUE(cache_->Update(1, del));
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kDeleted)));
  EXPECT_EQ(cache_->stats().deletes, 1);
}

TEST_F(CacheUpdateTest, RefusedValueTakesTheOldOneAlong) {
  const auto refused = [](const Handle&) {
    return Decision::Set(7, absl::ZeroDuration());
  };
  EXPECT_FALSE(cache_->Update(1, refused));
  cache_->Set(1, 10);
  EXPECT_FALSE(cache_->Update(1, refused));
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kDeleted)));
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

TEST_F(CacheUpdateTest, CountsAsAUseThoughItKeeps) {
  options_.max_entries = 2;
  cache_ = New<int, int>();
  cache_->Set(1, 10);
  cache_->Set(2, 20);
  cache_->Update(1, [](const Handle&) { return Decision::Keep(); });
  cache_->Set(3, 30);
  EXPECT_TRUE(cache_->Contains(1));
  EXPECT_FALSE(cache_->Contains(2));
}

TEST_F(CacheUpdateTest, FunctionMayCallTheCacheAndItsOwnKey) {
  cache_->Set(1, 10);
  int calls = 0;
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    cache_->Set(2, 20);
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

// If it ran under a lock, the other thread would wait for ever.
TEST_F(CacheUpdateTest, NoLockIsHeldMeanwhile) {
  options_.shards = 1;
  cache_ = New<int, int>();
  cache_->Set(1, 10);
  int calls = 0;
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    if (++calls == 1) {
      std::thread([&] {
        cache_->Clear();
        cache_->Set(1, 20);
        cache_->RunMaintenance();
      }).join();
    }
    return Increment(old);
  }));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(cache_->Get(1), 21);
}

TEST_F(CacheUpdateTest, MayBeCalledByUserCodeOfEveryKind) {
  int updates = 0;
  IntCache* view = nullptr;
  const auto update = [&](int key) {
    view->Update(key, [&](const Handle& old) {
      ++updates;
      return Increment(old);
    });
  };
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause cause) {
    if (cause == RemovalCause::kDeleted) update(key + 100);
  };
  auto cache = New<int, int>(hooks);
  view = cache.get();
  cache->Set(1, 10);
  cache->Visit(1, [&](int) {
    update(1);
    update(2);
    EXPECT_EQ(*cache->Take(2), 1);
  });
  EXPECT_EQ(cache->Get(1), 11);
  EXPECT_EQ(cache->Get(102), 1);
  EXPECT_EQ(*cache->GetOrLoad(3,
                              [&] {
                                update(3);
                                return absl::StatusOr<int>(30);
                              }),
            30);
  EXPECT_EQ(cache->Get(3), 1) << "the load was superseded";
  EXPECT_EQ(updates, 4);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheUpdateTest, SupersedesALoadOnlyIfItChangesSomething) {
  const auto value_after_load_during = [&](const std::function<void()>& call) {
    (void)cache_->GetOrLoad(1, [&] {
      call();
      return absl::StatusOr<int>(30);
    });
    return cache_->Take(1).value();
  };
  EXPECT_EQ(value_after_load_during([&] { cache_->Update(1, Increment); }), 1);
  EXPECT_EQ(value_after_load_during([&] {
              cache_->Update(1, [](const Handle&) { return Decision::Keep(); });
              cache_->Update(1,
                             [](const Handle&) { return Decision::Delete(); });
            }),
            30);
}

TEST_F(CacheUpdateTest, StringsMayBeSeenAndGivenAsViews) {
  auto cache = New<std::string, std::string>();
  using Strings = Cache<std::string, std::string>;
  const auto append = [](const Strings::Handle& old) {
    if (!old) return Strings::Decision::Set(std::string_view("a"));
    return Strings::Decision::Set(std::string(*old) + "b");
  };
  const std::string_view key = std::string_view("keyhole").substr(0, 3);
  EXPECT_TRUE(cache->Update(key, append));
  EXPECT_TRUE(cache->Update("key", append));
  EXPECT_TRUE(cache->Update(std::string("key"), append));
  EXPECT_EQ(cache->Get(key), "abb");
}

TEST_F(CacheUpdateTest, ValuesMayBeMoveOnly) {
  using Pointers = Cache<int, std::unique_ptr<int>>;
  auto cache = New<int, std::unique_ptr<int>>();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cache->Update(1, [](const Pointers::Handle& old) {
      return Pointers::Decision::Set(
          std::make_unique<int>(old ? **old + 1 : 1));
    }));
  }
  EXPECT_EQ(**cache->Find(1), 3);
}

// What the key views goes with the entry, but not before the call has ended.
TEST_F(CacheUpdateTest, KeyAndValueMayBeThoseOfTheHandle) {
  using Strings = Cache<std::string, std::string>;
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

// So that what is missing is loaded and then changed.
TEST_F(CacheUpdateTest, FunctionMayLoadItsOwnKey) {
  int calls = 0;
  EXPECT_TRUE(cache_->Update(1, [&](const Handle& old) {
    ++calls;
    if (old) return Increment(old);
    const absl::StatusOr<int> loaded =
        cache_->GetOrLoad(1, [] { return absl::StatusOr<int>(10); });
    return Decision::Set(*loaded);
  }));
  EXPECT_EQ(calls, 2);
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

// Nothing but Update moves a value.
TEST_F(CacheUpdateTest, ValuesThatCannotBeMovedDoWithoutIt) {
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

TEST_F(CacheUpdateTest, DestructorsOfValuesMayUpdateAndTake) {
  auto cache = New<int, std::shared_ptr<UpdatesAtItsEnd>>();
  for (int key = 0; key < 10; ++key) {
    cache->Set(key, std::shared_ptr<UpdatesAtItsEnd>(
                        new UpdatesAtItsEnd{cache.get(), key + 1}));
  }
  (void)cache->Take(0);  // The end of each value replaces the next.
  EXPECT_EQ(cache->size(), 10);
  for (int key = 1; key < 10; ++key) EXPECT_EQ(cache->Get(key), nullptr);
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

TEST_F(CacheUpdateTest, ListenerMayPutBackWhatWasTaken) {
  IntCache* view = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int value, RemovalCause cause) {
    if (cause != RemovalCause::kDeleted) return;
    EXPECT_EQ(view->SetIf(key, {}, value + 1), Put::kStored);
  };
  auto cache = New<int, int>(hooks);
  view = cache.get();
  cache->Set(1, 10);
  const auto taken = cache->Take(1);
  EXPECT_EQ(*taken, 10);
  EXPECT_EQ(cache->Get(1), 11);
  EXPECT_EQ(cache->SetIf(1, taken, 99), Put::kLost);
}

// The budget has no more than what the old value leaves.
TEST_F(CacheUpdateTest, CacheForOneEntryNeverHoldsTwo) {
  options_.max_entries = 1;
  options_.max_bytes = 2 * OverheadOfAnEntry<int, int>();
  cache_ = New<int, int>(log_.hooks());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(cache_->Update(1, Increment));
    EXPECT_EQ(cache_->size(), 1);
  }
  EXPECT_TRUE(cache_->Update(2, Increment));
  EXPECT_EQ(cache_->stats().evictions, 1);
  EXPECT_FALSE(cache_->Contains(1));
}

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

// Many threads, one key: no increment is lost, and none counts twice.
TEST_F(CacheUpdateTest, EachOfManyIncrementsCounts) {
  constexpr int kThreads = 4;
  constexpr int kIncrements = 5'000;
  for (const int shards : {1, 4}) {
    options_.shards = shards;
    auto cache = New<int, std::string>();  // Not all of one size.
    using Strings = Cache<int, std::string>;
    std::atomic<int64_t> calls{0};
    std::thread threads[kThreads];
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        for (int i = 0; i < kIncrements; ++i) {
          EXPECT_TRUE(cache->Update(i % 2, [&](const Strings::Handle& old) {
            ++calls;
            return Strings::Decision::Set(
                std::to_string(old ? std::stoi(std::string(*old)) + 1 : 1));
          }));
          if (i % 16 == 0) cache->Touch(0, absl::Hours(1));
          if (i % 64 == 0) cache->RunMaintenance();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::string each = std::to_string(kThreads * kIncrements / 2);
    EXPECT_EQ(cache->Get(0), each);
    EXPECT_EQ(cache->Get(1), each);
    EXPECT_EQ(cache->stats().sets, kThreads * kIncrements);
    EXPECT_GE(calls.load(), kThreads * kIncrements);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// What is taken is gone from the sum, and goes nowhere twice.
TEST_F(CacheUpdateTest, WhatIsTakenAndWhatIsLeftAddsUp) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 5'000;
  std::atomic<int64_t> taken{0};
  std::thread threads[kThreads];
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < kCalls; ++i) {
        EXPECT_TRUE(cache_->Update(1, Increment));
        if (i % 4 != 0) continue;
        if (const auto handle = cache_->Take(1)) taken += *handle;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const int64_t left = cache_->Get(1).value_or(0);
  EXPECT_EQ(taken.load() + left, kThreads * kCalls);
}

}  // namespace
}  // namespace wheelcache
