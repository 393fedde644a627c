// Loaders that ask for keys of each other: a wait that would never end is
// refused, any other is not.

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using IntCache = Cache<int, int>;
using Result = absl::StatusOr<int>;

Result NeverCalled() { return absl::InternalError("a load of its own"); }

bool IsRefused(const Result& result) {
  return absl::IsFailedPrecondition(result.status());
}

// Threads that load one key each, all at the same time.
class Ring {
 public:
  // Thread i loads key i of cache i. Its loader, once all run, returns what
  // `load(i)` does.
  Ring(std::vector<IntCache*> caches, const std::function<Result(int)>& load)
      : results_(caches.size()) {
    std::atomic<size_t> running{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < caches.size(); ++i) {
      threads.emplace_back([&, i] {
        const int key = static_cast<int>(i);
        results_[i] = caches[i]->GetOrLoad(key, [&, key]() -> Result {
          ++running;
          while (running.load() < caches.size()) std::this_thread::yield();
          return load(key);
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // What the threads got, in their order.
  const std::vector<Result>& results() const { return results_; }

 private:
  std::vector<Result> results_;
};

class CacheLoadCycleTest : public CacheEnvironment {
 protected:
  // Each loader of a ring asks for the next key, and does without if it is
  // refused. Expects that one of them is, whichever comes last.
  static void ExpectThatOneIsRefused(const std::vector<IntCache*>& caches) {
    const int count = static_cast<int>(caches.size());
    std::atomic<int> refused{0};
    const Ring ring(caches, [&](int key) -> Result {
      const int next = (key + 1) % count;
      const Result result = caches[next]->GetOrLoad(next, NeverCalled);
      if (result.ok()) return *result + 1;
      EXPECT_TRUE(IsRefused(result)) << result.status();
      ++refused;
      return 0;
    });
    EXPECT_EQ(refused.load(), 1);
    // What the refused loader returned went all the way round.
    int sum = 0;
    for (const Result& result : ring.results()) sum += result.value();
    EXPECT_EQ(sum, count * (count - 1) / 2);
  }
};

TEST_F(CacheLoadCycleTest, OneOfTwoLoadersThatAskForEachOthersKeyIsRefused) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<int, int>();
    ExpectThatOneIsRefused({cache.get(), cache.get()});
  }
}

TEST_F(CacheLoadCycleTest, OneOfThreeLoadersInACycleIsRefused) {
  auto cache = New<int, int>();
  ExpectThatOneIsRefused({cache.get(), cache.get(), cache.get()});
}

TEST_F(CacheLoadCycleTest, CycleOverSeveralCachesIsFound) {
  auto first = New<int, int>();
  auto second = New<int, int>();
  ExpectThatOneIsRefused({first.get(), second.get()});
  ExpectThatOneIsRefused({second.get(), first.get(), first.get()});
}

// What waits is the thread, with all that it loads.
TEST_F(CacheLoadCycleTest, CycleByWayOfALoadWithinALoadIsFound) {
  auto cache = New<int, int>();
  std::atomic<int> refused{0};
  const auto ask = [&](int key) -> Result {
    const Result result = cache->GetOrLoad(key, NeverCalled);
    if (IsRefused(result)) ++refused;
    return 7;
  };
  const Ring ring({cache.get(), cache.get()}, [&](int key) -> Result {
    if (key == 1) return ask(0);
    return cache->GetOrLoad(2, [&] { return ask(1); });
  });
  EXPECT_EQ(refused.load(), 1);
  EXPECT_EQ(ring.results()[0].value(), 7);
}

TEST_F(CacheLoadCycleTest, RefusalReachesAllWhoWaitIfTheLoaderReturnsIt) {
  auto cache = New<int, int>();
  const Ring ring({cache.get(), cache.get()}, [&](int key) {
    return cache->GetOrLoad(1 - key, NeverCalled);
  });
  for (const Result& result : ring.results()) EXPECT_TRUE(IsRefused(result));
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(cache->GetOrLoad(0, [] { return Result(5); }).value(), 5);
}

TEST_F(CacheLoadCycleTest, ChainOfLoadersIsNoCycle) {
  constexpr int kLoaders = 5;
  auto cache = New<int, int>();
  const Ring ring(std::vector<IntCache*>(kLoaders, cache.get()),
                  [&](int key) -> Result {
                    if (key == 0) return 0;
                    const Result next = cache->GetOrLoad(key - 1, NeverCalled);
                    return next.value() + 1;
                  });
  for (int key = 0; key < kLoaders; ++key) {
    EXPECT_EQ(ring.results()[key].value(), key);
  }
}

class CacheLoadWaitTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr char kAboutToWait[] = "load: among the waits";
};

// The first thread waits for a load of the second. Once that has ended, the
// second waits for the first, in another load: when the first has just woken
// up, and when it has gone on.
TEST_F(CacheLoadWaitTest, WaitThatHasEndedIsForgotten) {
  for (const bool has_gone_on : {false, true}) {
    auto cache = New<int, int>();
    Notification second_loads;
    Notification first_waits;
    Notification first_has_waited;
    Notification second_waits;
    const auto tell_second = [&] {
      first_has_waited.Notify();
      second_waits.Wait();
    };
    std::thread first([&] {
      const Result result = cache->GetOrLoad(0, [&] {
        second_loads.Wait();
        At(kAboutToWait, [&] {
          first_waits.Notify();
          if (!has_gone_on) At("load: after the wait", tell_second);
        });
        const Result waited_for = cache->GetOrLoad(1, NeverCalled);
        if (has_gone_on) tell_second();
        return waited_for;
      });
      EXPECT_EQ(result.value(), 1);
    });
    EXPECT_TRUE(cache
                    ->GetOrLoad(1,
                                [&] {
                                  second_loads.Notify();
                                  first_waits.Wait();
                                  return Result(1);
                                })
                    .ok());
    first_has_waited.Wait();
    const Result result = cache->GetOrLoad(2, [&] {
      At(kAboutToWait, [&] { second_waits.Notify(); });
      return cache->GetOrLoad(0, NeverCalled);
    });
    EXPECT_EQ(result.value(), 1);
    first.join();
  }
}

// Of waiting threads the child has none, whatever they held.
TEST_F(CacheLoadWaitTest, ChildOfForkFindsACycleWhateverWaitedInTheParent) {
  auto cache = New<int, int>();
  std::atomic<bool> is_about_to_wait{false};
  std::atomic<bool> go_on{false};
  std::thread waiter;
  const Result result = cache->GetOrLoad(1, [&]() -> Result {
    waiter = std::thread([&] {
      At(kAboutToWait, [&] {
        is_about_to_wait.store(true);
        while (!go_on.load()) std::this_thread::yield();
      });
      EXPECT_EQ(cache->GetOrLoad(1, NeverCalled).value(), 3);
    });
    while (!is_about_to_wait.load()) std::this_thread::yield();
    EXPECT_TRUE(testing::HoldsInChild(
        [&] {
          const Result cycle = cache->GetOrLoad(
              2, [&] { return cache->GetOrLoad(2, NeverCalled); });
          return IsRefused(cycle);
        },
        testing::Others::kRun));
    go_on.store(true);
    return 3;
  });
  EXPECT_EQ(result.value(), 3);
  waiter.join();
}

}  // namespace
}  // namespace wheelcache
