// User code that the cache runs: it may call the cache back, and whatever else
// it likes, because no lock is held.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using testing::Notification;

// Runs `function` now and then in the middle of user code; not within itself.
class Callback {
 public:
  void operator()() {
    if (function == nullptr || std::exchange(running_, true)) return;
    ++calls;
    function();
    running_ = false;
  }

  std::function<void()> function;
  int calls = 0;

 private:
  bool running_ = false;
};

// A key or value that calls back from all that the cache does with it.
class Caller {
 public:
  explicit Caller(int n, Callback* callback = nullptr)
      : number(n), callback_(callback) {
    Call();
  }
  Caller(const Caller& other) : Caller(other.number, other.callback_) {}
  Caller& operator=(const Caller&) = delete;
  ~Caller() { Call(); }

  const int number;

 private:
  void Call() {
    if (callback_ != nullptr) (*callback_)();
  }

  Callback* const callback_;
};

struct HashCaller {
  size_t operator()(const Caller& caller) const { return caller.number; }
};
struct EqualCaller {
  bool operator()(const Caller& a, const Caller& b) const {
    return a.number == b.number;
  }
};

using CallerCache = Cache<Caller, Caller, HashCaller, EqualCaller>;

class CacheCallbacksTest : public CacheEnvironment {
 protected:
  CacheCallbacksTest() {
    options_.max_entries = 20;
    hooks_.weigher = [this](const Caller&, const Caller&) {
      callback_();
      return uint64_t{1};
    };
    // Not each time: what the callback removes is told after it has returned,
    // and so would call it for ever.
    hooks_.on_removal = [this](const Caller&, const Caller&, RemovalCause) {
      if (++removals_ % 8 == 0) callback_();
    };
  }

  // Makes the cache run user code in all the ways there are, each of which
  // calls `function`.
  void CallBackFromEverywhere(
      const std::function<void(CallerCache&)>& function) {
    auto cache = *CallerCache::Create(options_, hooks_);
    // Not through `cache`, which is null while it destroys its cache.
    callback_.function = [&function, view = cache.get()] { function(*view); };
    for (int i = 0; i < 50; ++i) {
      cache->Set(Make(i), Make(i), absl::Seconds(1));
      cache->Set(Make(i), Make(i));
      (void)cache->Get(Make(i - 1));
      (void)cache->Peek(Make(i - 2));
      (void)cache->Find(Make(i - 3));
      cache->Touch(Make(i), absl::Seconds(2));
      cache->Del(Make(i - 10));
      cache->Set(Make(i), Make(i), absl::ZeroDuration());
      (void)cache->GetOrLoad(Make(i), absl::Seconds(3), [&] {
        callback_();
        return absl::StatusOr<Caller>(Make(i));
      });
      cache->SetIf(Make(i), cache->Find(Make(i)), Make(i));
      cache->SetIf(Make(i + 1), {}, Make(i));
      cache->DelIf(Make(i - 1), cache->Find(Make(i - 1)));
      (void)cache->Take(Make(i - 4));
      int calls = 0;
      cache->Update(Make(i), [&](const auto&) {
        callback_();
        // Always losing to what is called back would never end.
        return ++calls < 4 ? CallerCache::Decision::Set(Make(i))
                           : CallerCache::Decision::Keep();
      });
    }
    clock_.Advance(absl::Seconds(10));
    cache->RunMaintenance();
    cache->Set(Make(1), Make(1));
    cache->Clear();
    EXPECT_TRUE(cache->CheckInvariants().ok());
    cache->Set(Make(1), Make(1));
    EXPECT_GT(callback_.calls, 1000);
    cache = nullptr;
    callback_.function = nullptr;
  }

  Caller Make(int number) { return Caller(number, &callback_); }

  Reaper reaper_{clock_};
  CallerCache::Hooks hooks_;
  Callback callback_;
  std::atomic<int> removals_{0};
};

TEST_F(CacheCallbacksTest, CallbacksMayCallTheCache) {
  int number = 0;
  CallBackFromEverywhere([&](CallerCache& cache) {
    const Caller key(number++ % 60);
    cache.Set(key, Caller(1), absl::Seconds(1));
    cache.Get(key);
    cache.Touch(key, absl::Seconds(2));
    cache.Contains(Caller(3));
    (void)cache.GetOrLoad(Caller(number % 7),
                          [] { return absl::StatusOr<Caller>(Caller(7)); });
    if (number % 3 == 0) cache.Del(key);
    if (number % 3 == 1) (void)cache.Take(Caller(number % 60));
    cache.SetIf(key, cache.Find(key), Caller(2));
    cache.Update(Caller(4), [](const auto& old) {
      if (old) return CallerCache::Decision::Delete();
      return CallerCache::Decision::Set(Caller(5));
    });
    if (number % 50 == 0) cache.Clear();
    cache.RunMaintenance(2);
    cache.stats();
  });
}

// If the callback ran under a lock, the other thread would wait for ever.
TEST_F(CacheCallbacksTest, NoLockIsHeldInCallbacks) {
  CallBackFromEverywhere([&](CallerCache& cache) {
    std::thread([&cache] {
      cache.Clear();
      cache.Set(Caller(1), Caller(1));
      cache.Get(Caller(1));
      cache.RunMaintenance();
    }).join();
  });
}

TEST_F(CacheCallbacksTest, CallbacksMayDestroyAnotherCache) {
  CallBackFromEverywhere([&](CallerCache&) {
    auto other = *CallerCache::Create(options_);
    other->Set(Caller(1), Caller(1), absl::Seconds(1));
  });
}

// At once, or after the wait for readers that other threads make necessary.
TEST_F(CacheCallbacksTest, DestructorsMayUseACacheThatIsDestroyed) {
  options_.max_entries = 10'000;
  for (const bool other_threads_read : {false, true}) {
    Notification has_read;
    Notification may_end;
    std::thread reader([&] {
      auto other = *CallerCache::Create(options_);
      if (other_threads_read) other->Contains(Caller(0));
      has_read.Notify();
      may_end.Wait();
    });
    has_read.Wait();
    auto cache = *CallerCache::Create(options_);
    cache->Set(Caller(0), Make(0));
    int calls = 0;
    callback_.function = [&, view = cache.get()] {
      view->Get(Caller(calls));
      if (++calls < 5) view->Set(Caller(calls), Make(calls));
      view->Del(Caller(0));
    };
    cache = nullptr;
    EXPECT_GE(calls, 5);
    callback_.function = nullptr;
    may_end.Notify();
    reader.join();
  }
}

using IntCache = Cache<int, int>;

// Each Set in a cache for one entry evicts, and so calls the listener again.
TEST_F(CacheCallbacksTest, ListenerMaySetInACacheForOneEntry) {
  options_.max_entries = 1;
  IntCache* cache_view = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause) {
    if (key < 100) {
      EXPECT_TRUE(cache_view->Set(key + 1, 0));
    }
  };
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<int, int>(hooks);
    cache_view = cache.get();
    cache->Set(0, 0);
    cache->Set(1, 0);
    EXPECT_EQ(cache->size(), 1);
    EXPECT_TRUE(cache->CheckInvariants().ok());
  }
}

// However it left. A Set without room would wait for it for ever.
TEST_F(CacheCallbacksTest, ListenerHasTheRoomOfWhatItIsToldOf) {
  options_.max_entries = 1;
  IntCache* cache_view = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause) {
    if (key != 1) return;
    EXPECT_TRUE(cache_view->Set(2, 0));
  };
  auto cache = New<int, int>(hooks);
  cache_view = cache.get();
  const auto expect_that_2_follows_1 = [&](const std::function<void()>& leave) {
    cache->Del(2);
    cache->Set(1, 0, absl::Seconds(1));
    leave();
    EXPECT_FALSE(cache->Contains(1));
    EXPECT_TRUE(cache->Contains(2));
  };
  expect_that_2_follows_1([&] { cache->Del(1); });
  expect_that_2_follows_1([&] { cache->Clear(); });
  expect_that_2_follows_1([&] { cache->Touch(1, absl::ZeroDuration()); });
  expect_that_2_follows_1([&] {
    clock_.Advance(absl::Seconds(1));
    cache->RunMaintenance();
  });
}

// As a write-behind cache does that gives expired values another chance.
TEST_F(CacheCallbacksTest, ListenerOnTheReapersThreadMayRefresh) {
  options_.reaper = &reaper_;
  options_.reclaim_delay = absl::ZeroDuration();
  IntCache* cache_view = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int value, RemovalCause cause) {
    if (cause != RemovalCause::kExpired) return;
    cache_view->Set(key, value + 1, absl::Seconds(1));
  };
  auto cache = New<int, int>(hooks);
  cache_view = cache.get();
  cache->Set(1, 0, absl::Seconds(1));
  clock_.RunFor(absl::Seconds(10) + absl::Milliseconds(500));
  EXPECT_EQ(cache->Get(1), 10);
  cache->Stop();
}

TEST_F(CacheCallbacksTest, ListenerOnTheReapersThreadMayStopAndDestroyCaches) {
  options_.reaper = &reaper_;
  std::unique_ptr<IntCache> other = New<int, int>();
  other->Set(1, 1, absl::Seconds(1));
  IntCache* cache_view = nullptr;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    cache_view->Stop();
    other = nullptr;
  };
  auto cache = New<int, int>(hooks);
  cache_view = cache.get();
  cache->Set(1, 1, absl::Seconds(1));
  clock_.RunFor(absl::Seconds(2));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(cache->stats().expirations, 1);
}

}  // namespace
}  // namespace wheelcache
