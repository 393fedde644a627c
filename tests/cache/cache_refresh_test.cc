// Refresh ahead: who refreshes a value that is old but lives, when, and what
// becomes of the result.

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

Result NeverCalled() { return absl::InternalError("called"); }

// Values are fresh for a minute and live for ten.
class CacheRefreshTest : public CacheEnvironment {
 protected:
  CacheRefreshTest() {
    options_.default_ttl = absl::Minutes(10);
    options_.refresh_after = absl::Minutes(1);
    hooks_.reload = [this](int, std::string_view old) -> Result {
      ++reloads_;
      return reload_ ? reload_(old) : Loaded<std::string>{"new"};
    };
  }

  // Refreshes run when the test runs them.
  void QueueTasks() {
    hooks_.executor = [this](Task task) { tasks_.push_back(std::move(task)); };
  }
  void RunTasks() {
    for (Task& task : std::exchange(tasks_, {})) task();
  }

  std::unique_ptr<StringCache> NewCache() {
    return New<int, std::string>(hooks_);
  }
  // A cache with a value under key 1, as old as that.
  std::unique_ptr<StringCache> NewCacheWithAValue(absl::Duration age) {
    auto cache = NewCache();
    cache->Set(1, "old");
    clock_.Advance(age);
    return cache;
  }

  StringCache::Hooks hooks_;
  std::function<Result(std::string_view)> reload_;
  std::atomic<int> reloads_{0};
  std::vector<Task> tasks_;
};

std::string Ask(StringCache& cache, int key = 1) {
  const auto handle = cache.FindOrLoad(key, {}, NeverCalled);
  return handle.ok() ? std::string(**handle) : handle.status().ToString();
}

TEST_F(CacheRefreshTest, FreshValueIsNotRefreshed) {
  auto cache = NewCacheWithAValue(absl::Seconds(59));
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, WithoutAnExecutorTheCallerGetsTheNewValue) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "new");
  EXPECT_EQ(Ask(*cache), "new");
  EXPECT_EQ(reloads_.load(), 1);
  EXPECT_EQ(cache->TimeToLive(1), absl::Minutes(10));
}

TEST_F(CacheRefreshTest, GetOrLoadAndBeginLoadRefreshToo) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return std::string("no"); }), "new");
  clock_.Advance(absl::Minutes(1));
  std::string told;
  EXPECT_FALSE(cache->BeginLoad(
      1, {}, [&](const auto& result) { told = std::string(**result); }));
  EXPECT_EQ(told, "new");
  EXPECT_EQ(reloads_.load(), 2);
}

TEST_F(CacheRefreshTest, PlainReadsDoNotRefresh) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(cache->Get(1), "old");
  EXPECT_EQ(*cache->Find(1), "old");
  EXPECT_EQ(cache->Peek(1), "old");
  EXPECT_TRUE(cache->Visit(1, [](std::string_view) {}));
  EXPECT_EQ(**cache->FindOrLoadMany({1}, {},
                                    [](absl::Span<const size_t>) {
                                      return std::vector<Result>();
                                    })[0],
            "old");
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, FractionOfTheLifeCountsAsWell) {
  options_.refresh_after = absl::InfiniteDuration();
  options_.refresh_at = 0.75;
  auto cache = NewCacheWithAValue(absl::Minutes(7));
  EXPECT_EQ(Ask(*cache), "old");
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(Ask(*cache), "new");
}

TEST_F(CacheRefreshTest, ValueWithoutADeadlineIsRefreshedByAgeAlone) {
  options_.default_ttl = absl::InfiniteDuration();
  options_.refresh_at = 0.1;
  auto cache = NewCacheWithAValue(absl::Seconds(59));
  EXPECT_EQ(Ask(*cache), "old");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Ask(*cache), "new");
}

TEST_F(CacheRefreshTest, WithAnExecutorAllReadersGetTheOldValueMeanwhile) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(tasks_.size(), 1U);
  RunTasks();
  EXPECT_EQ(Ask(*cache), "new");
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, FailureKeepsTheOldValueAndIsTriedAgainLater) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [](std::string_view) { return absl::UnavailableError("down"); };
  EXPECT_EQ(Ask(*cache), "old");
  clock_.Advance(absl::Seconds(1) - absl::Milliseconds(1));
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(reloads_.load(), 1);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(reloads_.load(), 2);
  reload_ = nullptr;
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Ask(*cache), "new");
}

TEST_F(CacheRefreshTest, RetryTimeIsForFailuresAlone) {
  options_.refresh_after = absl::Milliseconds(100);
  auto cache = NewCacheWithAValue(absl::Milliseconds(100));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(Ask(*cache), "new");
    EXPECT_EQ(reloads_.load(), i);
    clock_.Advance(absl::Milliseconds(100));
  }
}

TEST_F(CacheRefreshTest, LoadOfAYoungerValueKeepsARefreshFromBeginning) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  LoadOptions options;
  options.max_age = absl::Seconds(1);
  auto ticket = cache->BeginLoad(1, options, [](const auto&) {});
  ASSERT_TRUE(ticket);
  EXPECT_FALSE(cache->Refresh(1));
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(reloads_.load(), 0);
  EXPECT_TRUE(ticket.Finish(Loaded<std::string>{"loaded"}));
  EXPECT_TRUE(cache->Refresh(1));
}

TEST_F(CacheRefreshTest, ExceptionOfReloadIsAFailure) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [](std::string_view) -> Result { throw std::runtime_error("x"); };
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(Ask(*cache), "old");
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, SourceThatIsDownIsAskedOnceARetryTime) {
  options_.retry_after = absl::Minutes(1);
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [](std::string_view) { return absl::UnavailableError("down"); };
  while (cache->Contains(1)) {
    for (int i = 0; i < 100; ++i) Ask(*cache);
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_LE(reloads_.load(), 10 + 1);
  EXPECT_GE(reloads_.load(), 9);
}

TEST_F(CacheRefreshTest, DeadlineEndsTheOldValueRegardless) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  clock_.Advance(absl::Minutes(9));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheRefreshTest, WritesSupersedeARefreshThatIsQueued) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  cache->Set(1, "set");
  RunTasks();
  EXPECT_EQ(cache->Get(1), "set");
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, WritesSupersedeARefreshThatRuns) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [&](std::string_view) -> Result {
    cache->Del(1);
    return Loaded<std::string>{"before the Del"};
  };
  EXPECT_EQ(Ask(*cache), "before the Del");
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheRefreshTest, TouchAndExpiryDoNotSupersede) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [&](std::string_view) -> Result {
    EXPECT_TRUE(cache->Touch(1, absl::Minutes(3)));
    clock_.Advance(absl::Minutes(4));
    EXPECT_FALSE(cache->Contains(1));
    return Loaded<std::string>{"after"};
  };
  EXPECT_EQ(Ask(*cache), "after");
  EXPECT_EQ(cache->Get(1), "after");
}

TEST_F(CacheRefreshTest, MissTakesOverARefreshThatIsQueued) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(*cache->GetOrLoad(1, [] { return std::string("loaded"); }),
            "loaded");
  RunTasks();
  EXPECT_EQ(reloads_.load(), 0);
  EXPECT_EQ(cache->Get(1), "loaded");
}

TEST_F(CacheRefreshTest, MissJoinsARefreshThatRuns) {
  Notification runs;
  Notification may_end;
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [&](std::string_view) -> Result {
    runs.Notify();
    may_end.Wait();
    return Loaded<std::string>{"new"};
  };
  std::thread refresher([&] { EXPECT_EQ(Ask(*cache), "new"); });
  runs.Wait();
  clock_.Advance(absl::Minutes(10));
  std::string told;
  EXPECT_FALSE(cache->BeginLoad(
      1, {}, [&](const auto& result) { told = std::string(**result); }));
  may_end.Notify();
  refresher.join();
  EXPECT_EQ(told, "new");
}

TEST_F(CacheRefreshTest, HundredThreadsAtAStaleKeyRunOneReload) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&] {
      const std::string value = Ask(*cache);
      EXPECT_TRUE(value == "old" || value == "new") << value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, NoMoreRefreshesRunThanAreAllowed) {
  QueueTasks();
  options_.max_refreshes = 3;
  auto cache = NewCache();
  for (int key = 0; key < 10; ++key) cache->Set(key, "old");
  clock_.Advance(absl::Minutes(1));
  for (int key = 0; key < 10; ++key) EXPECT_EQ(Ask(*cache, key), "old");
  EXPECT_EQ(tasks_.size(), 3U);
  RunTasks();
  for (int key = 0; key < 10; ++key) Ask(*cache, key);
  EXPECT_EQ(tasks_.size(), 3U);
}

TEST_F(CacheRefreshTest, ExecutorThatThrowsOrDropsReleasesTheClaim) {
  bool throws = true;
  hooks_.executor = [&](const Task&) {
    if (throws) throw std::runtime_error("full");
  };
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Ask(*cache), "old");
    clock_.Advance(absl::Seconds(1));
    throws = !throws;
  }
  throws = true;
  EXPECT_FALSE(cache->Refresh(1));
  throws = false;
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, TaskThatIsRunTwiceReloadsOnce) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  const std::vector<Task> copies = tasks_;
  RunTasks();
  for (const Task& task : copies) task();
  EXPECT_EQ(reloads_.load(), 1);
}

TEST_F(CacheRefreshTest, RefreshStartsOneWhateverTheAge) {
  auto cache = NewCache();
  EXPECT_FALSE(cache->Refresh(1));
  cache->Set(1, "old");
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_EQ(cache->Get(1), "new");
  EXPECT_EQ(cache->stats().hits, 1);
}

TEST_F(CacheRefreshTest, RefreshDoesNotWaitForTheRetryTime) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [](std::string_view) { return absl::UnavailableError("down"); };
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_EQ(reloads_.load(), 2);
}

TEST_F(CacheRefreshTest, SecondRefreshDoesNotRestartTheFirst) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_FALSE(cache->Refresh(1));
  EXPECT_EQ(tasks_.size(), 1U);
}

TEST_F(CacheRefreshTest, QueuedTasksDoNothingAfterStop) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  cache->Stop();
  RunTasks();
  EXPECT_EQ(Ask(*cache), "old");
  RunTasks();
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, QueuedTasksDoNothingAfterTheEndOfTheCache) {
  QueueTasks();
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  EXPECT_EQ(Ask(*cache), "old");
  cache = nullptr;
  RunTasks();
  EXPECT_EQ(reloads_.load(), 0);
}

TEST_F(CacheRefreshTest, StopWaitsForARefreshThatRuns) {
  Notification runs;
  Notification may_end;
  std::atomic<bool> ended{false};
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [&](std::string_view) -> Result {
    runs.Notify();
    may_end.Wait();
    ended = true;
    return Loaded<std::string>{"new"};
  };
  std::thread refresher([&] { EXPECT_EQ(Ask(*cache), "new"); });
  runs.Wait();
  std::thread stopper([&] {
    cache->Stop();
    EXPECT_TRUE(ended.load());
  });
  may_end.Notify();
  stopper.join();
  refresher.join();
}

TEST_F(CacheRefreshTest, ReloadMayStopTheCache) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [&](std::string_view) -> Result {
    cache->Stop();
    return Loaded<std::string>{"last"};
  };
  EXPECT_EQ(Ask(*cache), "last");
}

TEST_F(CacheRefreshTest, ValueThatIsNotStoredIsReturnedAndNotAskedForAtOnce) {
  auto cache = NewCacheWithAValue(absl::Minutes(1));
  reload_ = [](std::string_view) -> Result {
    return Loaded<std::string>{"brief", absl::ZeroDuration()};
  };
  EXPECT_EQ(Ask(*cache), "brief");
  EXPECT_EQ(Ask(*cache), "old");
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
            "Hooks::reload");
}

}  // namespace
}  // namespace wheelcache
