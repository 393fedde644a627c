// Handles: pinned values, and what becomes of them when they leave the cache.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace {

// A value whose owners can be counted from outside.
using Value = std::shared_ptr<int>;

class CacheHandleTest : public CacheEnvironment {
 protected:
  // Expects that a handle keeps its value, and alone keeps it, after `leave`
  // has removed it from the cache.
  template <typename Leave>
  void ExpectKeepsValue(Leave leave) {
    auto cache = New<int, Value>();
    const Value value = std::make_shared<int>(7);
    cache->Set(1, value, absl::Seconds(1));
    auto handle = cache->Find(1);
    leave(*cache);
    EXPECT_EQ(handle.key(), 1);
    EXPECT_EQ(*handle, value);
    EXPECT_EQ(value.use_count(), 2);
    EXPECT_NE(cache->Peek(1), value);
    handle = {};
    EXPECT_EQ(value.use_count(), 1);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
};

using HandleCache = Cache<int, Value>;

TEST_F(CacheHandleTest, EmptyHandleIsFalse) {
  EXPECT_FALSE(HandleCache::Handle());
  auto cache = New<int, Value>();
  EXPECT_FALSE(cache->Find(1));
}

TEST_F(CacheHandleTest, KeepsAReplacedValue) {
  ExpectKeepsValue(
      [](HandleCache& cache) { cache.Set(1, std::make_shared<int>(8)); });
}

TEST_F(CacheHandleTest, KeepsADeletedValue) {
  ExpectKeepsValue([](HandleCache& cache) { cache.Del(1); });
}

TEST_F(CacheHandleTest, KeepsAClearedValue) {
  ExpectKeepsValue([](HandleCache& cache) { cache.Clear(); });
}

TEST_F(CacheHandleTest, KeepsAnExpiredValue) {
  ExpectKeepsValue([this](HandleCache& cache) {
    clock_.Advance(absl::Seconds(2));
    cache.RunMaintenance();
    EXPECT_EQ(cache.size(), 0);
  });
}

TEST_F(CacheHandleTest, KeepsAnEvictedValue) {
  options_.max_entries = 1;
  ExpectKeepsValue(
      [](HandleCache& cache) { cache.Set(2, std::make_shared<int>(8)); });
}

TEST_F(CacheHandleTest, OutlivesTheCache) {
  const Value value = std::make_shared<int>(7);
  HandleCache::Handle handle;
  HandleCache::Handle another;
  {
    auto cache = New<int, Value>();
    cache->Set(1, value);
    cache->Set(2, std::make_shared<int>(8));
    handle = cache->Find(1);
    another = cache->Find(1);
  }
  EXPECT_EQ(*handle, value);
  handle = {};
  EXPECT_EQ(**another, 7);
  EXPECT_EQ(value.use_count(), 2);
  another = {};
  EXPECT_EQ(value.use_count(), 1);
}

TEST_F(CacheHandleTest, HandleKeepsNothingElseFromBeingReclaimed) {
  auto cache = New<int, Value>();
  cache->Set(0, std::make_shared<int>(0));
  const auto handle = cache->Find(0);
  std::vector<std::weak_ptr<int>> others;
  for (int i = 1; i <= 1000; ++i) {
    const Value value = std::make_shared<int>(i);
    others.push_back(value);
    cache->Set(i, value);
  }
  for (int i = 0; i <= 1000; ++i) cache->Del(i);
  for (const auto& other : others) EXPECT_TRUE(other.expired());
  EXPECT_EQ(**handle, 0);
}

TEST_F(CacheHandleTest, PinnedValuesThatHaveLeftTakeNoRoom) {
  options_.max_entries = 10;
  auto cache = New<int, Value>();
  std::vector<HandleCache::Handle> handles;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(cache->Set(i, std::make_shared<int>(i)));
    handles.push_back(cache->Find(i));
  }
  EXPECT_EQ(cache->size(), 10);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(**handles[i], i);
}

TEST_F(CacheHandleTest, MovedFromHandleIsEmpty) {
  auto cache = New<int, Value>();
  cache->Set(1, std::make_shared<int>(1));
  auto first = cache->Find(1);
  auto second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is tested.
  EXPECT_EQ(**second, 1);
  first = std::move(second);
  EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(**first, 1);
}

TEST_F(CacheHandleTest, AssignmentLetsGoOfTheOldValueAtOnce) {
  auto cache = New<int, Value>();
  std::weak_ptr<int> old_value;
  {
    const Value value = std::make_shared<int>(1);
    old_value = value;
    cache->Set(1, value);
  }
  cache->Set(2, std::make_shared<int>(2));
  auto handle = cache->Find(1);
  cache->Del(1);
  auto next = cache->Find(2);
  handle = std::move(next);
  EXPECT_TRUE(old_value.expired());
  EXPECT_FALSE(next);  // NOLINT(bugprone-use-after-move): what is tested.
  EXPECT_EQ(**handle, 2);
}

TEST_F(CacheHandleTest, AssignmentToItselfChangesNothing) {
  auto cache = New<int, Value>();
  cache->Set(1, std::make_shared<int>(1));
  auto handle = cache->Find(1);
  auto& same = handle;
  handle = std::move(same);
  ASSERT_TRUE(handle);
  EXPECT_EQ(**handle, 1);
}

TEST_F(CacheHandleTest, TimeToLiveFollowsTouchAndGoesBelowZero) {
  auto cache = New<int, Value>();
  cache->Set(1, nullptr, absl::Seconds(5));
  const auto handle = cache->Find(1);
  cache->Touch(1, absl::Seconds(10));
  EXPECT_EQ(handle.TimeToLive(), absl::Seconds(10));
  clock_.Advance(absl::Seconds(12));
  EXPECT_EQ(handle.TimeToLive(), absl::Seconds(-2));
  cache->Set(2, nullptr);
  EXPECT_EQ(cache->Find(2).TimeToLive(), absl::InfiniteDuration());
}

TEST_F(CacheHandleTest, AgeIsTheTimeSinceTheSetWhateverHappensToTheEntry) {
  auto cache = New<int, Value>();
  clock_.Advance(absl::Seconds(1));
  cache->Set(1, nullptr, absl::Seconds(5));
  const auto handle = cache->Find(1);
  EXPECT_EQ(handle.Age(), absl::ZeroDuration());
  clock_.Advance(absl::Milliseconds(60));
  EXPECT_EQ(handle.Age(), absl::Milliseconds(60));
  cache->Touch(1, absl::Seconds(10));
  EXPECT_EQ(handle.Age(), absl::Milliseconds(60));
  EXPECT_EQ(cache->Find(1).Age(), absl::Milliseconds(60));
  cache->Set(1, nullptr);
  EXPECT_EQ(cache->Find(1).Age(), absl::ZeroDuration());
  EXPECT_EQ(handle.Age(), absl::Milliseconds(60));
  cache = nullptr;
  clock_.Advance(absl::Hours(100));
  EXPECT_EQ(handle.Age(), absl::Hours(100) + absl::Milliseconds(60));
}

TEST_F(CacheHandleTest, AgeIsToldInStepsOf20Milliseconds) {
  auto cache = New<int, Value>();
  clock_.Advance(absl::Milliseconds(30));
  cache->Set(1, nullptr);
  const auto handle = cache->Find(1);
  clock_.Advance(absl::Milliseconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(handle.Age(), absl::ZeroDuration());
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(handle.Age(), absl::Milliseconds(20));
}

TEST_F(CacheHandleTest, AgeOfALoadedValueBeginsWhenItIsStored) {
  auto cache = New<int, Value>();
  ASSERT_TRUE(cache
                  ->GetOrLoad(1,
                              [this]() -> absl::StatusOr<Value> {
                                clock_.Advance(absl::Seconds(1));
                                return nullptr;
                              })
                  .ok());
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(cache->Find(1).Age(), absl::Seconds(2));
}

TEST_F(CacheHandleTest, ChargeIsWhatTheEntryCountsFor) {
  HandleCache::Hooks hooks;
  hooks.weigher = [](int key, const Value&) { return uint64_t(key); };
  auto cache = New<int, Value>(hooks);
  cache->Set(1000, nullptr);
  EXPECT_EQ(cache->Find(1000).charge(), cache->bytes());
  EXPECT_EQ(cache->bytes(), 1000 + static_cast<int64_t>(kEntryOverhead));
}

TEST_F(CacheHandleTest, ChargeWithoutAWeigherIsTheMemoryOfTheEntry) {
  auto numbers = New<uint64_t, uint64_t>();
  numbers->Set(1, 2);
  EXPECT_EQ(numbers->Find(1).charge(), 40 + 8 + 8 + 12);
  EXPECT_EQ(numbers->bytes(), numbers->Find(1).charge());
  auto strings = New<std::string, std::string>();
  for (const int length : {0, 10, 1000, 100'000}) {
    strings->Clear();
    strings->Set("key", std::string(length, 'v'));
    const int64_t charge = strings->Find("key").charge();
    EXPECT_EQ(strings->bytes(), charge);
    EXPECT_GE(charge, 40 + 1 + 3 + 1 + length + 12);
    EXPECT_LE(charge, 40 + 1 + 3 + 1 + length * 1.1 + 32);
  }
}

TEST_F(CacheHandleTest, ChargeStaysWhatItWasOutsideTheCache) {
  HandleCache::Hooks hooks;
  hooks.weigher = [](int key, const Value&) { return uint64_t(key); };
  auto weighed = New<int, Value>(hooks);
  auto counted = New<int, Value>();
  weighed->Set(1000, nullptr);
  counted->Set(1000, nullptr);
  const auto first = weighed->Find(1000);
  const auto second = counted->Find(1000);
  const int64_t first_charge = weighed->bytes();
  const int64_t second_charge = counted->bytes();
  weighed = nullptr;
  counted->Del(1000);
  EXPECT_EQ(first.charge(), first_charge);
  EXPECT_EQ(second.charge(), second_charge);
}

TEST_F(CacheHandleTest, LastOfManyHandlesDestroysTheValueWhereverItIs) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 200; ++round) {
    auto cache = New<int, Value>();
    const Value value = std::make_shared<int>(round);
    cache->Set(1, value);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([round, handle = cache->Find(1)]() mutable {
        EXPECT_EQ(**handle, round);
        handle = {};
      });
    }
    // Some handles go before it, some after it, some at the same time.
    cache = nullptr;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(value.use_count(), 1);
  }
}

}  // namespace
}  // namespace wheelcache
