// The methods of a cache, one by one: what each returns, and what it leaves.

#include "wheelcache/cache/cache.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

class CacheTest : public CacheEnvironment {
 protected:
  std::unique_ptr<Cache<std::string, std::string>> NewCache() {
    return New<std::string, std::string>();
  }
};

TEST_F(CacheTest, CacheWithDefaultOptionsWorks) {
  auto cache = *Cache<std::string, std::string>::Create({});
  EXPECT_TRUE(cache->Set("key", "value"));
  EXPECT_EQ(cache->Get("key"), "value");
  EXPECT_TRUE(cache->reaper_status().ok());
}

TEST_F(CacheTest, CacheHasAName) {
  options_.name = "sessions";
  EXPECT_EQ(NewCache()->options().name, "sessions");
}

TEST_F(CacheTest, SetsWithAndWithoutTtlAreReadableAtOnce) {
  auto cache = NewCache();
  EXPECT_TRUE(cache->Set("first", "first element"));
  EXPECT_TRUE(cache->Set("second", "second element", absl::Seconds(3)));
  EXPECT_EQ(cache->Get("first"), "first element");
  EXPECT_EQ(cache->Get("second"), "second element");
}

TEST_F(CacheTest, GetOfAnAbsentKeyReturnsNothing) {
  auto cache = NewCache();
  EXPECT_EQ(cache->Get("key"), std::nullopt);
  EXPECT_FALSE(cache->Find("key"));
  EXPECT_EQ(cache->Peek("key"), std::nullopt);
  EXPECT_FALSE(cache->Contains("key"));
  EXPECT_EQ(cache->TimeToLive("key"), std::nullopt);
  EXPECT_FALSE(cache->Touch("key", absl::Seconds(1)));
  EXPECT_FALSE(cache->Del("key"));
}

TEST_F(CacheTest, SetReplacesTheValue) {
  auto cache = NewCache();
  cache->Set("key", "old");
  EXPECT_TRUE(cache->Set("key", "new"));
  EXPECT_EQ(cache->Get("key"), "new");
  EXPECT_EQ(cache->size(), 1);
}

TEST_F(CacheTest, SetReplacesTheTtl) {
  auto cache = NewCache();
  cache->Set("longer", "old", absl::Seconds(1));
  cache->Set("longer", "new", absl::Seconds(3));
  cache->Set("shorter", "old", absl::Seconds(3));
  cache->Set("shorter", "new", absl::Seconds(1));
  cache->Set("endless", "old", absl::Seconds(1));
  cache->Set("endless", "new");
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(cache->Get("longer"), "new");
  EXPECT_EQ(cache->Get("shorter"), std::nullopt);
  EXPECT_EQ(cache->Get("endless"), "new");
}

TEST_F(CacheTest, DelRemovesItsKeyAlone) {
  auto cache = NewCache();
  cache->Set("first", "1");
  cache->Set("second", "2");
  EXPECT_TRUE(cache->Del("first"));
  EXPECT_EQ(cache->Get("first"), std::nullopt);
  EXPECT_EQ(cache->Get("second"), "2");
  EXPECT_FALSE(cache->Del("first"));
}

TEST_F(CacheTest, DelOfAnExpiredValueTellsThatThereWasNone) {
  auto cache = NewCache();
  cache->Set("key", "value", absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->size(), 1);
  EXPECT_FALSE(cache->Del("key"));
  EXPECT_EQ(cache->size(), 0);
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

// With room for two, a use of "a" makes "b" the victim of the third.
TEST_F(CacheTest, GetFindVisitAndTouchCountAsUse) {
  options_.max_entries = 2;
  for (int method = 0; method < 4; ++method) {
    auto cache = NewCache();
    cache->Set("a", "");
    cache->Set("b", "");
    if (method == 0) cache->Get("a");
    if (method == 1) cache->Find("a");
    if (method == 2) cache->Touch("a", absl::Seconds(1));
    if (method == 3) cache->Visit("a", [](std::string_view) {});
    cache->Set("c", "");
    EXPECT_TRUE(cache->Contains("a")) << method;
    EXPECT_FALSE(cache->Contains("b")) << method;
  }
}

TEST_F(CacheTest, PeekContainsAndTimeToLiveCountAsNoUse) {
  options_.max_entries = 2;
  auto cache = NewCache();
  cache->Set("a", "value of a");
  cache->Set("b", "");
  EXPECT_EQ(cache->Peek("a"), "value of a");
  EXPECT_TRUE(cache->Contains("a"));
  EXPECT_EQ(cache->TimeToLive("a"), absl::InfiniteDuration());
  cache->Set("c", "");
  EXPECT_FALSE(cache->Contains("a"));
  EXPECT_EQ(cache->stats().hits, 0);
  EXPECT_EQ(cache->stats().misses, 0);
}

TEST_F(CacheTest, VisitShowsTheValueInPlace) {
  auto cache = NewCache();
  cache->Set("key", "value");
  std::string seen;
  EXPECT_TRUE(cache->Visit("key", [&](std::string_view v) { seen = v; }));
  EXPECT_EQ(seen, "value");
  EXPECT_FALSE(cache->Visit("absent", [](std::string_view) { FAIL(); }));
  EXPECT_EQ(cache->stats().hits, 1);
  EXPECT_EQ(cache->stats().misses, 1);
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

TEST_F(CacheTest, TimeToLiveTellsWhatIsLeftOfTheTtl) {
  auto cache = NewCache();
  cache->Set("key", "value", absl::Seconds(10));
  cache->Set("endless", "value");
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(cache->TimeToLive("key"), absl::Seconds(7));
  EXPECT_EQ(cache->Find("key").TimeToLive(), absl::Seconds(7));
  EXPECT_EQ(cache->TimeToLive("endless"), absl::InfiniteDuration());
  clock_.Advance(absl::Seconds(7));
  EXPECT_EQ(cache->TimeToLive("key"), std::nullopt);
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

TEST_F(CacheTest, TouchDoesNotReviveTheExpired) {
  auto cache = NewCache();
  cache->Set("key", "value", absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(cache->Touch("key", absl::Seconds(1)));
  EXPECT_EQ(cache->Get("key"), std::nullopt);
}

TEST_F(CacheTest, TouchWithATtlOfZeroOrLessDeletes) {
  for (const absl::Duration ttl : {absl::ZeroDuration(), absl::Nanoseconds(-1),
                                   -absl::InfiniteDuration()}) {
    auto cache = NewCache();
    cache->Set("key", "value");
    EXPECT_TRUE(cache->Touch("key", ttl));
    EXPECT_EQ(cache->size(), 0);
    EXPECT_FALSE(cache->Touch("key", ttl));
    EXPECT_EQ(cache->stats().deletes, 1);
  }
}

TEST_F(CacheTest, ClearRemovesAllAndLeavesACacheThatWorks) {
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) {
    cache->Set(std::to_string(i), "value", absl::Seconds(1 + i % 7));
  }
  cache->Clear();
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(cache->bytes(), 0);
  EXPECT_FALSE(cache->Contains("1"));
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  cache->Set("1", "again", absl::Seconds(1));
  EXPECT_EQ(cache->Get("1"), "again");
  EXPECT_TRUE(cache->CheckInvariants().ok());
  clock_.Advance(absl::Seconds(2));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
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

TEST_F(CacheTest, SizeAndBytesAreThoseOfTheEntries) {
  auto cache = NewCache();
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(cache->bytes(), 0);
  cache->Set("a", "short");
  cache->Set("b", std::string(1000, 'x'));
  EXPECT_EQ(cache->size(), 2);
  EXPECT_EQ(cache->bytes(),
            cache->Find("a").charge() + cache->Find("b").charge());
  EXPECT_GE(cache->Find("b").charge(), cache->Find("a").charge() + 1000);
  cache->Del("b");
  EXPECT_EQ(cache->bytes(), cache->Find("a").charge());
}

}  // namespace
}  // namespace wheelcache
