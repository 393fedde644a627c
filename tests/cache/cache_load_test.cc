// GetOrLoad: who runs the loader, who waits for it, and what is stored.

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using Result = absl::StatusOr<std::string>;

// Counts comparisons. A cache without entries compares a key only with those
// that are being loaded, under the lock under which a call joins a load.
struct CountingEqual {
  static inline std::atomic<int> comparisons{0};
  bool operator()(int a, int b) const {
    ++comparisons;
    return a == b;
  }
};

using LoadCache = Cache<int, std::string, DefaultHash<int>, CountingEqual>;

class CacheLoadTest : public CacheEnvironment {
 protected:
  std::unique_ptr<LoadCache> NewCache() { return *LoadCache::Create(options_); }
};

TEST_F(CacheLoadTest, MissLoadsAndStores) {
  auto cache = NewCache();
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("one"); }), "one");
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->stats().misses, 1);
  EXPECT_EQ(cache->stats().sets, 1);
}

TEST_F(CacheLoadTest, HitRunsNoLoader) {
  auto cache = NewCache();
  cache->Set(1, "set");
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("loaded"); }), "set");
  EXPECT_EQ(cache->stats().hits, 1);
  EXPECT_EQ(cache->stats().sets, 1);
}

TEST_F(CacheLoadTest, ExpiredValueIsLoadedAnew) {
  auto cache = NewCache();
  cache->Set(1, "old", absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("new"); }), "new");
}

TEST_F(CacheLoadTest, LoadedValueGetsTheTtl) {
  options_.default_ttl = absl::Minutes(5);
  auto cache = NewCache();
  const auto load = [] { return Result(""); };
  EXPECT_TRUE(cache->GetOrLoad(1, load).ok());
  EXPECT_EQ(cache->TimeToLive(1), absl::Minutes(5));
  EXPECT_TRUE(cache->GetOrLoad(2, absl::Seconds(3), load).ok());
  EXPECT_EQ(cache->TimeToLive(2), absl::Seconds(3));
}

TEST_F(CacheLoadTest, ValueThatCannotBeStoredIsReturnedAllTheSame) {
  options_.max_bytes = 1000;
  auto cache = NewCache();
  const std::string large(2000, 'x');
  EXPECT_EQ(*cache->GetOrLoad(1, [&] { return Result(large); }), large);
  EXPECT_EQ(*cache->GetOrLoad(1, absl::ZeroDuration(),
                              [] { return Result("brief"); }),
            "brief");
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("next"); }), "next");
}

TEST_F(CacheLoadTest, ErrorIsReturnedAndNotStored) {
  auto cache = NewCache();
  const absl::Status error = absl::UnavailableError("down");
  EXPECT_EQ(cache->GetOrLoad(1, [&] { return Result(error); }).status(), error);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("up"); }), "up");
}

// Starts a load of key 1 on this thread, and as many calls for the same key on
// others; ends the load once all of them wait. Returns what they got.
template <typename Load>
std::vector<Result> LoadAmongMany(LoadCache& cache, int callers, Load load) {
  std::vector<Result> results(callers, absl::InternalError("no result"));
  std::vector<std::thread> threads;
  const auto main_load = [&]() -> Result {
    CountingEqual::comparisons = 0;
    for (int i = 1; i < callers; ++i) {
      threads.emplace_back([&, i] {
        results[i] = cache.GetOrLoad(1, [] { return Result("again"); });
      });
    }
    while (CountingEqual::comparisons < callers - 1) std::this_thread::yield();
    return load();
  };
  try {
    results[0] = cache.GetOrLoad(1, main_load);
  } catch (const std::runtime_error&) {
    results[0] = absl::UnknownError("thrown");
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST_F(CacheLoadTest, HundredCallsForOneKeyRunTheLoaderOnce) {
  auto cache = NewCache();
  for (const Result& result :
       LoadAmongMany(*cache, 100, [] { return Result("once"); })) {
    EXPECT_EQ(*result, "once");
  }
  EXPECT_EQ(cache->Get(1), "once");
  EXPECT_EQ(cache->stats().sets, 1);
}

TEST_F(CacheLoadTest, FailingLoaderRunsOnceForAllWhoWait) {
  auto cache = NewCache();
  const absl::Status error = absl::UnavailableError("down");
  for (const Result& result :
       LoadAmongMany(*cache, 100, [&] { return Result(error); })) {
    EXPECT_EQ(result.status(), error);
  }
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheLoadTest, LoaderThatThrowsGivesAnErrorToThoseWhoWait) {
  auto cache = NewCache();
  const auto throws = []() -> Result { throw std::runtime_error("lost"); };
  EXPECT_THROW((void)cache->GetOrLoad(1, throws), std::runtime_error);
  for (const Result& result : LoadAmongMany(*cache, 10, throws)) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnknown);
  }
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("found"); }), "found");
}

// A value that can be copied so many times. Not moved: absl::StatusOr ends a
// program in which that throws.
struct FragileValue {
  static inline std::atomic<int> copies_left{0};
  FragileValue() = default;
  FragileValue(const FragileValue&) {
    if (copies_left-- == 0) throw std::runtime_error("dropped");
  }
  FragileValue(FragileValue&&) = default;
};

TEST_F(CacheLoadTest, CopyThatThrowsFailsItsCallerAlone) {
  using FragileResult = absl::StatusOr<FragileValue>;
  using FragileCache =
      Cache<int, FragileValue, DefaultHash<int>, CountingEqual>;
  auto cache = *FragileCache::Create(options_);
  std::atomic<int> failed{0};
  const auto ask = [&](absl::FunctionRef<FragileResult()> loader) {
    try {
      EXPECT_TRUE(cache->GetOrLoad(1, loader).ok());
    } catch (const std::runtime_error&) {
      ++failed;
    }
  };
  std::thread waiter;
  ask([&]() -> FragileResult {
    CountingEqual::comparisons = 0;
    waiter = std::thread([&] { ask([] { return FragileResult(); }); });
    while (CountingEqual::comparisons < 1) std::this_thread::yield();
    FragileValue::copies_left = 1;
    return FragileValue();
  });
  waiter.join();
  EXPECT_EQ(failed.load(), 1);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Loads key 1 while `overtake` does something to the cache. The result reaches
// the caller in any case.
template <typename Overtake>
void LoadOvertaken(LoadCache& cache, Overtake overtake) {
  EXPECT_EQ(*cache.GetOrLoad(1,
                             [&] {
                               overtake();
                               return Result("loaded");
                             }),
            "loaded");
}

TEST_F(CacheLoadTest, DelBeatsAnOlderLoad) {
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] { EXPECT_FALSE(cache->Del(1)); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheLoadTest, SetBeatsAnOlderLoad) {
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] { cache->Set(1, "set"); });
  EXPECT_EQ(cache->Get(1), "set");
}

TEST_F(CacheLoadTest, SetAndDelBeatAnOlderLoad) {
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] {
    cache->Set(1, "set");
    cache->Del(1);
  });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheLoadTest, ClearBeatsAnOlderLoad) {
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] { cache->Clear(); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheLoadTest, RefusedSetBeatsAnOlderLoad) {
  options_.max_bytes = 1000;
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] { cache->Set(1, "set", absl::ZeroDuration()); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
  LoadOvertaken(*cache, [&] { cache->Set(1, std::string(2000, 'x')); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
  LoadOvertaken(*cache, [&] { cache->Touch(1, absl::ZeroDuration()); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheLoadTest, ChangesOfOtherKeysLeaveALoadAlone) {
  options_.shards = 1;
  auto cache = NewCache();
  LoadOvertaken(*cache, [&] {
    cache->Set(2, "other");
    cache->Del(2);
    cache->Get(1);
    cache->Touch(1, absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), "loaded");
}

// Whoever asks after the Del must not get what was read before it.
TEST_F(CacheLoadTest, CallAfterADelStartsALoadOfItsOwn) {
  auto cache = NewCache();
  Notification started;
  Notification may_end;
  std::thread older([&] {
    EXPECT_EQ(*cache->GetOrLoad(1,
                                [&] {
                                  started.Notify();
                                  may_end.Wait();
                                  return Result("old");
                                }),
              "old");
  });
  started.Wait();
  cache->Del(1);
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("new"); }), "new");
  may_end.Notify();
  older.join();
  EXPECT_EQ(cache->Get(1), "new");
}

TEST_F(CacheLoadTest, EndOfASupersededLoadLeavesItsSuccessorAlone) {
  auto cache = NewCache();
  Notification started;
  Notification may_end;
  std::thread older([&] {
    EXPECT_EQ(*cache->GetOrLoad(1,
                                [&] {
                                  started.Notify();
                                  may_end.Wait();
                                  return Result("old");
                                }),
              "old");
  });
  started.Wait();
  cache->Del(1);
  EXPECT_EQ(*cache->GetOrLoad(1,
                              [&] {
                                may_end.Notify();
                                older.join();
                                return Result("new");
                              }),
            "new");
  EXPECT_EQ(cache->Get(1), "new");
}

TEST_F(CacheLoadTest, LoaderThatAsksForItsOwnKeyGetsAnError) {
  auto cache = NewCache();
  const auto outer = cache->GetOrLoad(
      1, [&] { return cache->GetOrLoad(1, [] { return Result("inner"); }); });
  EXPECT_EQ(outer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return Result("next"); }), "next");
}

TEST_F(CacheLoadTest, LoaderMayLoadOtherKeys) {
  options_.max_entries = 1;
  auto cache = NewCache();
  const auto outer = cache->GetOrLoad(1, [&]() -> Result {
    auto inner = cache->GetOrLoad(2, [] { return Result("inner"); });
    return *inner + " and outer";
  });
  EXPECT_EQ(*outer, "inner and outer");
  EXPECT_EQ(cache->Get(1), "inner and outer");
}

TEST_F(CacheLoadTest, LoadersOfDifferentKeysRunSideBySide) {
  options_.shards = 1;
  auto cache = NewCache();
  Notification first;
  Notification second;
  std::thread other([&] {
    EXPECT_TRUE(cache
                    ->GetOrLoad(2,
                                [&] {
                                  second.Notify();
                                  first.Wait();
                                  return Result("second");
                                })
                    .ok());
  });
  EXPECT_TRUE(cache
                  ->GetOrLoad(1,
                              [&] {
                                first.Notify();
                                second.Wait();
                                return Result("first");
                              })
                  .ok());
  other.join();
  EXPECT_EQ(cache->size(), 2);
}

}  // namespace
}  // namespace wheelcache
