// The background work of a cache, when the values that left it are destroyed,
// the end of it all, and its life in the child of a fork().

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using testing::AwaitSleepOfOthers;
using testing::Counted;
using ::testing::ElementsAre;
using testing::EndInAMinute;
using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::Notification;
using testing::Others;

// What the background thread does for a cache while nobody calls.
class CacheReaperTest : public CacheEnvironment {
 protected:
  CacheReaperTest() {
    options_.reaper = &reaper_;
    clock_.Advance(absl::Hours(1));
  }

  std::unique_ptr<Cache<int, int>> NewCache() {
    return New<int, int>(log_.hooks());
  }

  RemovalLog<int, int> log_;
  Reaper reaper_{clock_};
};

// Promise: Memory comes back by itself
TEST_F(CacheReaperTest, ExpiredEntriesGoWithinTheReclaimDelay) {
  for (const absl::Duration delay :
       {absl::ZeroDuration(), absl::Milliseconds(100), absl::Seconds(5)}) {
    options_.reclaim_delay = delay;
    auto cache = NewCache();
    cache->Set(1, 1, absl::Seconds(2));
    clock_.RunFor(absl::Seconds(2) - absl::Nanoseconds(1));
    EXPECT_EQ(cache->size(), 1);
    clock_.RunFor(delay + options_.tick);
    EXPECT_EQ(cache->size(), 0);
    EXPECT_EQ(cache->bytes(), 0);
    EXPECT_THAT(log_.Take(), ElementsAre(Removal<int, int>{
                                 1, 1, RemovalCause::kExpired, {}}));
  }
}

// Promise: Memory comes back by itself
TEST_F(CacheReaperTest, NothingWakesUpWhileNothingIsDue) {
  auto cache = NewCache();
  cache->Set(1, 1);
  cache->Set(2, 2, absl::Hours(2));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Hours(2) - absl::Nanoseconds(1));
  EXPECT_EQ(clock_.wake_ups(), before);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
  clock_.RunFor(absl::Hours(1000));
  EXPECT_EQ(clock_.wake_ups(), before + 1);
}

TEST_F(CacheReaperTest, TrafficDoesNotWakeTheThread) {
  auto cache = NewCache();
  cache->Set(0, 0, absl::Seconds(1));
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  for (int i = 1; i <= 1000; ++i) {
    cache->Set(i, i, absl::Hours(1));
    cache->Get(i);
    cache->Touch(i, absl::Hours(2));
    cache->Del(i);
  }
  clock_.WaitUntilAsleep();
  EXPECT_EQ(clock_.wake_ups(), before);
}

// A thousand entries that expire within one reclaim_delay cost one wake-up.
TEST_F(CacheReaperTest, OneWakeUpReclaimsAllThatIsDue) {
  options_.maintenance_budget = 4096;
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) {
    cache->Set(i, i, absl::Seconds(10) + absl::Microseconds(99 * i));
  }
  clock_.WaitUntilAsleep();
  const int64_t before = clock_.wake_ups();
  clock_.RunFor(absl::Seconds(10) + options_.reclaim_delay);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_EQ(clock_.wake_ups(), before + 1);
}

TEST_F(CacheReaperTest, EarlierDeadlineWakesTheThreadEarlier) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::Hours(5));
  cache->Set(2, 2, absl::Hours(5));
  clock_.WaitUntilAsleep();
  cache->Touch(1, absl::Seconds(1));
  cache->Set(2, 2, absl::Seconds(2));
  clock_.RunFor(absl::Seconds(1) + options_.reclaim_delay);
  EXPECT_EQ(cache->size(), 1);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(cache->size(), 0);
}

// Promise: Memory comes back by itself
TEST_F(CacheReaperTest, MassExpiryIsWorkedOffWhateverTheBudget) {
  for (const int64_t budget : {int64_t{1}, int64_t{64}, int64_t{1} << 60,
                               std::numeric_limits<int64_t>::max()}) {
    for (const int shards : {1, 16}) {
      options_.maintenance_budget = budget;
      options_.shards = shards;
      auto cache = NewCache();
      for (int i = 0; i < 1000; ++i) cache->Set(i, i, absl::Seconds(1));
      clock_.RunFor(absl::Seconds(1) + options_.reclaim_delay);
      EXPECT_EQ(cache->size(), 0) << budget << " " << shards;
    }
  }
}

// More would show in its latency.
TEST_F(CacheReaperTest, ASetReclaimsFewEntriesBeforeTheThreadDoes) {
  options_.shards = 1;
  auto cache = NewCache();
  for (int i = 0; i < 1000; ++i) cache->Set(i, i, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  for (int i = 0; i < 1000; ++i) {
    const int64_t before = cache->size();
    cache->Set(1000 + i, i);
    EXPECT_GE(cache->size(), before + 1 - 4);
  }
  EXPECT_EQ(cache->size(), 1000);
}

TEST_F(CacheReaperTest, OneThreadServesAllCaches) {
  std::vector<std::unique_ptr<Cache<int, int>>> caches;
  for (int i = 0; i < 20; ++i) {
    caches.push_back(NewCache());
    caches.back()->Set(i, i, absl::Seconds(1 + i));
  }
  clock_.RunFor(absl::Seconds(21));
  const auto removals = log_.Take();
  ASSERT_EQ(removals.size(), 20u);
  for (const auto& removal : removals) {
    EXPECT_EQ(removal.thread, removals[0].thread);
    EXPECT_NE(removal.thread, std::this_thread::get_id());
  }
}

TEST_F(CacheReaperTest, ProcessThatWasStoppedCatchesUpAtOnce) {
  auto cache = NewCache();
  for (int i = 0; i < 100; ++i) cache->Set(i, i, absl::Seconds(i));
  clock_.Advance(absl::Hours(24 * 365));
  clock_.WaitUntilAsleep();
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheReaperTest, EndOfACacheWaitsForTheMaintenanceThatRuns) {
  Notification started;
  Notification may_end;
  Cache<int, int>::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    started.Notify();
    may_end.Wait();
  };
  auto cache = New<int, int>(hooks);
  cache->Set(1, 1, absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  started.Wait();
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};
  std::thread owner([&] {
    ending.store(true);
    cache = nullptr;
    ended.store(true);
  });
  while (!ending.load()) std::this_thread::yield();
  for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
  EXPECT_FALSE(ended.load());
  may_end.Notify();
  owner.join();
}

// Promise: Memory comes back by itself
// Without a thread, those who call do its work.
TEST_F(CacheReaperTest, CacheWithoutAReaperReclaimsWhenItIsUsed) {
  options_.reaper = nullptr;
  options_.shards = 1;
  auto cache = NewCache();
  for (int i = 0; i < 10; ++i) cache->Set(i, i, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->size(), 10);
  cache->Set(10, 10);
  EXPECT_EQ(cache->size(), 1);
}

// When the values that left a cache are destroyed, and what holds them back.
class ReclamationTest : public CacheEnvironment {
 protected:
  std::atomic<int64_t> values_{0};
};

// A thread that stays in a read until it is told to go on.
template <typename CacheType>
class StalledReader {
 public:
  StalledReader(CacheType* cache, int key)
      : thread_([this, cache, key] {
          cache->Visit(key, [this](const Counted&) {
            inside_.store(true);
            while (!go_on_.load()) std::this_thread::yield();
          });
        }) {
    while (!inside_.load()) std::this_thread::yield();
  }
  ~StalledReader() { GoOn(); }

  void GoOn() {
    go_on_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> go_on_{false};
  std::thread thread_;
};

TEST_F(ReclamationTest, AProgramOfOneThreadDestroysValuesAtOnce) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Visit(1, [](const Counted&) {});
  cache->Set(1, Counted(&values_));
  EXPECT_EQ(values_.load(), 1);
  cache->Del(1);
  EXPECT_EQ(values_.load(), 0);
}

// The caller's loop learns when to look, and does not spin meanwhile.
TEST_F(ReclamationTest, NextDeadlineTellsOfWhatAReaderHoldsBack) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  cache->Del(2);
  EXPECT_LE(cache->NextDeadline(), clock_.Now());
  cache->RunMaintenance();
  EXPECT_EQ(cache->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  clock_.Advance(options_.reclaim_delay);
  reader.GoOn();
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), 1);
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
}

// Promise: Memory comes back by itself
TEST_F(ReclamationTest, TheReaperDestroysWhatOtherThreadsMightHaveSeen) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Del(2);
  reader.GoOn();
  clock_.RunFor(options_.reclaim_delay);
  EXPECT_EQ(values_.load(), 1);
  const int64_t wake_ups = clock_.wake_ups();
  clock_.RunFor(absl::Minutes(1));
  EXPECT_EQ(clock_.wake_ups(), wake_ups);
}

TEST_F(ReclamationTest, AStalledReaderDoesNotKeepTheReaperBusy) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  options_.reclaim_delay = absl::ZeroDuration();
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Del(2);
  const int64_t wake_ups = clock_.wake_ups();
  clock_.RunFor(absl::Seconds(1));
  EXPECT_LE(clock_.wake_ups(), wake_ups + 101);
  reader.GoOn();
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(values_.load(), 1);
}

// Promise: Memory comes back by itself
TEST_F(ReclamationTest, AStalledReaderHoldsBackNoMoreThanOneCacheful) {
  constexpr int64_t kEntries = 1'000;
  options_.max_entries = kEntries;
  auto cache = New<int, Counted>();
  for (int key = 0; key < kEntries; ++key) cache->Set(key, Counted(&values_));
  StalledReader reader(cache.get(), 0);
  int64_t most = 0;
  for (int key = 0; key < 100 * kEntries; ++key) {
    cache->Set(key, Counted(&values_));
    most = std::max(most, values_.load());
  }
  // Besides: seventeen collections of a sixteenth of the limit each, until the
  // stall was noticed, and the value under way.
  EXPECT_LE(most, 2 * kEntries + 18 * (kEntries / 16));
  reader.GoOn();
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), kEntries);
}

TEST_F(ReclamationTest, AVisitorMayUseTheCache) {
  auto cache = New<std::string, std::string>();
  cache->Set("a", "1");
  cache->Set("b", "2");
  bool same = false;
  EXPECT_TRUE(cache->Visit("a", [&](const auto& value) {
    EXPECT_EQ(cache->Get("b"), "2");
    cache->Set("a", "3");
    EXPECT_EQ(cache->Get("a"), "3");
    cache->Clear();
    same = value == "1";
  }));
  EXPECT_TRUE(same);
  EXPECT_FALSE(cache->Contains("a"));
}

TEST_F(ReclamationTest, AThreadMayReadOneCacheAfterAnother) {
  std::atomic<int> stage{0};
  auto first = New<int, Counted>();
  auto second = New<int, Counted>();
  first->Set(1, Counted(&values_));
  second->Set(1, Counted(&values_));
  std::thread thread([&] {
    EXPECT_TRUE(first->Contains(1));
    stage.store(1);
    while (stage.load() != 2) std::this_thread::yield();
    EXPECT_TRUE(second->Contains(1));
  });
  while (stage.load() != 1) std::this_thread::yield();
  first.reset();
  EXPECT_EQ(values_.load(), 1);
  stage.store(2);
  thread.join();
}

// The end of a cache, and of its background work; and the child of a fork().

class CacheLifetimeTest : public CacheEnvironment {
 protected:
  Reaper reaper_{clock_};
};

// Promise: Orderly in tests, fork and shutdown
TEST_F(CacheLifetimeTest, StopEndsTheBackgroundWorkAndMayBeCalledTwice) {
  options_.reaper = &reaper_;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  cache->Stop();
  cache->Stop();
  clock_.RunFor(absl::Hours(1));
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(cache->Get(1), std::nullopt);
  EXPECT_TRUE(cache->Set(2, 2, absl::Seconds(1)));
  EXPECT_EQ(cache->Get(2), 2);
  clock_.Advance(absl::Seconds(1));
  EXPECT_GT(cache->RunMaintenance(), 0);
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheLifetimeTest, CacheMayBeDestroyedWhileItsThreadIsBusy) {
  options_.reaper = &reaper_;
  options_.maintenance_budget = 1;
  for (int i = 0; i < 100; ++i) {
    auto cache = New<int, int>();
    for (int key = 0; key < 100; ++key) cache->Set(key, key, absl::Seconds(1));
    clock_.Advance(absl::Minutes(1));
  }
}

// Promise: Orderly in tests, fork and shutdown
TEST_F(CacheLifetimeTest, ChildOfForkGoesOnUsingTheCache) {
  for (const int shards : {1, 64, 256}) {
    options_.shards = shards;
    auto cache = New<std::string, std::string>();
    cache->Set("old", "before");
    EXPECT_TRUE(HoldsInChild([&] {
      cache->Set("old", "after");
      cache->Set("new", "there");
      cache->Del("absent");
      const bool whole = cache->Get("old") == "after" &&
                         cache->Get("new") == "there" && cache->size() == 2 &&
                         cache->CheckInvariants().ok();
      cache->Clear();
      return whole && cache->size() == 0;
    }));
    EXPECT_EQ(cache->Get("old"), "before");
    EXPECT_EQ(cache->size(), 1);
  }
}

// A lock that the child does not release would stop the next fork().
TEST_F(CacheLifetimeTest, ChildOfForkMayForkAgain) {
  auto cache = New<int, std::string>();
  cache->Set(1, "parent");
  EXPECT_TRUE(HoldsInChild([&] {
    cache->Set(1, "child");
    const bool grandchild_holds = HoldsInChild([&] {
      cache->Set(1, "grandchild");
      return cache->Get(1) == "grandchild" && cache->CheckInvariants().ok();
    });
    return grandchild_holds && cache->Get(1) == "child";
  }));
  EXPECT_EQ(cache->Get(1), "parent");
}

// The background thread reclaims all the time, and each fork() waits until it
// has let go of the cache.
TEST_F(CacheLifetimeTest, ForkComesBetweenTheTurnsOfTheBackgroundThread) {
  Reaper reaper(Clock::Monotonic());
  options_.clock = &Clock::Monotonic();
  options_.reaper = &reaper;
  options_.maintenance_budget = 1;
  auto cache = New<int, std::string>();
  const std::string value(100, 'x');
  for (int i = 0; i < 30; ++i) {
    for (int key = 0; key < 1000; ++key) {
      cache->Set(key, value, absl::Milliseconds(1));
    }
    EXPECT_TRUE(HoldsInChild(
        [&] {
          if (!cache->CheckInvariants().ok()) return false;
          cache->RunMaintenance();
          cache->Clear();
          return cache->size() == 0 && internal::NobodyReads();
        },
        Others::kRun));
  }
}

// Handlers of pthread_atfork: before a fork(), in the parent, in the child. One
// of them does something at a time.
int handler_in_use = -1;
std::function<void()> in_handler;

template <int kHandler>
void Handle() {
  if (handler_in_use == kHandler) in_handler();
}

[[maybe_unused]] const int registered_before_the_librarys =
    pthread_atfork(&Handle<0>, &Handle<1>, &Handle<2>);

// Promise: Orderly in tests, fork and shutdown
TEST_F(CacheLifetimeTest, HandlersOfAtForkMayUseTheCache) {
  if (kChildMayStartThreads) options_.reaper = &reaper_;
  for (handler_in_use = 0; handler_in_use < 6; ++handler_in_use) {
    auto cache = New<int, int>();
    cache->Set(0, 0, absl::Seconds(5));
    [[maybe_unused]] static const int registered_after_the_librarys =
        pthread_atfork(&Handle<3>, &Handle<4>, &Handle<5>);
    int uses = 0;
    in_handler = [&] {
      ++uses;
      cache->Set(uses, uses, absl::Seconds(5));
      if (cache->Get(uses) == uses) cache->Del(-uses);
      AwaitSleepOfOthers();  // In a child, Set starts the reaper's thread.
    };
    const auto goes_on = [&] {
      cache->Set(-1, 0, absl::Seconds(1));
      if (cache->size() != uses + 2) return false;
      if (options_.reaper == nullptr) return cache->CheckInvariants().ok();
      clock_.RunFor(absl::Seconds(6));
      return cache->size() == 0;
    };
    EXPECT_TRUE(HoldsInChild([&] {
      return HoldsInChild(goes_on) && goes_on();
    })) << handler_in_use;
    EXPECT_TRUE(goes_on()) << handler_in_use;
  }
  handler_in_use = -1;
}

TEST_F(CacheLifetimeTest, ChildOfForkReclaimsInTheBackground) {
  if (!kChildMayStartThreads) GTEST_SKIP();
  options_.reaper = &reaper_;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(5));
  EXPECT_TRUE(HoldsInChild([&] {
    cache->Set(2, 2, absl::Seconds(1));
    clock_.RunFor(absl::Seconds(6));
    return cache->size() == 0;
  }));
}

TEST_F(CacheLifetimeTest, HandleMayBeLetGoOfInTheChild) {
  auto cache = New<std::string, std::string>();
  cache->Set("key", "value");
  auto handle = cache->Find("key");
  EXPECT_TRUE(HoldsInChild([&] {
    cache.reset();
    const bool whole = *handle == "value";
    handle = {};
    return whole;
  }));
  EXPECT_EQ(*handle, "value");
}

// A loader, a visitor, a listener: user code may fork, and the call it is part
// of ends in the child as in the parent.
TEST_F(CacheLifetimeTest, UserCodeMayFork) {
  auto hooks = Cache<int, int>::Hooks();
  bool in_child = false;
  bool children_end = true;
  const auto fork_here = [&] {
    if (in_child) return;
    const pid_t child = fork();
    in_child = child == 0;
    if (in_child) {
      EndInAMinute();
    } else {
      children_end = children_end && testing::EndedWell(child);
    }
  };
  hooks.on_removal = [&](int, int, RemovalCause) { fork_here(); };
  auto cache = New<int, int>(hooks);
  // Ends a child, and goes on in the parent.
  const auto check = [&](bool holds) {
    holds = holds && cache->Set(3, 3) && cache->Get(3) == 3 &&
            cache->CheckInvariants().ok();
    if (in_child) _exit(holds ? 0 : 1);
    return holds && children_end;
  };
  EXPECT_TRUE(check(*cache->GetOrLoad(1, [&] {
    fork_here();
    return absl::StatusOr<int>(7);
  }) == 7));
  EXPECT_TRUE(check(cache->Visit(3, [&](int value) {
    fork_here();
    EXPECT_EQ(value, 3);
  })));
  EXPECT_TRUE(check(cache->Del(1)));
}

TEST_F(CacheLifetimeTest, ChildOfForkWritesTheLineOfStatistics) {
  int lines = 0;
  options_.stats_log = [&lines](absl::string_view) { ++lines; };
  auto cache = New<int, int>();
  EXPECT_TRUE(HoldsInChild([&] {
    (void)cache->Get(1);
    clock_.Advance(absl::Minutes(1));
    cache->RunMaintenance();
    return lines == 1;
  }));
}

[[noreturn]] void ExitWithACacheThatIsNotDestroyed() {
  static auto& cache = *Cache<int, int>::Create({})->release();
  std::exit(cache.Set(1, 1, absl::Milliseconds(1)) ? 0 : 1);
}

[[noreturn]] void ExitWithACacheThatIsDestroyed() {
  static const auto cache = *Cache<int, int>::Create({});
  std::exit(cache->Set(1, 1, absl::Milliseconds(1)) ? 0 : 1);
}

// A thread that nobody has stopped reads until the process has gone, while the
// destructors of statics run.
[[noreturn]] void ExitWhileAThreadReads() {
  static auto& cache = *Cache<int, int>::Create({})->release();
  cache.Set(1, 1);
  std::atomic<bool> has_read{false};
  std::thread([&has_read] {
    for (;;) {
      if (cache.Get(1) != 1) std::abort();
      cache.Set(2, 2, absl::Milliseconds(1));
      has_read.store(true);
    }
  }).detach();
  while (!has_read.load()) std::this_thread::yield();
  std::exit(0);
}

// Owns its thread, as whoever destroys a cache must: no call may run in it.
[[noreturn]] void ExitWithAThreadThatEndsBeforeItsCache() {
  struct Service {
    Service() {
      while (!has_read.load()) std::this_thread::yield();
    }
    ~Service() {
      stop.store(true);
      reader.join();
    }
    std::unique_ptr<Cache<int, int>> cache = *Cache<int, int>::Create({});
    std::atomic<bool> stop{false};
    std::atomic<bool> has_read{false};
    std::thread reader{[this] {
      while (!stop.load()) {
        cache->Set(1, 1, absl::Milliseconds(1));
        (void)cache->Get(1);
        has_read.store(true);
      }
    }};
  };
  static const Service service;
  std::exit(0);
}

TEST(CacheLifetimeDeathTest, ThreadsMayReadWhileTheProgramExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ::testing::ExitedWithCode well(0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EXIT(ExitWhileAThreadReads(), well, "");
    EXPECT_EXIT(ExitWithAThreadThatEndsBeforeItsCache(), well, "");
  }
}

// Promise: Orderly in tests, fork and shutdown
TEST(CacheLifetimeDeathTest, CacheMayBeAGlobal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ::testing::ExitedWithCode well(0);
  EXPECT_EXIT(ExitWithACacheThatIsNotDestroyed(), well, "");
  EXPECT_EXIT(ExitWithACacheThatIsDestroyed(), well, "");
}

}  // namespace
}  // namespace wheelcache
