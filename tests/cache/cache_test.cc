// What each method returns and leaves, with what keys, values and options:
// where tests/cache/cache_model_test.cc does not look.

#include "wheelcache/cache/cache.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CacheTest : public CacheEnvironment {
 protected:
  std::unique_ptr<Cache<std::string, std::string>> NewCache() {
    return New<std::string, std::string>();
  }
};

TEST_F(CacheTest, CacheWithDefaultOptionsWorks) {
  auto cache = *Cache<std::string, std::string>::Create({});
  EXPECT_EQ(cache->options().name, "cache");
  EXPECT_TRUE(cache->Set("key", "value"));
  EXPECT_EQ(cache->Get("key"), "value");
  EXPECT_TRUE(cache->reaper_status().ok());
}

TEST_F(CacheTest, FindShowsKeyAndValueInPlace) {
  auto cache = NewCache();
  cache->Set("key", "value");
  const auto handle = cache->Find("key");
  ASSERT_TRUE(handle);
  EXPECT_EQ(handle.key(), "key");
  EXPECT_EQ(handle.value(), "value");
  EXPECT_EQ(*handle, "value");
  EXPECT_EQ(handle->size(), 5u);
  EXPECT_EQ(cache->Find("key")->data(), handle->data());
}

TEST_F(CacheTest, FindManyFindsEachKeyAsFindDoes) {
  auto cache = New<int, int>();
  using Handle = Cache<int, int>::Handle;
  EXPECT_EQ(cache->FindMany({}, {}), 0U);
  for (int key = 0; key < 1000; key += 2) cache->Set(key, -key);
  int64_t hits = 0;
  for (const int count : {1, 2, 31, 32, 33, 64, 200}) {
    std::vector<int> keys;
    for (int i = 0; i < count; ++i) keys.push_back(i * 7 % 300);
    std::vector<Handle> handles(keys.size());
    handles[0] = cache->Find(998);  // It is given up.
    const size_t found = cache->FindMany(keys, absl::MakeSpan(handles));
    hits += 1 + static_cast<int64_t>(found);
    EXPECT_EQ(found, (keys.size() + 1) / 2);
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(static_cast<bool>(handles[i]), keys[i] % 2 == 0);
      EXPECT_EQ(handles[i] ? *handles[i] : -keys[i], -keys[i]);
    }
  }
  EXPECT_EQ(cache->stats().hits, hits);
}

TEST_F(CacheTest, FindManyTakesWhateverFindTakes) {
  auto cache = NewCache();
  cache->Set("a", "1");
  cache->Set("b", "2", absl::Seconds(1));
  CacheHandle<std::string, std::string> handles[3];
  const auto find = [&](const auto& keys) {
    return cache->FindMany(keys, absl::MakeSpan(handles));
  };
  EXPECT_EQ(find(std::vector<std::string>{"a", "b", "a"}), 3U);
  EXPECT_EQ(find(std::vector<std::string_view>{"b", "c", "a"}), 2U);
  EXPECT_EQ(*handles[0], "2");
  EXPECT_FALSE(handles[1]);
  EXPECT_EQ(*handles[2], "1");
  EXPECT_EQ(find(std::array<const char*, 3>{"a", "b", "c"}), 2U);
  const char* const array[] = {"a", "x", "y"};
  EXPECT_EQ(find(array), 1U);
  const std::vector<std::string> many(10, "a");
  EXPECT_EQ(find(absl::MakeSpan(many).subspan(7)), 3U);
  // Within a read, and of what has expired.
  clock_.Advance(absl::Seconds(1));
  cache->Visit("a", [&](std::string_view) {
    EXPECT_EQ(cache->FindMany({"a", "b", "a"}, absl::MakeSpan(handles)), 2U);
  });
}

// A read within a read goes another way to the same result.
TEST_F(CacheTest, ReadsInsideAVisitCountAsOutside) {
  options_.max_entries = 3;
  auto cache = NewCache();
  for (const char* key : {"a", "b", "c"}) cache->Set(key, key);
  cache->Visit("c", [&](std::string_view) {
    EXPECT_EQ(cache->Peek("a"), "a");
    EXPECT_TRUE(cache->Contains("a"));
    EXPECT_EQ(cache->Get("b"), "b");
    EXPECT_EQ(cache->Get("absent"), std::nullopt);
  });
  EXPECT_EQ(cache->stats().hits, 2);
  EXPECT_EQ(cache->stats().misses, 1);
  cache->Set("d", "d");
  EXPECT_FALSE(cache->Contains("a"));
  EXPECT_TRUE(cache->Contains("b"));
}

// Moves ahead a second at each reading.
class RunningClock : public Clock {
 public:
  int64_t NowNanos() const override { return seconds_++ * 1'000'000'000; }

 private:
  mutable int64_t seconds_ = 0;
};

TEST_F(CacheTest, TimeToLiveIsNeverZeroOrLess) {
  RunningClock clock;
  options_.clock = &clock;
  auto cache = NewCache();
  for (int seconds = 1; seconds < 10; ++seconds) {
    cache->Set("key", "value", absl::Seconds(seconds));
    while (const auto left = cache->TimeToLive("key")) {
      EXPECT_GT(*left, absl::ZeroDuration());
    }
  }
}

// Promise: Exact expiry
TEST_F(CacheTest, HitDoesNotExtendTheTtl) {
  auto cache = NewCache();
  cache->Set("key", "value", absl::Seconds(10));
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(cache->Get("key"), "value");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->Get("key"), std::nullopt);
}

TEST_F(CacheTest, TouchGivesANewTtlFromNowOn) {
  auto cache = NewCache();
  cache->Set("later", "value", absl::Seconds(10));
  cache->Set("earlier", "value", absl::Seconds(10));
  cache->Set("endless", "value", absl::Seconds(10));
  cache->Set("ending", "value");
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(cache->Touch("later", absl::Seconds(10)));
  EXPECT_TRUE(cache->Touch("earlier", absl::Seconds(1)));
  EXPECT_TRUE(cache->Touch("endless", absl::InfiniteDuration()));
  EXPECT_TRUE(cache->Touch("ending", absl::Seconds(20)));
  EXPECT_EQ(cache->TimeToLive("later"), absl::Seconds(10));
  EXPECT_EQ(cache->TimeToLive("earlier"), absl::Seconds(1));
  EXPECT_EQ(cache->TimeToLive("endless"), absl::InfiniteDuration());
  EXPECT_EQ(cache->TimeToLive("ending"), absl::Seconds(20));
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Shards, tables and entries of so many lie in memory of their own.
TEST_F(CacheTest, CacheOfManyEntriesWorks) {
  constexpr int kEntries = 400'000;
  options_.max_entries = kEntries;
  auto cache = New<int, int>();
  const auto set_and_get = [&](int begin, int end) {
    for (int key = begin; key < end; ++key) {
      ASSERT_TRUE(cache->Set(key, -key, absl::Seconds(1 + key % 7)));
    }
    for (int key = begin; key < end; ++key) ASSERT_EQ(cache->Peek(key), -key);
    ASSERT_TRUE(cache->CheckInvariants().ok());
  };
  set_and_get(0, kEntries);
  set_and_get(kEntries, kEntries + kEntries / 4);  // In others' room.
  EXPECT_EQ(cache->size(), kEntries);
  cache->Clear();
  set_and_get(0, kEntries / 4);
  clock_.Advance(absl::Seconds(8));
  while (cache->RunMaintenance(kEntries) > 0) continue;
  EXPECT_EQ(cache->size(), 0);
}

// Handles.

// A value whose owners can be counted from outside.
using Value = std::shared_ptr<int>;

class CacheHandleTest : public CacheEnvironment {};

using HandleCache = Cache<int, Value>;

// And alone keeps it, as soon as it has left.
TEST_F(CacheHandleTest, KeepsItsValueHoweverThatLeaves) {
  options_.max_entries = 1;
  const std::function<void(HandleCache&)> ways_to_leave[] = {
      [](HandleCache& cache) { cache.Set(1, std::make_shared<int>(8)); },
      [](HandleCache& cache) { cache.Del(1); },
      [](HandleCache& cache) { cache.Clear(); },
      [](HandleCache& cache) { cache.Set(2, std::make_shared<int>(8)); },
      [this](HandleCache& cache) {
        clock_.Advance(absl::Seconds(2));
        cache.RunMaintenance();
      }};
  for (const auto& leave : ways_to_leave) {
    auto cache = New<int, Value>();
    const Value value = std::make_shared<int>(7);
    cache->Set(1, value, absl::Seconds(1));
    auto handle = cache->Find(1);
    leave(*cache);
    EXPECT_NE(cache->Peek(1), value);
    EXPECT_EQ(handle.key(), 1);
    EXPECT_EQ(*handle, value);
    EXPECT_EQ(value.use_count(), 2);
    handle = {};
    EXPECT_EQ(value.use_count(), 1);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// Promise: Orderly in tests, fork and shutdown
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

TEST_F(CacheHandleTest, MovedFromHandleIsEmpty) {
  auto cache = New<int, Value>();
  cache->Set(1, std::make_shared<int>(1));
  auto first = cache->Find(1);
  auto second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is tested.
  EXPECT_EQ(**second, 1);
  first = std::move(second);
  EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move)
  auto& same = first;
  first = std::move(same);
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

// Promise: Observable
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

// Keys and values.
class CacheTypesTest : public CacheEnvironment {};

template <typename Text>
void ExpectLooksUp(Cache<std::string, int>& cache, const Text& key) {
  cache.Set(key, 1);
  EXPECT_EQ(cache.Get(key), 1);
  EXPECT_EQ(cache.Peek(key), 1);
  EXPECT_TRUE(cache.Find(key));
  EXPECT_TRUE(cache.Contains(key));
  EXPECT_TRUE(cache.Touch(key, absl::Seconds(1)));
  EXPECT_EQ(cache.TimeToLive(key), absl::Seconds(1));
  EXPECT_EQ(*cache.GetOrLoad(key, [] { return absl::StatusOr<int>(2); }), 1);
  EXPECT_TRUE(cache.Del(key));
}

TEST_F(CacheTypesTest, StringKeysAreLookedUpByAllThatIsAString) {
  auto cache = New<std::string, int>();
  const char* const pointer = "key";
  char array[] = "key";
  ExpectLooksUp(*cache, "key");
  ExpectLooksUp(*cache, pointer);
  ExpectLooksUp(*cache, array);
  ExpectLooksUp(*cache, std::string("key"));
  ExpectLooksUp(*cache, std::string_view("key"));
  ExpectLooksUp(*cache, absl::string_view("key"));
  EXPECT_EQ(cache->size(), 0) << "all name the same key";
}

TEST_F(CacheTypesTest, StringKeysMayHoldAnyBytes) {
  auto cache = New<std::string, int>();
  const std::string zeros("\0\0", 2);
  cache->Set("", 0);
  cache->Set(zeros.substr(0, 1), 1);
  cache->Set(zeros, 2);
  EXPECT_EQ(cache->Get(""), 0);
  EXPECT_EQ(cache->Get(zeros.substr(1)), 1);
  EXPECT_EQ(cache->Get(absl::string_view(zeros)), 2);
}

TEST_F(CacheTypesTest, KeysMayBeStringViews) {
  auto standard = New<std::string_view, int>();
  standard->Set("key", 1);
  EXPECT_EQ(standard->Get(std::string("key")), 1);
  auto abseil = New<absl::string_view, int>();
  abseil->Set("key", 1);
  EXPECT_EQ(abseil->Get(std::string("key")), 1);
}

TEST_F(CacheTypesTest, KeysMayBePairsAndNumbers) {
  auto pairs = New<std::pair<int, std::string>, int>();
  pairs->Set(std::make_pair(1, "a"), 1);
  EXPECT_EQ(pairs->Get(std::make_pair(1, std::string("a"))), 1);
  auto numbers = New<uint64_t, int>();
  numbers->Set(~uint64_t{0}, 1);
  numbers->Set(0, 2);
  EXPECT_EQ(numbers->Get(~uint64_t{0}), 1);
  EXPECT_EQ(numbers->Get(0), 2);
}

TEST_F(CacheTypesTest, MoveOnlyValuesWorkWithAllThatDoesNotCopy) {
  options_.max_entries = 2;
  auto cache = New<std::string, std::unique_ptr<int>>();
  EXPECT_TRUE(cache->Set("a", std::make_unique<int>(1)));
  EXPECT_TRUE(cache->Set("a", std::make_unique<int>(2), absl::Seconds(5)));
  EXPECT_EQ(**cache->Find("a"), 2);
  EXPECT_TRUE(cache->Contains("a"));
  EXPECT_TRUE(cache->Touch("a", absl::Seconds(1)));
  EXPECT_EQ(cache->TimeToLive("a"), absl::Seconds(1));
  EXPECT_TRUE(cache->Del("a"));
  for (int i = 0; i < 5; ++i) {
    cache->Set(std::to_string(i), std::make_unique<int>(i), absl::Seconds(1));
  }
  EXPECT_EQ(cache->stats().evictions, 3);
  clock_.Advance(absl::Seconds(2));
  cache->RunMaintenance();
  EXPECT_EQ(cache->stats().expirations, 2);
  cache->Set("b", std::make_unique<int>(3));
  EXPECT_EQ(cache->EraseIf([](const auto& handle) { return **handle == 3; }),
            1);
}

// Keys and values that are neither copied nor moved are built in place.
struct Immovable {
  explicit Immovable(int n) : number(n) {}
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;
  const int number;
};

TEST_F(CacheTypesTest, ValuesAreBuiltInPlaceFromWhatSetIsGiven) {
  auto cache = New<std::string, Immovable>();
  cache->Set("key", 7);
  EXPECT_EQ(cache->Find("key")->number, 7);
}

bool IsOdd(const Cache<int, int>::Handle& handle) { return *handle % 2 != 0; }

TEST_F(CacheTypesTest, PredicatesMayBeFunctionsOfAllKinds) {
  auto cache = New<int, int>();
  for (int key = 0; key < 10; ++key) cache->Set(key, key);
  EXPECT_EQ(cache->EraseIf(IsOdd), 5);
  const std::function<bool(const Cache<int, int>::Handle&)> is_zero =
      [](const auto& handle) { return *handle == 0; };
  EXPECT_EQ(cache->EraseIf(is_zero), 1);
  int calls = 0;
  EXPECT_TRUE(cache->ForEach([calls](const auto&) mutable { return ++calls; }));
  EXPECT_TRUE(cache->ForEach(
      [held = std::make_unique<int>(1)](const auto&) { return *held == 1; }));
}

// A hash that leaves some of its 64 bits constant, or all of them.
template <int Shift, uint64_t Mask>
struct WeakHash {
  size_t operator()(uint64_t key) const { return (key & Mask) << Shift; }
};

struct Equal {
  bool operator()(uint64_t a, uint64_t b) const { return a == b; }
};

template <typename Hash>
class WeakHashTest : public CacheEnvironment {};

using WeakHashes = ::testing::Types<WeakHash<0, ~uint64_t{0}>,   // Identity.
                                    WeakHash<32, ~uint64_t{0}>,  // High bits.
                                    WeakHash<56, ~uint64_t{0}>,  // One byte.
                                    WeakHash<0, 7>,   // Eight values.
                                    WeakHash<0, 0>>;  // One value.
TYPED_TEST_SUITE(WeakHashTest, WeakHashes);

TYPED_TEST(WeakHashTest, EveryKeyKeepsItsValue) {
  constexpr uint64_t kKeys = 1000;
  for (const int shards : {1, 64}) {
    this->options_.shards = shards;
    auto cache =
        *Cache<uint64_t, uint64_t, TypeParam, Equal>::Create(this->options_);
    for (uint64_t i = 0; i < kKeys; ++i) cache->Set(i, i);
    for (uint64_t i = 0; i < kKeys; i += 2) EXPECT_TRUE(cache->Del(i));
    for (uint64_t i = 1; i < kKeys; i += 4) cache->Set(i, i + 1);
    for (uint64_t i = 0; i < kKeys; ++i) {
      EXPECT_EQ(cache->Get(i), i % 2 == 0   ? std::nullopt
                               : i % 4 == 1 ? std::optional<uint64_t>(i + 1)
                                            : i);
    }
    EXPECT_EQ(cache->size(), kKeys / 2);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// Counts how often keys are compared.
struct CountingEqual {
  static inline int comparisons = 0;
  bool operator()(uint64_t a, uint64_t b) const {
    ++comparisons;
    return a == b;
  }
};

// Promise: Failures leave the cache whole
TEST_F(CacheTypesTest, OneHashForAllKeysCostsOneComparisonPerKeyAtMost) {
  constexpr int kKeys = 500;
  auto cache =
      *Cache<uint64_t, int, WeakHash<0, 0>, CountingEqual>::Create(options_);
  for (int i = 0; i < kKeys; ++i) cache->Set(i, i);
  CountingEqual::comparisons = 0;
  EXPECT_FALSE(cache->Contains(kKeys));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Contains(kKeys - 1));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Set(kKeys - 1, 0));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
  CountingEqual::comparisons = 0;
  EXPECT_TRUE(cache->Del(kKeys - 1));
  EXPECT_LE(CountingEqual::comparisons, kKeys);
}

// Options.

TEST(CacheOptionsTest, DefaultsAreThoseOfTheHeader) {
  const CacheOptions options;
  EXPECT_EQ(kUnlimited, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(options.name, "cache");
  EXPECT_EQ(options.max_entries, kUnlimited);
  EXPECT_EQ(options.max_bytes, kUnlimited);
  EXPECT_EQ(options.default_ttl, absl::InfiniteDuration());
  EXPECT_EQ(options.jitter, 0.05);
  EXPECT_EQ(options.jitter_mode, JitterMode::kAround);
  EXPECT_EQ(options.jitter_seed, std::nullopt);
  EXPECT_EQ(options.policy, EvictionPolicy::kLru);
  EXPECT_EQ(options.refresh_after, absl::InfiniteDuration());
  EXPECT_EQ(options.refresh_at, 1);
  EXPECT_EQ(options.retry_after, absl::Seconds(1));
  EXPECT_EQ(options.max_refreshes, 16);
  EXPECT_FALSE(options.advise);
  EXPECT_EQ(options.shards, 0);
  EXPECT_EQ(options.tick, absl::Milliseconds(1));
  EXPECT_EQ(options.reclaim_delay, absl::Milliseconds(100));
  EXPECT_EQ(options.maintenance_budget, 64);
  EXPECT_EQ(options.clock, &Clock::Monotonic());
  EXPECT_EQ(options.reaper, &Reaper::Shared());
  EXPECT_FALSE(options.stats_log);
}

using Change = std::function<void(CacheOptions&)>;

// The error names the cache, the field, the value and the rule.
TEST(CacheOptionsTest, WhatMakesNoSenseIsRefusedWithTheRule) {
  SimulatedClock clock;
  Reaper reaper(clock);
  struct Refusal {
    Change change;
    std::string value;
    std::string rule;
  };
  const Refusal refusals[] = {
      {[](auto& o) { o.max_entries = 0; }, "max_entries is 0", "at least 1"},
      {[](auto& o) { o.max_bytes = 10; }, "max_bytes is 10", "at least 60"},
      {[](auto& o) { o.max_bytes = -1; }, "max_bytes is -1", "at least 1"},
      {[](auto& o) { o.default_ttl = absl::ZeroDuration(); },
       "default_ttl is 0", "more than zero"},
      {[](auto& o) { o.default_ttl = absl::Seconds(-5); }, "default_ttl is -5s",
       "more than zero"},
      {[](auto& o) { o.idle_ttl = absl::ZeroDuration(); }, "idle_ttl is 0",
       "at least 1us"},
      {[](auto& o) { o.idle_ttl = absl::Nanoseconds(999); },
       "idle_ttl is 999ns", "at least 1us"},
      {[](auto& o) { o.idle_ttl = -absl::InfiniteDuration(); },
       "idle_ttl is -inf", "at least 1us"},
      {[](auto& o) { o.jitter = -0.1; }, "jitter is -0.1", "0 to 1"},
      {[](auto& o) { o.jitter = 1.1; }, "jitter is 1.1", "0 to 1"},
      {[](auto& o) { o.jitter = std::nan(""); }, "jitter is nan", "0 to 1"},
      {[](auto& o) { o.policy = static_cast<EvictionPolicy>(2); },
       "policy is 2", "kLru or kScanResistant"},
      {[](auto& o) { o.shards = -1; }, "shards is -1",
       "power of two up to 256"},
      {[](auto& o) { o.shards = 6; }, "shards is 6", "power of two up to 256"},
      {[](auto& o) { o.shards = 257; }, "shards is 257",
       "power of two up to 256"},
      {[](auto& o) { o.shards = 512; }, "shards is 512",
       "power of two up to 256"},
      {[](auto& o) { o.tick = absl::ZeroDuration(); }, "tick is 0", "from 1ns"},
      {[](auto& o) { o.tick = absl::InfiniteDuration(); }, "tick is inf",
       "24h"},
      {[](auto& o) { o.reclaim_delay = absl::Milliseconds(-1); },
       "reclaim_delay is -1ms", "not be negative"},
      {[](auto& o) { o.maintenance_budget = 0; }, "maintenance_budget is 0",
       "at least 1"},
      {[](auto& o) { o.clock = nullptr; }, "clock is null", "must be a clock"},
      {[&](auto& o) { o.clock = &clock; }, "reaper is on another clock",
       "RunMaintenance()"},
      {[&](auto& o) { o.reaper = &reaper; }, "reaper is on another clock",
       "RunMaintenance()"}};
  for (const Refusal& refusal : refusals) {
    CacheOptions options;
    options.name = "sessions";
    refusal.change(options);
    const absl::Status status = Cache<int, int>::Create(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("\"sessions\""), HasSubstr(refusal.value),
                      HasSubstr(refusal.rule)));
  }
}

TEST(CacheOptionsTest, ExtremesAreAccepted) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  SimulatedClock clock;
  Reaper reaper(clock);
  const Change changes[] = {
      [](auto& o) { o.max_entries = 1, o.max_bytes = 60; },
      [](auto& o) { o.max_entries = o.max_bytes = kUnlimited; },
      [](auto& o) { o.max_entries = int64_t{1} << 40; },
      [](auto& o) { o.max_bytes = int64_t{1} << 60; },
      [](auto& o) { o.default_ttl = absl::Nanoseconds(1); },
      [](auto& o) { o.jitter = 1; },
      [](auto& o) { o.shards = 1; },
      [](auto& o) { o.shards = 256; },
      [](auto& o) { o.tick = absl::Nanoseconds(1); },
      [](auto& o) { o.tick = absl::Hours(24); },
      [](auto& o) { o.reclaim_delay = absl::ZeroDuration(); },
      [](auto& o) { o.reclaim_delay = absl::InfiniteDuration(); },
      [](auto& o) { o.maintenance_budget = 1; },
      [](auto& o) { o.maintenance_budget = kMost; },
      [&](auto& o) {
        o.clock = &clock;
        o.reaper = &reaper;
      }};
  for (const EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kScanResistant}) {
    for (const Change& change : changes) {
      CacheOptions options;
      options.reaper = nullptr;
      options.policy = policy;
      change(options);
      const auto cache = Cache<int, int>::Create(options);
      ASSERT_TRUE(cache.ok()) << cache.status();
      (*cache)->Set(1, 1);
      EXPECT_TRUE((*cache)->CheckInvariants().ok());
    }
  }
}

template <typename Key, typename Value>
void ExpectLeastLimit(int64_t least,
                      typename Cache<Key, Value>::Hooks hooks = {}) {
  CacheOptions options;
  options.max_bytes = least - 1;
  const absl::Status less = Cache<Key, Value>::Create(options, hooks).status();
  EXPECT_THAT(std::string(less.message()),
              HasSubstr(absl::StrCat("must be at least ", least, ", or no")));
  options.max_bytes = least;
  const auto cache = Cache<Key, Value>::Create(options, hooks);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE((*cache)->Set(Key(), Value()));
  EXPECT_EQ((*cache)->bytes(), least);
}

TEST(CacheOptionsTest, LeastLimitOfBytesHoldsTheSmallestEntry) {
  ExpectLeastLimit<int, int>(40 + 8 + 12);
  ExpectLeastLimit<std::string, std::string>(40 + 8 + 12);
  struct Six {
    int16_t numbers[3] = {};
  };
  ExpectLeastLimit<char, Six>(40 + 8 + 12);
  struct alignas(64) Aligned {
    char c = 0;
  };
  ExpectLeastLimit<char, Aligned>(40 + 56 + 128 + 12);
  ExpectLeastLimit<int, std::array<char, 100'000>>(
      40 + 16 + 12 + static_cast<int64_t>(internal::MallocBytes(100'000)));
  Cache<int, int>::Hooks hooks;
  hooks.weigher = [](int, int) { return uint64_t{0}; };
  ExpectLeastLimit<int, int>(kEntryOverhead, hooks);
}

TEST(CacheOptionsTest, SmallCachesGetOneShardAndLargeOnesMany) {
  CacheOptions options;
  options.max_entries = 4096;
  EXPECT_EQ(internal::ShardCount(options), 1);
  options.max_entries = 100'000;
  EXPECT_EQ(internal::ShardCount(options), 16);
  options.max_entries = 1'000'000'000;
  EXPECT_EQ(internal::ShardCount(options), 64);
  options.max_bytes = 1 << 20;
  EXPECT_EQ(internal::ShardCount(options), 1);
  options.shards = 256;
  EXPECT_EQ(internal::ShardCount(options), 256);
}

}  // namespace
}  // namespace wheelcache
