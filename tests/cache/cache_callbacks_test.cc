// User code that the cache runs: listeners, and all other functions. They may
// call the cache back, because no lock is held, and throw.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/notification.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using testing::Notification;

using IntCache = Cache<int, int>;

class RemovalListenerTest : public CacheEnvironment {
 protected:
  std::unique_ptr<IntCache> NewCache() { return New<int, int>(log_.hooks()); }

  static Removal<int, int> Left(int key, int value, RemovalCause cause) {
    return {key, value, cause, {}};
  }

  RemovalLog<int, int> log_;
};

TEST_F(RemovalListenerTest, EachRemovalIsToldWithItsCause) {
  options_.max_entries = 2;
  auto cache = NewCache();
  cache->Set(1, 10);
  cache->Set(1, 11);
  cache->Set(2, 20, absl::Seconds(1));
  cache->Set(3, 30);
  cache->Del(3);
  clock_.Advance(absl::Seconds(1));
  cache->Del(2);
  EXPECT_THAT(log_.Take(), ElementsAre(Left(1, 10, RemovalCause::kReplaced),
                                       Left(1, 11, RemovalCause::kEvicted),
                                       Left(3, 30, RemovalCause::kDeleted),
                                       Left(2, 20, RemovalCause::kExpired)));
}

TEST_F(RemovalListenerTest, RefusedValuesAndTheEndOfTheCacheAreNotTold) {
  auto cache = NewCache();
  cache->Set(1, 1, absl::ZeroDuration());
  cache->Set(2, 2);
  cache = nullptr;
  EXPECT_THAT(log_.Take(), ElementsAre());
}

TEST_F(RemovalListenerTest, EntryHasLeftWhenItIsTold) {
  int told = 0;
  auto cache = NewListening<int, int>(
      [&](auto& of_listener, int key, int, RemovalCause cause) {
        ++told;
        const bool has_another = cause == RemovalCause::kReplaced;
        EXPECT_EQ(of_listener.Contains(key), has_another);
        EXPECT_EQ(of_listener.size(), has_another ? 1 : 0);
      });
  cache->Set(1, 1);
  cache->Set(1, 2);
  cache->Del(1);
  cache->Set(1, 3);
  cache->Clear();
  EXPECT_EQ(told, 3);
}

// Promise: Failures leave the cache whole
TEST_F(RemovalListenerTest, ExceptionsEndInTheCacheAndAreCounted) {
  options_.max_entries = 10;
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  IntCache::Hooks hooks;
  hooks.on_removal = [](int, int, RemovalCause) {
    throw std::runtime_error("from the listener");
  };
  auto cache = New<int, int>(hooks);
  for (int i = 0; i < 20; ++i) cache->Set(i, i, absl::Seconds(1));
  EXPECT_EQ(cache->stats().listener_exceptions, 10);
  EXPECT_TRUE(cache->Del(19));
  clock_.RunFor(absl::Seconds(2));
  EXPECT_EQ(cache->stats().listener_exceptions, 20);
  EXPECT_EQ(reaper.exceptions(), 0);
  EXPECT_EQ(cache->size(), 0);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Promise: Every value is seen once
// Each value is unique; several threads do what removes entries.
TEST_F(RemovalListenerTest, EachEntryIsToldExactlyOnce) {
  constexpr int kThreads = 4;
  constexpr int kSets = 3000;
  options_.max_entries = 50;
  options_.shards = 4;
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  std::vector<std::atomic<int>> told(size_t{kThreads} * kSets);
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int value, RemovalCause) { ++told[value]; };
  auto cache = New<int, int>(hooks);

  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kSets; ++i) {
        const int key = static_cast<int>(random() % 100);
        cache->Set(key, t * kSets + i, absl::Milliseconds(1 + random() % 100));
        if (random() % 4 == 0) cache->Del(key);
        if (random() % 4 == 0) clock_.Advance(absl::Milliseconds(1));
        if (random() % 1000 == 0) cache->Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache->Clear();
  for (size_t value = 0; value < told.size(); ++value) {
    EXPECT_EQ(told[value], 1) << value;
  }
}

// Listeners that remove entries themselves: each entry is told once, in order,
// after the listener has returned.

// How deep a thread is in notifications, and was at most.
struct Depth {
  int now = 0;
  int most = 0;
};

class DepthScope {
 public:
  explicit DepthScope(Depth* depth) : depth_(*depth) {
    depth_.most = std::max(depth_.most, ++depth_.now);
  }
  ~DepthScope() { --depth_.now; }
  DepthScope(const DepthScope&) = delete;
  DepthScope& operator=(const DepthScope&) = delete;

 private:
  Depth& depth_;
};

class RemovalListenerNestingTest : public CacheEnvironment {
 protected:
  // A cache whose listener logs, and then calls `react`.
  std::unique_ptr<IntCache> NewCache(
      std::function<void(IntCache&, int key)> react) {
    return NewListening<int, int>(
        [this, react = std::move(react)](IntCache& of_listener, int key, int,
                                         RemovalCause cause) {
          const DepthScope scope(&depth_);
          told_.emplace_back(key, cause);
          react(of_listener, key);
        });
  }

  static void ExpectWhole(IntCache& cache) {
    EXPECT_TRUE(cache.CheckInvariants().ok()) << cache.CheckInvariants();
    const CacheStats stats = cache.stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.evictions +
                              stats.expirations + stats.replaced);
  }

  static auto Told(int key, RemovalCause cause) {
    return std::pair(key, cause);
  }

  Depth depth_;
  std::vector<std::pair<int, RemovalCause>> told_;
};

// Promise: Your code runs under no lock
TEST_F(RemovalListenerNestingTest, ManyNotificationsTakeTheStackOfOne) {
  options_.max_entries = 1;
  for (const auto& [shards, notifications] :
       {std::pair(1, 100'000), std::pair(16, 10'000)}) {
    options_.shards = shards;
    const int last = notifications;
    bool as_expected = true;
    int told = 0;
    auto cache = NewListening<int, int>(
        [&](auto& of_listener, int key, int, RemovalCause cause) {
          const DepthScope scope(&depth_);
          as_expected =
              as_expected && key == told && cause == RemovalCause::kEvicted;
          if (++told < last) of_listener.Set(told + 1, 0);
        });
    cache->Set(0, 0);
    cache->Set(1, 0);
    EXPECT_TRUE(as_expected);
    EXPECT_EQ(told, last);
    EXPECT_EQ(depth_.most, 1);
    EXPECT_EQ(cache->stats().evictions, last);
    EXPECT_TRUE(cache->Contains(last));
    ExpectWhole(*cache);
  }
}

// Promise: Your code runs under no lock
TEST_F(RemovalListenerNestingTest, EntriesAreToldInTheOrderOfTheirRemoval) {
  options_.shards = 1;
  auto cache = NewCache([&](IntCache& of_listener, int key) {
    switch (key) {
      case 0:
        of_listener.Del(1);
        of_listener.Set(2, 0);
        return;
      case 1:
        of_listener.Clear();  // Of 2 to 4, from the newest.
        of_listener.Set(5, 0);
        of_listener.Set(5, 0);
        return;
      case 3:
        of_listener.Del(5);
        return;
    }
  });
  for (int key = 0; key < 5; ++key) cache->Set(key, 0);
  cache->Del(0);
  EXPECT_THAT(
      told_,
      ElementsAre(
          Told(0, RemovalCause::kDeleted), Told(1, RemovalCause::kDeleted),
          Told(2, RemovalCause::kReplaced), Told(2, RemovalCause::kDeleted),
          Told(4, RemovalCause::kDeleted), Told(3, RemovalCause::kDeleted),
          Told(5, RemovalCause::kReplaced), Told(5, RemovalCause::kDeleted)));
  EXPECT_EQ(depth_.most, 1);
  ExpectWhole(*cache);
}

TEST_F(RemovalListenerNestingTest, CallWithinCountsAtOnce) {
  auto cache = NewCache([&](IntCache& of_listener, int key) {
    const CacheStats before = of_listener.stats();
    EXPECT_EQ(of_listener.Del(key + 1), key < 4);
    EXPECT_EQ(of_listener.stats().deletes, before.deletes + (key < 4 ? 1 : 0));
    EXPECT_EQ(of_listener.stats().entries, before.entries - (key < 4 ? 1 : 0));
    ExpectWhole(of_listener);
  });
  for (int key = 0; key < 5; ++key) cache->Set(key, 0);
  cache->Del(0);
  EXPECT_EQ(told_.size(), 5u);
}

// Its key and value are in memory, whatever took its place.
TEST_F(RemovalListenerNestingTest, EntryIsWholeWhenItIsToldLater) {
  const auto value_of = [](int number) {
    // Some outside the entry's block.
    return std::string(number % 3 == 0 ? 20'000 : 10, 'a' + number % 26);
  };
  constexpr int kLast = 200;
  options_.max_entries = 3;
  options_.shards = 1;
  int told = 0;
  const auto listener = [&](auto& of_listener, std::string_view key,
                            std::string_view value, RemovalCause) {
    const int number = std::stoi(std::string(key));
    EXPECT_EQ(number, told++);
    EXPECT_EQ(value, value_of(number));
    // Evicts others, of which it is told after this.
    for (int next = 2 * number + 3; next < 2 * number + 5; ++next) {
      if (next <= kLast) of_listener.Set(std::to_string(next), value_of(next));
    }
  };
  auto cache = NewListening<std::string, std::string>(listener);
  for (int i = 0; i < 3; ++i) cache->Set(std::to_string(i), value_of(i));
  EXPECT_TRUE(cache->Del("0"));
  EXPECT_EQ(told, kLast - 2);  // All but the last three.
}

TEST_F(RemovalListenerNestingTest, ExceptionsKeepNothingFromBeingTold) {
  options_.max_entries = 1;
  auto cache = NewCache([&](IntCache& of_listener, int key) {
    if (key < 100) of_listener.Set(key + 2, 0);
    throw std::runtime_error("from the listener");
  });
  cache->Set(0, 0);
  cache->Set(1, 0);
  EXPECT_EQ(told_.size(), 101u);
  EXPECT_EQ(cache->stats().listener_exceptions, 101);
  EXPECT_EQ(depth_.most, 1);
  ExpectWhole(*cache);
}

// One level for each cache, and no more.
TEST_F(RemovalListenerNestingTest, CachesThatSetIntoEachOtherNestOnce) {
  constexpr int kLast = 10'000;
  options_.max_entries = 1;
  std::unique_ptr<IntCache> caches[2];
  for (int i = 0; i < 2; ++i) {
    caches[i] = NewCache([&caches, i](IntCache&, int key) {
      if (key < kLast) caches[1 - i]->Set(key + 1, 0);
    });
  }
  for (const auto& cache : caches) cache->Set(0, 0);
  caches[0]->Set(1, 0);
  EXPECT_GE(told_.size(), size_t{kLast});
  EXPECT_LE(depth_.most, 2);
  for (const auto& cache : caches) ExpectWhole(*cache);
}

// Another thread is in no notification, and tells of what it removes itself.
TEST_F(RemovalListenerNestingTest, OtherThreadsTellAtOnce) {
  std::vector<std::pair<int, std::thread::id>> told;
  const auto listener = [&](auto& of_listener, int key, int, RemovalCause) {
    told.emplace_back(key, std::this_thread::get_id());
    if (key != 0) return;
    std::thread::id other_id;
    std::thread([&] {
      other_id = std::this_thread::get_id();
      of_listener.Del(1);
    }).join();
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told.back(), std::pair(1, other_id));
  };
  auto cache = NewListening<int, int>(listener);
  cache->Set(0, 0);
  cache->Set(1, 0);
  cache->Del(0);
  EXPECT_EQ(told.size(), 2u);
}

TEST_F(RemovalListenerNestingTest, MaintenanceWithinANotificationIsToldLater) {
  Reaper reaper(clock_);
  for (Reaper* const served_by : {static_cast<Reaper*>(nullptr), &reaper}) {
    options_.reaper = served_by;
    options_.maintenance_budget = 1;
    auto cache = NewCache(
        [](IntCache& of_listener, int) { of_listener.RunMaintenance(); });
    for (int key = 0; key < 100; ++key) cache->Set(key, 0, absl::Seconds(1));
    clock_.RunFor(absl::Seconds(2));
    cache->RunMaintenance();
    EXPECT_EQ(std::exchange(told_, {}).size(), 100u);
    EXPECT_EQ(depth_.most, 1);
    EXPECT_EQ(cache->stats().expirations, 100);
  }
}

// The table of calls within calls.

// Runs `function` in the middle of user code; not within itself, and not for
// ever, though each call may have others call back.
class Callback {
 public:
  void operator()() {
    if (function == nullptr || left == 0 || std::exchange(running_, true)) {
      return;
    }
    --left;
    ++calls;
    function();
    running_ = false;
  }

  std::function<void()> function;
  int left = 0;
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

using Call = std::function<void(CallerCache&)>;

class CacheCallbacksTest : public CacheEnvironment {
 protected:
  CacheCallbacksTest() {
    options_.max_entries = 20;
    hooks_.weigher = [this](const Caller&, const Caller&) {
      callback_();
      return uint64_t{1};
    };
    hooks_.on_removal = [this](const Caller&, const Caller&, RemovalCause) {
      callback_();
    };
  }

  // Each of which runs user code, its own or that of keys and values.
  std::vector<std::pair<const char*, Call>> Calls() {
    using Decision = CallerCache::Decision;
    return {
        {"Set", [this](auto& c) { c.Set(Next(), Next(), absl::Seconds(1)); }},
        {"Set of what is refused",
         [this](auto& c) { c.Set(Next(), Next(), absl::ZeroDuration()); }},
        {"Get", [this](auto& c) { (void)c.Get(Next()); }},
        {"Peek", [this](auto& c) { (void)c.Peek(Next()); }},
        {"Find", [this](auto& c) { (void)c.Find(Next()); }},
        {"Visit",
         [this](auto& c) {
           c.Visit(Next(), [this](const Caller&) { callback_(); });
         }},
        {"Touch", [this](auto& c) { c.Touch(Next(), absl::Seconds(2)); }},
        {"Del", [this](auto& c) { c.Del(Next()); }},
        {"GetOrLoad",
         [this](auto& c) {
           (void)c.GetOrLoad(Next(), absl::Seconds(3), [&] {
             callback_();
             return absl::StatusOr<Caller>(Next());
           });
         }},
        {"SetIf",
         [this](auto& c) {
           const Caller key = Next();
           c.SetIf(key, c.Find(key), Next());
         }},
        {"SetIf of a new key",
         [this](auto& c) { c.SetIf(Next(), {}, Next()); }},
        {"DelIf",
         [this](auto& c) {
           const Caller key = Next();
           c.DelIf(key, c.Find(key));
         }},
        {"Take", [this](auto& c) { (void)c.Take(Next()); }},
        {"Update",
         [this](auto& c) {
           int calls = 0;
           c.Update(Next(), [&](const auto&) {
             callback_();
             // Always losing to what is called back would never end.
             return ++calls < 4 ? Decision::Set(Next()) : Decision::Keep();
           });
         }},
        {"ForEach",
         [this](auto& c) {
           int shown = 0;
           c.ForEach([&](const auto&) {
             callback_();
             return ++shown < 100;
           });
         }},
        {"EraseIf",
         [this](auto& c) {
           c.EraseIf([&](const auto& handle) {
             callback_();
             return handle.key().number % 3 == 0;
           });
         }},
        {"SetLimits",
         [this](auto& c) {
           (void)c.SetLimits(number_++ % 2 == 0 ? 10 : 20, kUnlimited);
         }},
        {"RunMaintenance",
         [this](auto& c) {
           clock_.Advance(absl::Milliseconds(300));
           c.RunMaintenance();
         }},
        {"Clear", [](auto& c) { c.Clear(); }}};
  }

  // Has each call call `function` back.
  void CallBackFromEverywhere(const Call& function) {
    for (const auto& [name, outer] : Calls()) {
      SCOPED_TRACE(name);
      auto cache = *CallerCache::Create(options_, hooks_);
      const auto fill = [&] {
        for (int i = 0; i < 20; ++i) {
          cache->Set(Next(), Next(), absl::Seconds(1 + i % 3));
        }
      };
      fill();
      // Not through `cache`, which is null while it destroys its cache.
      callback_.function = [&function, view = cache.get()] { function(*view); };
      callback_.calls = 0;
      for (int i = 0; i < 5; ++i) {
        callback_.left = 10;
        outer(*cache);
      }
      callback_.left = 10;
      fill();
      EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
      EXPECT_LE(cache->size(), 20);
      EXPECT_GT(callback_.calls, 0);
      callback_.left = 10;
      cache = nullptr;
      callback_.function = nullptr;
    }
  }

  // Numbers that come again, in an order of their own.
  Caller Next() { return Caller(++number_ * 7 % 30, &callback_); }

  Reaper reaper_{clock_};
  CallerCache::Hooks hooks_;
  Callback callback_;
  int number_ = 0;
};

// Promise: Your code runs under no lock
TEST_F(CacheCallbacksTest, EachCallMayBeMadeWithinEachOther) {
  for (const auto& [name, inner] : Calls()) {
    SCOPED_TRACE(name);
    CallBackFromEverywhere(inner);
  }
}

// Promise: Your code runs under no lock
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
    cache->Set(Caller(0), Caller(0, &callback_));
    int calls = 0;
    callback_.left = 100;
    callback_.function = [&, view = cache.get()] {
      view->Get(Caller(calls));
      if (++calls < 5) view->Set(Caller(calls), Caller(calls, &callback_));
      view->Del(Caller(0));
    };
    cache = nullptr;
    EXPECT_GE(calls, 5);
    callback_.function = nullptr;
    may_end.Notify();
    reader.join();
  }
}

// However it left. A Set without room would wait for it for ever.
TEST_F(CacheCallbacksTest, ListenerHasTheRoomOfWhatItIsToldOf) {
  options_.max_entries = 1;
  auto cache =
      NewListening<int, int>([](auto& of_listener, int key, int, RemovalCause) {
        if (key != 1) return;
        EXPECT_TRUE(of_listener.Set(2, 0));
      });
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
  auto cache = NewListening<int, int>(
      [](auto& of_listener, int key, int value, RemovalCause cause) {
        if (cause != RemovalCause::kExpired) return;
        of_listener.Set(key, value + 1, absl::Seconds(1));
      });
  cache->Set(1, 0, absl::Seconds(1));
  clock_.RunFor(absl::Seconds(10) + absl::Milliseconds(500));
  EXPECT_EQ(cache->Get(1), 10);
  cache->Stop();
}

TEST_F(CacheCallbacksTest, ListenerOnTheReapersThreadMayStopAndDestroyCaches) {
  options_.reaper = &reaper_;
  std::unique_ptr<IntCache> other = New<int, int>();
  other->Set(1, 1, absl::Seconds(1));
  auto cache =
      NewListening<int, int>([&](auto& of_listener, int, int, RemovalCause) {
        of_listener.Stop();
        other = nullptr;
      });
  cache->Set(1, 1, absl::Seconds(1));
  clock_.RunFor(absl::Seconds(2));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(cache->stats().expirations, 1);
}

// What exceptions of user code leave behind: a cache as it was, nothing that is
// held or leaks.

std::atomic<int64_t> objects{0};

// A key or value of which so many copies and moves will succeed, and then one
// throws.
struct Fragile : testing::Counted {
  static inline int intact = -1;

  explicit Fragile(int n) : Counted(&objects), number(n) {}
  Fragile(const Fragile& other) : Counted(other), number(other.number) {
    MaybeThrow();
  }
  // NOLINTNEXTLINE(performance-noexcept-move-constructor)
  Fragile(Fragile&& other) : Counted(other), number(other.number) {
    MaybeThrow();
  }

  const int number;

 private:
  static void MaybeThrow() {
    if (intact-- == 0) throw std::runtime_error("broken");
  }
};

struct HashFragile {
  size_t operator()(const Fragile& fragile) const { return fragile.number; }
};
struct EqualFragile {
  bool operator()(const Fragile& a, const Fragile& b) const {
    return a.number == b.number;
  }
};

template <typename Value>
using FragileCache = Cache<Fragile, Value, HashFragile, EqualFragile>;

class CacheExceptionsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  CacheExceptionsTest() { cache_->Set(old_, Fragile(10)); }
  ~CacheExceptionsTest() override {
    ExpectWhole();
    cache_ = nullptr;
    EXPECT_EQ(objects.load(), 2) << "besides the keys of the test";
  }

  // Has the first copy or move of `call` throw, the second, and so on, each of
  // which must change nothing. Returns how many there are.
  template <typename Call>
  int BreakEachConstruction(Call&& call) {
    for (int intact = 0;; ++intact) {
      const int64_t objects_before = objects.load();
      const int64_t sets_before = cache_->stats().sets;
      Fragile::intact = intact;
      try {
        call();
      } catch (const std::runtime_error&) {
        EXPECT_EQ(objects.load(), objects_before);
        EXPECT_EQ(cache_->stats().sets, sets_before);
        EXPECT_EQ(ValueOf(old_), 10);
        EXPECT_EQ(cache_->size(), 1);
        ExpectWhole();
        continue;
      }
      Fragile::intact = -1;
      return intact;
    }
  }

  // The number of the key's value, or 0.
  int ValueOf(const Fragile& key) {
    int number = 0;
    cache_->Visit(key, [&](const Fragile& value) { number = value.number; });
    return number;
  }

  void ExpectWhole() {
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
  }

  const Fragile old_{1};
  const Fragile new_{2};
  std::unique_ptr<FragileCache<Fragile>> cache_ =
      *FragileCache<Fragile>::Create(options_);
};

// Promise: Failures leave the cache whole
TEST_P(CacheExceptionsTest, WriteThatCannotCopyOrMoveChangesNothing) {
  using Decision = FragileCache<Fragile>::Decision;
  const Fragile value(20);
  const std::function<void(const Fragile&)> writes[] = {
      [&](const Fragile& key) { cache_->Set(key, value); },
      [&](const Fragile& key) {
        cache_->Set(Fragile(key.number), Fragile(20));
      },
      [&](const Fragile& key) {
        EXPECT_EQ(cache_->SetIf(key, cache_->Find(key), value), Put::kStored);
      },
      [&](const Fragile& key) {
        EXPECT_TRUE(cache_->Update(
            key, [&](const auto&) { return Decision::Set(value); }));
      }};
  for (const auto& write : writes) {
    for (const Fragile* const key : {&new_, &old_}) {
      EXPECT_GE(BreakEachConstruction([&] { write(*key); }), 2);
      EXPECT_EQ(ValueOf(*key), 20);
      cache_->Del(new_);
    }
    cache_->Set(old_, Fragile(10));
  }
}

TEST_P(CacheExceptionsTest, ReadThatCannotCopyChangesNothing) {
  EXPECT_EQ(BreakEachConstruction([&] { (void)cache_->Peek(old_); }), 1);
  EXPECT_GE(BreakEachConstruction([&] { (void)cache_->Get(old_); }), 1);
}

TEST_P(CacheExceptionsTest, LoadThatCannotCopyItsKeyIsNotLeftBehind) {
  auto cache = *FragileCache<int>::Create(options_);
  int loads = 0;
  const auto load = [&] { return absl::StatusOr<int>(++loads); };
  const int constructions = BreakEachConstruction([&] {
    EXPECT_EQ(cache->size(), 0);
    EXPECT_TRUE(cache->GetOrLoad(new_, load).ok());
  });
  EXPECT_GE(constructions, 2);  // Into the load and into the cache.
  EXPECT_EQ(cache->Get(new_), loads);
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_P(CacheExceptionsTest, VisitorThatThrowsEndsItsRead) {
  const int64_t objects_before = objects.load();
  EXPECT_THROW(cache_->Visit(old_,
                             [](const Fragile&) {
                               throw std::runtime_error("of the visitor");
                             }),
               std::runtime_error);
  // What leaves is held back by nobody.
  cache_->Del(old_);
  EXPECT_EQ(objects.load(), objects_before - 2);
}

class WeigherExceptionsTest : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  using WeighedCache = Cache<int, Fragile>;

  static WeighedCache::Hooks ThrowingHooks() {
    WeighedCache::Hooks hooks;
    hooks.weigher = [](int, const Fragile& value) -> uint64_t {
      if (value.number < 0) throw std::runtime_error("negative");
      return 0;
    };
    return hooks;
  }

  std::unique_ptr<WeighedCache> cache_ = New<int, Fragile>(ThrowingHooks());
};

// Promise: Failures leave the cache whole
TEST_P(WeigherExceptionsTest, WriteThatCannotWeighChangesNothing) {
  using Decision = WeighedCache::Decision;
  cache_->Set(1, Fragile(1));
  const auto old = cache_->Find(1);
  const std::function<void()> writes[] = {
      [&] { cache_->Set(1, Fragile(-1)); },
      [&] { cache_->Set(2, Fragile(-1)); },
      [&] { cache_->SetIf(1, old, Fragile(-1)); },
      [&] { cache_->SetIf(2, {}, Fragile(-1)); },
      [&] {
        cache_->Update(1,
                       [](const auto&) { return Decision::Set(Fragile(-1)); });
      }};
  for (const auto& write : writes) {
    EXPECT_THROW(write(), std::runtime_error);
    EXPECT_EQ(cache_->Get(1)->number, 1);
    EXPECT_EQ(cache_->size(), 1);
    EXPECT_EQ(cache_->stats().sets, 1);
    EXPECT_EQ(objects.load(), 1);
    EXPECT_TRUE(cache_->CheckInvariants().ok());
  }
  EXPECT_EQ(cache_->SetIf(1, old, Fragile(2)), Put::kStored);
}

TEST_P(WeigherExceptionsTest, LoadThatCannotBeWeighedIsNotLeftBehind) {
  const auto load = [&](int number) {
    return cache_->GetOrLoad(
        1, [&] { return absl::StatusOr<Fragile>(Fragile(number)); });
  };
  EXPECT_THROW((void)load(-1), std::runtime_error);
  EXPECT_EQ(cache_->size(), 0);
  EXPECT_EQ(objects.load(), 0);
  EXPECT_EQ(load(7)->number, 7);
  EXPECT_TRUE(cache_->CheckInvariants().ok());
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheExceptionsTest, testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, WeigherExceptionsTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
