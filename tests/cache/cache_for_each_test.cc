// ForEach: what it shows, when nobody changes the cache meanwhile but itself.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using IntCache = Cache<int, int>;

// What ForEach shows, in the order of the keys.
template <typename CacheType>
std::map<int, int> Shown(CacheType* cache) {
  std::map<int, int> shown;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_TRUE(shown.emplace(handle.key(), *handle).second) << handle.key();
    return true;
  }));
  return shown;
}

class ForEachTest : public CacheEnvironment {};

TEST_F(ForEachTest, ShowsNothingOfAnEmptyCache) {
  auto cache = New<int, int>();
  EXPECT_THAT(Shown(cache.get()), IsEmpty());
  cache->Set(1, 1);
  cache->Del(1);
  EXPECT_THAT(Shown(cache.get()), IsEmpty());
}

TEST_F(ForEachTest, ShowsEachLiveValueOnce) {
  for (const int shards : {1, 4, 64}) {
    for (const int64_t budget : {1, 7, 64, 1'000'000}) {
      options_.shards = shards;
      options_.maintenance_budget = budget;
      auto cache = New<int, int>();
      std::map<int, int> all;
      // At each size of the index, and between them.
      for (int key = 0; key < 3000; ++key) {
        cache->Set(key, -key);
        all[key] = -key;
        if (key % 97 == 0) {
          ASSERT_EQ(Shown(cache.get()), all) << key;
        }
      }
      EXPECT_EQ(Shown(cache.get()), all);
    }
  }
}

struct OneHash {
  size_t operator()(int) const { return 42; }
};
struct FewHashes {
  size_t operator()(int key) const { return static_cast<size_t>(key % 5); }
};

TEST_F(ForEachTest, ShowsEachOnceWhereHashesAreEqual) {
  for (const int64_t budget : {1, 64}) {
    options_.maintenance_budget = budget;
    auto one = std::move(*Cache<int, int, OneHash>::Create(options_));
    auto few = std::move(*Cache<int, int, FewHashes>::Create(options_));
    std::map<int, int> all;
    for (int key = 0; key < 400; ++key) {
      one->Set(key, key);
      few->Set(key, key);
      all[key] = key;
      if (key % 31 == 0) {
        ASSERT_EQ(Shown(one.get()), all);
        ASSERT_EQ(Shown(few.get()), all);
      }
    }
  }
}

TEST_F(ForEachTest, ShowsNothingFromTheDeadlineOn) {
  options_.tick = absl::Hours(1);  // So that what has expired is still there.
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Nanoseconds(100));
  cache->Set(2, 20, absl::Nanoseconds(101));
  cache->Set(3, 30);
  clock_.Advance(absl::Nanoseconds(100));
  EXPECT_EQ(cache->size(), 3);
  EXPECT_THAT(Shown(cache.get()), ElementsAre(Pair(2, 20), Pair(3, 30)));
}

// Those that a step has pinned together expire one after the other.
TEST_F(ForEachTest, ShowsNothingThatExpiresWithinTheFunction) {
  auto cache = New<int, int>();
  for (int key = 0; key < 20; ++key) cache->Set(key, key, absl::Seconds(1));
  cache->Set(20, 20);
  int expiring = 0;
  int shown = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    ++shown;
    if (handle.key() < 20) {
      ++expiring;
      clock_.Advance(absl::Seconds(1));
    }
    return true;
  }));
  EXPECT_EQ(expiring, 1);
  EXPECT_EQ(shown, 2);
}

class ForEachRaceTest : public InterruptedCacheEnvironment {};

TEST_F(ForEachRaceTest, ShowsWhatATouchSavesInTheLastInstant) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Milliseconds(5));
  At("read: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Seconds(1)));
    clock_.Advance(absl::Milliseconds(6));
  });
  EXPECT_THAT(Shown(cache.get()), ElementsAre(Pair(1, 10)));
}

TEST_F(ForEachTest, HandleTellsWhatOneOfFindTells) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value", absl::Seconds(10));
  clock_.Advance(absl::Seconds(4));
  IntCache::Handle none;
  Cache<std::string, std::string>::Handle kept;
  cache->ForEach([&](const auto& handle) {
    EXPECT_EQ(handle.key(), "key");
    EXPECT_EQ(*handle, "value");
    EXPECT_EQ(handle.TimeToLive(), absl::Seconds(6));
    EXPECT_EQ(handle.Age(), absl::Seconds(4));
    EXPECT_EQ(handle.charge(), cache->bytes());
    return true;
  });
}

TEST_F(ForEachTest, IsNeitherAUseNorCounted) {
  options_.max_entries = 3;
  auto cache = New<int, int>();
  for (int key = 0; key < 3; ++key) cache->Set(key, key);
  const CacheStats before = cache->stats();
  Shown(cache.get());
  const CacheStats after = cache->stats();
  EXPECT_EQ(after.hits, before.hits);
  EXPECT_EQ(after.misses, before.misses);
  cache->Set(3, 3);
  EXPECT_FALSE(cache->Contains(0)) << "the least recently used";
}

TEST_F(ForEachTest, StopsWhereTheFunctionSaysSo) {
  auto cache = New<int, int>();
  for (int key = 0; key < 100; ++key) cache->Set(key, key);
  for (int most = 1; most <= 100; ++most) {
    int shown = 0;
    EXPECT_FALSE(cache->ForEach([&](const auto&) { return ++shown < most; }));
    EXPECT_EQ(shown, most);
  }
  // No pin is left: what is removed now is destroyed.
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// A value that counts itself.
struct Counted {
  explicit Counted(int* living) : living(*living) { ++*living; }
  Counted(const Counted& other) : living(other.living) { ++living; }
  ~Counted() { --living; }
  int& living;
};

TEST_F(ForEachTest, NoPinIsLeftWhenItStopsOrThrows) {
  int living = 0;
  auto cache = New<int, Counted>();
  for (int key = 0; key < 1000; ++key) cache->Set(key, Counted(&living));
  EXPECT_FALSE(cache->ForEach([](const auto&) { return false; }));
  EXPECT_THROW(cache->ForEach([](const auto&) -> bool { throw 1; }), int);
  int seen = 0;
  EXPECT_THROW(cache->ForEach([&](const auto&) {
    if (++seen == 500) throw 1;
    return true;
  }),
               int);
  cache->Clear();
  cache->RunMaintenance();
  EXPECT_EQ(living, 0);
}

TEST_F(ForEachTest, NoPinIsLeftWithinEqualHashesEither) {
  int living = 0;
  {
    options_.maintenance_budget = 1;
    auto cache = std::move(*Cache<int, Counted, OneHash>::Create(options_));
    for (int key = 0; key < 200; ++key) cache->Set(key, Counted(&living));
    for (int most = 1; most < 200; most += 7) {
      int shown = 0;
      cache->ForEach([&](const auto&) { return ++shown < most; });
    }
    cache->Clear();
    cache->RunMaintenance();
    EXPECT_EQ(living, 0);
  }
}

TEST_F(ForEachTest, ShownValueOutlivesItsRemoval) {
  auto cache = New<int, std::string>();
  for (int key = 0; key < 100; ++key) {
    cache->Set(key, std::string(100, static_cast<char>('a' + key % 26)));
  }
  std::vector<Cache<int, std::string>::Handle> none;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    const int key = handle.key();
    cache->Del(key);
    EXPECT_FALSE(cache->Contains(key));
    EXPECT_EQ(*handle, std::string(100, static_cast<char>('a' + key % 26)));
    return true;
  }));
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(ForEachTest, FunctionMayCallTheCache) {
  options_.max_entries = 2000;
  auto cache = New<int, int>();
  auto other = New<int, int>();
  for (int key = 0; key < 1000; ++key) cache->Set(key, key);
  int shown = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    const int key = handle.key();
    const int value = *handle;
    ++shown;
    EXPECT_EQ(cache->Get(key), value);
    EXPECT_TRUE(cache->Touch(key, absl::Hours(1)));
    EXPECT_TRUE(cache->Set(key, value));
    EXPECT_EQ(*cache->GetOrLoad(-1, []() -> absl::StatusOr<int> { return 7; }),
              7);
    if (shown == 10) {
      EXPECT_GE(Shown(cache.get()).size(), 1000u);
      other.reset();
    }
    if (shown == 20) {
      EXPECT_TRUE(cache->SetLimits(3000, kUnlimited).ok());
    }
    return true;
  }));
  EXPECT_GE(shown, 1000);
  EXPECT_LE(shown, 1001);
}

TEST_F(ForEachTest, FunctionMayClearTheCache) {
  options_.shards = 4;
  options_.maintenance_budget = 1;
  auto cache = New<int, int>();
  for (int key = 0; key < 1000; ++key) cache->Set(key, key);
  int shown = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto&) {
    cache->Clear();
    ++shown;
    return true;
  }));
  EXPECT_LE(shown, 12) << "the bucket that was pinned";
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(ForEachTest, WhatIsSetWithinItIsShownAtMostOnce) {
  options_.maintenance_budget = 1;
  auto cache = New<int, int>();
  for (int key = 0; key < 100; ++key) cache->Set(key, key);
  std::map<int, int> times;
  int next = 100;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_EQ(++times[handle.key()], 1);
    for (int i = 0; i < 20 && next < 20'000; ++i, ++next) {
      cache->Set(next, next);
    }
    return true;
  }));
  for (int key = 0; key < 100; ++key) EXPECT_EQ(times[key], 1) << key;
}

TEST_F(ForEachTest, ChildOfForkGoesOn) {
  auto cache = New<int, int>();
  for (int key = 0; key < 500; ++key) cache->Set(key, key);
  int shown = 0;
  bool is_child_right = true;
  bool in_child = false;
  EXPECT_TRUE(testing::HoldsInChild([&] {
    std::set<int> keys;
    in_child = cache->ForEach([&](const auto& handle) {
      keys.insert(handle.key());
      return true;
    });
    return in_child && keys.size() == 500;
  }));
  cache->ForEach([&](const auto&) {
    if (++shown == 250) {
      is_child_right = testing::HoldsInChild(
          [&] { return Shown(cache.get()).size() == 500; });
    }
    return true;
  });
  EXPECT_TRUE(is_child_right);
  EXPECT_EQ(shown, 500);
}

}  // namespace
}  // namespace wheelcache
