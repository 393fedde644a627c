// Uses of the calls that load which one might not think of first.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
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
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using testing::Notification;
using StringCache = Cache<int, std::string>;
using Result = absl::StatusOr<Loaded<std::string>>;
using Handle = StringCache::Handle;
using Task = std::function<void()>;

Result Value(const std::string& value) { return Loaded<std::string>{value}; }
Result NeverCalled() { return absl::InternalError("called"); }

class CacheLoadUsesTest : public CacheEnvironment {};

TEST_F(CacheLoadUsesTest, ValuesNeedNotBeCopied) {
  using Unique = std::unique_ptr<int>;
  auto cache = New<int, Unique>();
  const auto load = []() -> absl::StatusOr<Loaded<Unique>> {
    return Loaded<Unique>{std::make_unique<int>(7)};
  };
  EXPECT_EQ(*cache->FindOrLoad(1, {}, load)->value(), 7);
  auto ticket = cache->BeginLoad(
      2, {}, [](const auto& result) { EXPECT_EQ(*result->value(), 8); });
  EXPECT_TRUE(ticket.Finish(Loaded<Unique>{std::make_unique<int>(8)}));
  const auto many = cache->FindOrLoadMany(
      {1, 2, 3}, {}, [&](absl::Span<const size_t> missing) {
        std::vector<absl::StatusOr<Loaded<Unique>>> loaded;
        for (const size_t i : missing) {
          loaded.emplace_back(
              Loaded<Unique>{std::make_unique<int>(static_cast<int>(i))});
        }
        return loaded;
      });
  EXPECT_EQ(***many[1], 8);
  EXPECT_EQ(***many[2], 2);
}

TEST_F(CacheLoadUsesTest, AbsenceIsAValueWithATtlOfItsOwn) {
  using Maybe = std::optional<std::string>;
  options_.default_ttl = absl::Minutes(1);
  auto cache = New<int, Maybe>();
  int asked = 0;
  const auto load = [&]() -> absl::StatusOr<Loaded<Maybe>> {
    ++asked;
    return Loaded<Maybe>{std::nullopt, absl::Seconds(5)};
  };
  EXPECT_EQ(**cache->FindOrLoad(1, {}, load), std::nullopt);
  clock_.Advance(absl::Seconds(4));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, load), std::nullopt);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(cache->stats().hits, 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, load), std::nullopt);
  EXPECT_EQ(asked, 2);
  cache->Set(1, Maybe("there"));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, load), "there");
}

TEST_F(CacheLoadUsesTest, StringKeysMayBeGivenAsViews) {
  auto cache = New<std::string, int>();
  std::string buffer = "a key of some length, which is not short";
  const auto load = [] { return absl::StatusOr<Loaded<int>>(Loaded<int>{1}); };
  EXPECT_EQ(**cache->FindOrLoad(std::string_view(buffer), {}, load), 1);
  EXPECT_EQ(*cache->GetOrLoad(std::string_view(buffer), [] { return 2; }), 1);
  EXPECT_EQ(*cache->GetOrLoad("literal", [] { return 3; }), 3);
  auto ticket =
      cache->BeginLoad(std::string_view("begun"), {}, [](const auto&) {});
  EXPECT_EQ(ticket.key(), "begun");
  buffer.assign(buffer.size(), 'x');
  EXPECT_TRUE(ticket.Finish(Loaded<int>{4}));
  EXPECT_EQ(cache->Get("begun"), 4);
  EXPECT_FALSE(cache->Refresh(std::string_view("begun")));
}

TEST_F(CacheLoadUsesTest, LoaderMayAskForACallbackOfItsOwnLoad) {
  auto cache = New<int, std::string>();
  std::string told;
  const auto loaded = cache->FindOrLoad(1, {}, [&] {
    EXPECT_FALSE(cache->BeginLoad(
        1, {}, [&](const auto& result) { told = std::string(**result); }));
    return Value("loaded");
  });
  EXPECT_EQ(loaded->value(), "loaded");
  EXPECT_EQ(told, "loaded");
}

TEST_F(CacheLoadUsesTest, CallbackMayDestroyTheTicketThatCallsIt) {
  auto cache = New<int, std::string>();
  auto ticket = std::make_unique<StringCache::Ticket>();
  const auto destroy = [&](const absl::StatusOr<Handle>&) { ticket = nullptr; };
  *ticket = cache->BeginLoad(1, {}, destroy);
  EXPECT_TRUE(ticket->Finish(Value("one")));
  EXPECT_EQ(ticket, nullptr);
  ticket =
      std::make_unique<StringCache::Ticket>(cache->BeginLoad(2, {}, destroy));
  (void)ticket->Finish(absl::CancelledError("no more"));
  EXPECT_EQ(ticket, nullptr);
}

TEST_F(CacheLoadUsesTest, TicketMayBeMovedOntoItself) {
  auto cache = New<int, std::string>();
  auto ticket = cache->BeginLoad(1, {}, [](const auto&) {});
  auto& same = ticket;
  ticket = std::move(same);
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(ticket.Finish(Value("one")));
}

TEST_F(CacheLoadUsesTest, TicketsOfManyKeysMayBeKeptInAVector) {
  auto cache = New<int, std::string>();
  std::vector<StringCache::Ticket> tickets;
  int told = 0;
  for (int key = 0; key < 100; ++key) {
    tickets.push_back(cache->BeginLoad(key, {}, [&](const auto&) { ++told; }));
  }
  tickets.erase(tickets.begin(), tickets.begin() + 50);
  EXPECT_EQ(told, 50);
  for (auto& ticket : tickets) EXPECT_TRUE(ticket.Finish(Value("x")));
  EXPECT_EQ(cache->size(), 50);
}

TEST_F(CacheLoadUsesTest, ListenerMayLoadWhatHasLeft) {
  options_.max_entries = 1;
  StringCache* self = nullptr;
  std::vector<std::string> loaded;
  StringCache::Hooks hooks;
  hooks.on_removal = [&](int key, std::string_view, RemovalCause cause) {
    if (cause != RemovalCause::kEvicted || loaded.size() >= 3) return;
    const auto again = self->FindOrLoad(
        key, {}, [&] { return Value("again " + std::to_string(key)); });
    loaded.emplace_back(**again);
  };
  auto cache = New<int, std::string>(hooks);
  self = cache.get();
  cache->Set(1, "one");
  EXPECT_TRUE(cache->FindOrLoad(2, {}, [] { return Value("two"); }).ok());
  EXPECT_EQ(loaded.size(), 3U);
  EXPECT_EQ(cache->size(), 1);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

TEST_F(CacheLoadUsesTest, BatchMayBeLargerThanTheCache) {
  options_.max_entries = 2;
  auto cache = New<int, std::string>();
  const std::vector<int> keys = {1, 2, 3, 4, 5};
  const auto results =
      cache->FindOrLoadMany(keys, {}, [&](absl::Span<const size_t> missing) {
        std::vector<Result> loaded;
        for (const size_t i : missing) {
          loaded.push_back(Value(std::to_string(keys[i])));
        }
        return loaded;
      });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(**results[i], std::to_string(i + 1));
  EXPECT_EQ(cache->size(), 2);
}

TEST_F(CacheLoadUsesTest, BatchLoaderMayBeABatchOfAnotherCache) {
  auto near = New<int, std::string>();
  auto far = New<int, std::string>();
  far->Set(2, "far");
  const std::vector<int> keys = {1, 2};
  const auto results =
      near->FindOrLoadMany(keys, {}, [&](absl::Span<const size_t> missing) {
        std::vector<int> asked;
        for (const size_t i : missing) asked.push_back(keys[i]);
        std::vector<Result> loaded;
        for (auto& result : far->FindOrLoadMany(
                 asked, {}, [&](absl::Span<const size_t> positions) {
                   return std::vector<Result>(positions.size(), Value("src"));
                 })) {
          loaded.push_back(Value(std::string(**result)));
        }
        return loaded;
      });
  EXPECT_EQ(**results[0], "src");
  EXPECT_EQ(**results[1], "far");
}

TEST_F(CacheLoadUsesTest, ExecutorMayRunTheTaskAtOnce) {
  StringCache::Hooks hooks;
  int reloads = 0;
  hooks.reload = [&](int, std::string_view old) {
    ++reloads;
    return Value(std::string(old) + "+");
  };
  hooks.executor = [](const Task& task) { task(); };
  options_.refresh_after = absl::Minutes(1);
  auto cache = New<int, std::string>(hooks);
  cache->Set(1, "v");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, NeverCalled), "v");
  EXPECT_EQ(**cache->FindOrLoad(1, {}, NeverCalled), "v+");
  EXPECT_EQ(reloads, 1);
}

TEST_F(CacheLoadUsesTest, ReloadMayAskTheCacheForOtherKeysAndItsOwn) {
  StringCache* self = nullptr;
  StringCache::Hooks hooks;
  hooks.reload = [&](int key, std::string_view) -> Result {
    if (key > 3) return Value("last");
    EXPECT_FALSE(self->Refresh(key));
    EXPECT_EQ(**self->FindOrLoad(key, {}, NeverCalled), "old");
    // Stale as well: this refreshes it.
    return Value(std::string(**self->FindOrLoad(key + 1, {}, NeverCalled)));
  };
  options_.refresh_after = absl::Minutes(1);
  auto cache = New<int, std::string>(hooks);
  self = cache.get();
  for (int key = 1; key <= 4; ++key) cache->Set(key, "old");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, NeverCalled), "last");
}

TEST_F(CacheLoadUsesTest,
       ReloadThatAsksForItsOwnKeyBeyondTheDeadlineIsRefused) {
  StringCache* self = nullptr;
  absl::Status refused;
  StringCache::Hooks hooks;
  hooks.reload = [&](int key, std::string_view) -> Result {
    clock_.Advance(absl::Minutes(2));
    refused = self->FindOrLoad(key, {}, NeverCalled).status();
    return Value("new");
  };
  auto cache = New<int, std::string>(hooks);
  self = cache.get();
  cache->Set(1, "old", absl::Minutes(1));
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(cache->Get(1), "new");
}

TEST_F(CacheLoadUsesTest, ReloadsThatStopTheCacheAtATimeDoNotBlock) {
  StringCache* self = nullptr;
  std::atomic<int> running{0};
  StringCache::Hooks hooks;
  hooks.reload = [&](int, std::string_view) {
    ++running;
    while (running.load() < 2) std::this_thread::yield();
    self->Stop();
    return Value("new");
  };
  auto cache = New<int, std::string>(hooks);
  self = cache.get();
  cache->Set(1, "old");
  cache->Set(2, "old");
  std::thread other([&] { EXPECT_TRUE(cache->Refresh(1)); });
  EXPECT_TRUE(cache->Refresh(2));
  other.join();
  EXPECT_EQ(cache->Get(1), "new");
  EXPECT_EQ(cache->Get(2), "new");
}

TEST_F(CacheLoadUsesTest, NoRefreshBeginsAfterStop) {
  int handed_over = 0;
  for (const bool has_executor : {false, true}) {
    StringCache::Hooks hooks;
    hooks.reload = [](int, std::string_view) { return NeverCalled(); };
    if (has_executor) hooks.executor = [&](const Task&) { ++handed_over; };
    options_.refresh_after = absl::Minutes(1);
    auto cache = New<int, std::string>(hooks);
    cache->Set(1, "old");
    clock_.Advance(absl::Minutes(1));
    cache->Stop();
    EXPECT_FALSE(cache->Refresh(1));
    EXPECT_EQ(**cache->FindOrLoad(1, {}, NeverCalled), "old");
  }
  EXPECT_EQ(handed_over, 0);
}

// Runs tasks one after the other, on one thread.
class OneThread {
 public:
  ~OneThread() {
    Run(nullptr);
    thread_.join();
  }
  void Run(Task task) {
    const std::lock_guard<std::mutex> lock(mu_);
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  Task Next() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return !tasks_.empty(); });
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::thread thread_{[this] {
    while (const Task task = Next()) task();
  }};
};

TEST_F(CacheLoadUsesTest, ThreadOfThePoolMayWaitForAKeyWhoseRefreshIsBehindIt) {
  auto pool = std::make_unique<OneThread>();
  StringCache::Hooks hooks;
  hooks.reload = [](int, std::string_view) { return Value("reloaded"); };
  hooks.executor = [&](Task task) { pool->Run(std::move(task)); };
  options_.refresh_after = absl::Minutes(1);
  options_.default_ttl = absl::Minutes(2);
  auto cache = New<int, std::string>(hooks);
  cache->Set(1, "old");
  Notification refresh_is_queued;
  std::string got;
  pool->Run([&] {
    refresh_is_queued.Wait();
    got = *cache->GetOrLoad(1, [] { return std::string("loaded"); });
  });
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(**cache->FindOrLoad(1, {}, NeverCalled), "old");
  clock_.Advance(absl::Minutes(1));
  refresh_is_queued.Notify();
  pool = nullptr;
  EXPECT_EQ(got, "loaded");
  EXPECT_EQ(cache->Get(1), "loaded");
}

TEST_F(CacheLoadUsesTest, ValueThatWasNotStoredHasNoCharge) {
  StringCache::Hooks hooks;
  hooks.weigher = [](int, std::string_view) { return uint64_t{100}; };
  auto cache = New<int, std::string>(hooks);
  // Where another entry has lain.
  cache->Set(1, "one");
  EXPECT_GT(cache->Find(1).charge(), 0);
  cache->Del(1);
  cache->RunMaintenance();
  const auto brief = cache->FindOrLoad(1, {}, [] {
    return Result(Loaded<std::string>{"one", absl::ZeroDuration()});
  });
  EXPECT_EQ(brief->charge(), 0);
}

TEST_F(CacheLoadUsesTest, LoadThatHasEndedKeepsItsValueNoLonger) {
  using Shared = std::shared_ptr<int>;
  auto cache = New<int, Shared>();
  std::weak_ptr<int> value;
  const auto load = [&]() -> absl::StatusOr<Loaded<Shared>> {
    auto shared = std::make_shared<int>(7);
    value = shared;
    return Loaded<Shared>{std::move(shared)};
  };
  EXPECT_TRUE(cache->FindOrLoad(1, {}, load).ok());
  cache->Del(1);
  cache->RunMaintenance();
  EXPECT_TRUE(value.expired());
  auto ticket = cache->BeginLoad(1, {}, [](const auto&) {});
  cache = nullptr;
  EXPECT_FALSE(ticket.Finish(*load()));
  EXPECT_TRUE(value.expired());
}

TEST_F(CacheLoadUsesTest, RememberedFailureKeepsARefreshFromBeginning) {
  StringCache::Hooks hooks;
  hooks.reload = [](int, std::string_view) { return Value("new"); };
  auto cache = New<int, std::string>(hooks);
  cache->Set(1, "old");
  clock_.Advance(absl::Seconds(1));
  LoadOptions options;
  options.max_age = absl::ZeroDuration();
  options.error_ttl = absl::Seconds(1);
  EXPECT_FALSE(cache->FindOrLoad(1, options, NeverCalled).ok());
  clock_.Advance(absl::Seconds(1) - absl::Nanoseconds(1));
  EXPECT_FALSE(cache->Refresh(1));
  EXPECT_EQ(cache->Get(1), "old");
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_TRUE(cache->Refresh(1));
  EXPECT_EQ(cache->Get(1), "new");
}

// What the call waits is a second in all; what its own loaders take does not
// count.
TEST_F(CacheLoadUsesTest, LimitOfABatchIsForAllItsKeysAndNotForItsLoader) {
  auto cache = New<int, std::string>();
  auto first = cache->BeginLoad(1, {}, [](const auto&) {});
  auto second = cache->BeginLoad(2, {}, [](const auto&) {});
  LoadOptions options;
  options.wait = absl::Seconds(1);
  std::atomic<bool> returned{false};
  std::vector<std::string> got;
  Notification loaded_three;
  const absl::Duration begin = clock_.Now();
  const std::vector<int> keys = {3, 1, 2};
  std::thread batch([&] {
    const auto results = cache->FindOrLoadMany(
        keys, options, [&](absl::Span<const size_t> missing) {
          clock_.Advance(absl::Hours(1));
          if (missing[0] == 0) loaded_three.Notify();
          return std::vector<Result>(missing.size(), Value("own"));
        });
    for (const auto& result : results) {
      got.push_back(result.ok() ? std::string(**result)
                                : std::string(absl::StatusCodeToString(
                                      result.status().code())));
    }
    returned = true;
  });
  loaded_three.Wait();
  first = StringCache::Ticket();  // The batch takes over, now or later.
  while (cache->Get(1) != "own") std::this_thread::yield();
  clock_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(second.Finish(Value("in time")));
  batch.join();
  EXPECT_EQ(got, (std::vector<std::string>{"own", "own", "in time"}));
  EXPECT_EQ(clock_.Now() - begin, absl::Hours(2) + absl::Milliseconds(500));
}

TEST_F(CacheLoadUsesTest, BatchLoaderThatThrowsFailsAllWhoWait) {
  auto cache = New<int, std::string>();
  std::vector<std::string> told;
  const auto tell = [&](const auto& result) {
    told.emplace_back(absl::StatusCodeToString(result.status().code()));
  };
  LoadOptions options;
  options.error_ttl = absl::Hours(1);
  const std::vector<int> keys = {1, 2};
  EXPECT_THROW((void)cache->FindOrLoadMany(
                   keys, options,
                   [&](absl::Span<const size_t>) -> std::vector<Result> {
                     EXPECT_FALSE(cache->BeginLoad(1, {}, tell));
                     EXPECT_FALSE(cache->BeginLoad(2, {}, tell));
                     throw std::runtime_error("lost");
                   }),
               std::runtime_error);
  EXPECT_EQ(told, std::vector<std::string>(2, "UNKNOWN"));
  // What was thrown is not remembered.
  EXPECT_TRUE(cache->FindOrLoad(1, {}, [] { return Value("one"); }).ok());
  EXPECT_TRUE(cache->FindOrLoad(2, {}, [] { return Value("two"); }).ok());
}

}  // namespace
}  // namespace wheelcache
