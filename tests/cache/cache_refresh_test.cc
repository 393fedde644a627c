// Refresh ahead: who refreshes a value that is old but lives, when, and what
// becomes of the result. For writes that come between its steps see
// cache_load_race_test.cc.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Task = std::function<void()>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result Down(std::string_view) { return absl::UnavailableError("down"); }
Result NeverCalled() { return absl::InternalError("called"); }

// Values are fresh for a minute and live for ten.
class CacheRefreshTest : public CacheEnvironment {
 protected:
  CacheRefreshTest() {
    options_.default_ttl = absl::Minutes(10);
    options_.refresh_after = absl::Minutes(1);
    hooks_.reload = [this](int key, std::string_view old) {
      ++reloads_;
      reloaded_key_ = key;
      return reload_ ? reload_(old) : Value("new");
    };
  }

  // Refreshes run when the test runs them.
  void QueueTasks() {
    hooks_.executor = [this](Task task) { tasks_.push_back(std::move(task)); };
  }
  void RunTasks() {
    for (Task& task : std::exchange(tasks_, {})) task();
  }

  // A cache with a value under key 1, as old as that.
  void NewCacheWithAValue(absl::Duration age) {
    cache_ = New<int, std::string>(hooks_);
    cache_->Set(1, "old");
    clock_.Advance(age);
  }
  void NewCacheWithAStaleValue() { NewCacheWithAValue(absl::Minutes(1)); }

  std::string Ask(int key = 1) {
    const auto handle = cache_->FindOrLoad(key, {}, NeverCalled);
    return handle.ok() ? std::string(**handle) : handle.status().ToString();
  }

  StringCache::Hooks hooks_;
  std::function<Result(std::string_view)> reload_;
  std::atomic<int> reloads_{0};
  std::atomic<int> reloaded_key_{0};
  std::vector<Task> tasks_;
  std::unique_ptr<StringCache> cache_;
};

TEST_F(CacheRefreshTest, WithoutAnExecutorTheCallerGetsTheNewValue) {
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "new");
  EXPECT_EQ(Ask(), "new");
  EXPECT_EQ(reloads_.load(), 1);
  EXPECT_EQ(cache_->TimeToLive(1), absl::Minutes(10));
}

TEST_F(CacheRefreshTest, LoadsAreWhatRefreshesWithoutAReload) {
  int loads = 0;
  hooks_.load = [&](int key) {
    ++loads;
    return absl::StrCat("loaded ", key);
  };
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "new");
  EXPECT_EQ(loads, 0);
  hooks_.reload = nullptr;
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "loaded 1");
  EXPECT_TRUE(cache_->Refresh(1));
  cache_->Del(1);
  EXPECT_EQ(*cache_->GetOrLoad(1), "loaded 1");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(*cache_->GetOrLoad(1), "loaded 1");
  EXPECT_EQ(loads, 4);
}

TEST_F(CacheRefreshTest, ManyBeginAtOnceUpToTheMost) {
  options_.max_refreshes = 3;
  QueueTasks();
  NewCacheWithAValue(absl::Seconds(1));
  for (int key = 2; key <= 5; ++key) cache_->Set(key, "old");
  EXPECT_EQ(cache_->RefreshMany({1, 7, 1, 2}), 2U);
  EXPECT_EQ(cache_->RefreshMany(std::vector<int>{3, 4, 5}), 1U);
  RunTasks();
  EXPECT_EQ(cache_->Get(2), "new");
  EXPECT_EQ(cache_->Get(4), "old");
  EXPECT_EQ(reloads_.load(), 3);
}

TEST_F(CacheRefreshTest, PlainReadsDoNotRefresh) {
  NewCacheWithAStaleValue();
  EXPECT_EQ(cache_->Get(1), "old");
  EXPECT_EQ(*cache_->Find(1), "old");
  EXPECT_EQ(cache_->Peek(1), "old");
  EXPECT_TRUE(cache_->Visit(1, [](std::string_view) {}));
  const auto many = cache_->FindOrLoadMany(
      {1}, {}, [](absl::Span<const size_t>) { return std::vector<Result>(); });
  EXPECT_EQ(**many[0], "old");
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, FractionOfTheLifeCountsAsWell) {
  options_.refresh_after = absl::InfiniteDuration();
  options_.refresh_at = 0.75;
  NewCacheWithAValue(absl::Minutes(7));
  EXPECT_EQ(Ask(), "old");
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(Ask(), "new");
}

TEST_F(CacheRefreshTest, WithAnExecutorAllReadersGetTheOldValueMeanwhile) {
  QueueTasks();
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(tasks_.size(), 1U);
  const std::vector<Task> copies = tasks_;
  RunTasks();
  EXPECT_EQ(Ask(), "new");
  for (const Task& task : copies) task();
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, ExecutorMayRunTheTaskAtOnce) {
  hooks_.executor = [](const Task& task) { task(); };
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(Ask(), "new");
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, FailureKeepsTheOldValueAndIsTriedAgainLater) {
  NewCacheWithAStaleValue();
  reload_ = Down;
  EXPECT_EQ(Ask(), "old");
  clock_.Advance(absl::Seconds(1) - absl::Milliseconds(1));
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(reloads_.load(), 1);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(reloads_.load(), 2);
  reload_ = nullptr;
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Ask(), "new");
}

TEST_F(CacheRefreshTest, ExceptionOfReloadIsAFailure) {
  NewCacheWithAStaleValue();
  reload_ = [](std::string_view) -> Result { throw std::runtime_error("x"); };
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(reloads_.load(), 1);
}

// Promise: One load per key
TEST_F(CacheRefreshTest, SourceThatIsDownIsAskedOnceARetryTime) {
  options_.retry_after = absl::Minutes(1);
  NewCacheWithAStaleValue();
  reload_ = Down;
  while (cache_->Contains(1)) {
    for (int i = 0; i < 10; ++i) Ask();
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_LE(reloads_.load(), 10 + 1);
  EXPECT_GE(reloads_.load(), 9);
}

// Nobody may ever ask for such a key again.
TEST_F(CacheRefreshTest, FailureLeavesNothingBehindOfAValueThatIsReclaimed) {
  using Key = std::shared_ptr<int>;
  std::unique_ptr<Cache<Key, int>> cache;
  Cache<Key, int>::Hooks hooks;
  hooks.reload = [&](const Key&, int) -> absl::StatusOr<Loaded<int>> {
    clock_.Advance(absl::Minutes(10));
    cache->RunMaintenance();
    return absl::UnavailableError("down");
  };
  cache = New<Key, int>(hooks);
  const auto key = std::make_shared<int>(1);
  cache->Set(key, 1);
  EXPECT_TRUE(cache->Refresh(key));
  cache->RunMaintenance();
  EXPECT_EQ(key.use_count(), 1);
}

TEST_F(CacheRefreshTest, TouchAndExpiryDoNotSupersede) {
  NewCacheWithAStaleValue();
  reload_ = [&](std::string_view) {
    EXPECT_TRUE(cache_->Touch(1, absl::Minutes(3)));
    clock_.Advance(absl::Minutes(4));
    EXPECT_FALSE(cache_->Contains(1));
    return Value("after");
  };
  EXPECT_EQ(Ask(), "after");
  EXPECT_EQ(cache_->Get(1), "after");
}

// Promise: One load per key
// Nor do they wait for a thread pool whose threads may all be waiting.
TEST_F(CacheRefreshTest, MissTakesOverARefreshThatIsQueued) {
  QueueTasks();
  NewCacheWithAStaleValue();
  EXPECT_EQ(Ask(), "old");
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(*cache_->GetOrLoad(1, [] { return std::string("loaded"); }),
            "loaded");
  RunTasks();
  EXPECT_EQ(reloads_.load(), 0);
  EXPECT_EQ(cache_->Get(1), "loaded");
}

// A refresh that runs on another thread until it may end.
class RunningRefreshTest : public CacheRefreshTest {
 protected:
  RunningRefreshTest() {
    NewCacheWithAStaleValue();
    reload_ = [&](std::string_view) {
      runs_.Notify();
      may_end_.Wait();
      ended_ = true;
      return Value("new");
    };
    refresher_ = std::thread([&] { EXPECT_EQ(Ask(), "new"); });
    runs_.Wait();
  }
  ~RunningRefreshTest() override { refresher_.join(); }

  Notification runs_;
  Notification may_end_;
  std::atomic<bool> ended_{false};
  std::thread refresher_;
};

TEST_F(RunningRefreshTest, IsJoinedByAMiss) {
  clock_.Advance(absl::Minutes(10));
  Notification told;
  EXPECT_FALSE(cache_->BeginLoad(1, {}, [&](const auto& result) {
    EXPECT_EQ(**result, "new");
    told.Notify();
  }));
  may_end_.Notify();
  told.Wait();
}

TEST_F(RunningRefreshTest, IsAwaitedByStop) {
  std::thread stopper([&] {
    cache_->Stop();
    EXPECT_TRUE(ended_.load());
  });
  may_end_.Notify();
  stopper.join();
}

// Promise: One load per key
TEST_F(CacheRefreshTest, HundredThreadsAtAStaleKeyRunOneReload) {
  NewCacheWithAStaleValue();
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&] {
      const std::string value = Ask();
      EXPECT_TRUE(value == "old" || value == "new") << value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reloads_.load(), 1);
}

// Promise: One load per key
TEST_F(CacheRefreshTest, ExecutorThatThrowsOrDropsReleasesTheClaim) {
  bool throws = true;
  hooks_.executor = [&](const Task&) {
    if (throws) throw std::runtime_error("full");
  };
  NewCacheWithAStaleValue();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Ask(), "old");
    clock_.Advance(absl::Seconds(1));
    throws = !throws;
  }
  throws = true;
  EXPECT_FALSE(cache_->Refresh(1));
  throws = false;
  EXPECT_TRUE(cache_->Refresh(1));
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, RefreshWaitsNeitherForTheAgeNorForTheRetryTime) {
  NewCacheWithAValue(absl::ZeroDuration());
  EXPECT_FALSE(cache_->Refresh(2));
  reload_ = Down;
  EXPECT_TRUE(cache_->Refresh(1));
  reload_ = nullptr;
  EXPECT_TRUE(cache_->Refresh(1));
  EXPECT_EQ(reloads_.load(), 2);
  EXPECT_EQ(cache_->Get(1), "new");
}

TEST_F(CacheRefreshTest, QueuedTasksDoNothingAfterStopOrTheEndOfTheCache) {
  for (const bool stops : {true, false}) {
    QueueTasks();
    NewCacheWithAStaleValue();
    EXPECT_EQ(Ask(), "old");
    EXPECT_EQ(tasks_.size(), 1U);
    if (stops) cache_->Stop();
    if (!stops) cache_ = nullptr;
    RunTasks();
  }
  EXPECT_EQ(reloads_.load(), 0);
}

// Promise: One load per key
TEST_F(CacheRefreshTest, ReloadsThatStopTheCacheAtATimeDoNotBlock) {
  reload_ = [&](std::string_view) {
    while (reloads_.load() < 2) std::this_thread::yield();
    cache_->Stop();
    return Value("last");
  };
  NewCacheWithAValue(absl::ZeroDuration());
  cache_->Set(2, "old");
  std::thread other([&] { EXPECT_TRUE(cache_->Refresh(1)); });
  EXPECT_TRUE(cache_->Refresh(2));
  other.join();
  EXPECT_EQ(cache_->Get(1), "last");
  EXPECT_EQ(cache_->Get(2), "last");
}

TEST_F(CacheRefreshTest, ReloadMayAskTheCacheForOtherKeysAndItsOwn) {
  reload_ = [&](std::string_view) {
    const int key = reloaded_key_.load();
    if (key > 3) return Value("last");
    EXPECT_FALSE(cache_->Refresh(key));
    EXPECT_EQ(Ask(key), "old");
    return Value(Ask(key + 1));  // Stale as well: this refreshes it.
  };
  NewCacheWithAValue(absl::ZeroDuration());
  for (int key = 2; key <= 4; ++key) cache_->Set(key, "old");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Ask(), "last");
}

TEST_F(CacheRefreshTest, ReloadThatAsksForItsOwnKeyBeyondTheDeadlineIsRefused) {
  std::string refused;
  reload_ = [&](std::string_view) {
    clock_.Advance(absl::Minutes(20));
    refused = Ask();
    return Value("new");
  };
  NewCacheWithAStaleValue();
  EXPECT_TRUE(cache_->Refresh(1));
  EXPECT_EQ(refused.substr(0, 19), "FAILED_PRECONDITION");
  EXPECT_EQ(cache_->Get(1), "new");
}

TEST_F(CacheRefreshTest, ValueThatIsNotStoredIsReturnedAndNotAskedForAtOnce) {
  NewCacheWithAStaleValue();
  reload_ = [](std::string_view) -> Result {
    return Loaded<std::string>{"brief", absl::ZeroDuration()};
  };
  EXPECT_EQ(Ask(), "brief");
  EXPECT_EQ(Ask(), "old");
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, OptionsOutOfRangeAreRefused) {
  const auto message = [&] {
    return std::string(
        StringCache::Create(options_, hooks_).status().message());
  };
  options_.refresh_after = absl::ZeroDuration();
  EXPECT_EQ(message(),
            "CacheOptions of \"cache\": refresh_after is 0, must be more than "
            "zero");
  options_.refresh_after = absl::Minutes(1);
  options_.refresh_at = 0;
  EXPECT_EQ(message(),
            "CacheOptions of \"cache\": refresh_at is 0, must be more than 0 "
            "and at most 1");
  options_.refresh_at = 1;
  options_.retry_after = -absl::Seconds(1);
  EXPECT_EQ(message(),
            "CacheOptions of \"cache\": retry_after is -1s, must not be "
            "negative");
  options_.retry_after = absl::Seconds(1);
  options_.max_refreshes = 0;
  EXPECT_EQ(message(),
            "CacheOptions of \"cache\": max_refreshes is 0, must be at least "
            "1");
  options_.max_refreshes = 1;
  hooks_.reload = nullptr;
  EXPECT_EQ(message(),
            "CacheOptions of \"cache\": refresh_after is 1m, must have "
            "Hooks::reload or load");
  hooks_.load = [](int) { return "loaded"; };
  EXPECT_EQ(message(), "");
}

}  // namespace
}  // namespace wheelcache
