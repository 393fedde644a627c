// Listeners that remove entries themselves: each entry is told once, in order,
// after the listener has returned.

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;

using IntCache = Cache<int, int>;

// Counts how deep a thread is in notifications, and notes the deepest.
class Depth {
 public:
  class Scope {
   public:
    explicit Scope(Depth* depth) : depth_(*depth) {
      if (++depth_.now_ > depth_.most_) depth_.most_ = depth_.now_;
    }
    ~Scope() { --depth_.now_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Depth& depth_;
  };

  int most() const { return most_; }

 private:
  int now_ = 0;
  int most_ = 0;
};

class RemovalListenerNestingTest : public CacheEnvironment {
 protected:
  // A cache whose listener logs, and then calls `react`.
  std::unique_ptr<IntCache> NewCache(std::function<void(int key)> react) {
    IntCache::Hooks hooks;
    hooks.on_removal = [this, react = std::move(react)](int key, int,
                                                        RemovalCause cause) {
      const Depth::Scope scope(&depth_);
      told_.emplace_back(key, cause);
      react(key);
    };
    return New<int, int>(std::move(hooks));
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

TEST_F(RemovalListenerNestingTest, MillionNotificationsTakeTheStackOfOne) {
  options_.max_entries = 1;
  for (const auto& [shards, notifications] :
       {std::pair(1, 1'000'000), std::pair(16, 10'000)}) {
    options_.shards = shards;
    const int last = notifications;
    bool as_expected = true;
    IntCache* view = nullptr;
    int told = 0;
    IntCache::Hooks hooks;
    hooks.on_removal = [&](int key, int, RemovalCause cause) {
      const Depth::Scope scope(&depth_);
      as_expected =
          as_expected && key == told && cause == RemovalCause::kEvicted;
      if (++told < last) view->Set(told + 1, 0);
    };
    auto cache = New<int, int>(hooks);
    view = cache.get();
    cache->Set(0, 0);
    cache->Set(1, 0);
    EXPECT_TRUE(as_expected);
    EXPECT_EQ(told, last);
    EXPECT_EQ(depth_.most(), 1);
    EXPECT_EQ(cache->stats().evictions, last);
    EXPECT_TRUE(cache->Contains(last));
    ExpectWhole(*cache);
  }
}

TEST_F(RemovalListenerNestingTest, EntriesAreToldInTheOrderOfTheirRemoval) {
  options_.shards = 1;
  IntCache* view = nullptr;
  auto cache = NewCache([&](int key) {
    switch (key) {
      case 0:
        view->Del(1);
        view->Set(2, 0);
        return;
      case 1:
        view->Clear();  // Of 2 to 4, from the newest.
        view->Set(5, 0);
        view->Set(5, 0);
        return;
      case 3:
        view->Del(5);
        return;
    }
  });
  view = cache.get();
  for (int key = 0; key < 5; ++key) cache->Set(key, 0);
  cache->Del(0);
  EXPECT_THAT(
      told_,
      ElementsAre(
          Told(0, RemovalCause::kDeleted), Told(1, RemovalCause::kDeleted),
          Told(2, RemovalCause::kReplaced), Told(2, RemovalCause::kDeleted),
          Told(4, RemovalCause::kDeleted), Told(3, RemovalCause::kDeleted),
          Told(5, RemovalCause::kReplaced), Told(5, RemovalCause::kDeleted)));
  EXPECT_EQ(depth_.most(), 1);
  ExpectWhole(*cache);
}

TEST_F(RemovalListenerNestingTest, ClearTellsOfItsOwnEntriesFirst) {
  options_.shards = 1;
  IntCache* view = nullptr;
  auto cache = NewCache([&](int key) {
    if (key != 1) return;
    view->Set(3, 0);
    view->Del(3);
  });
  view = cache.get();
  for (int key = 0; key < 3; ++key) cache->Set(key, 0);
  cache->Clear();
  EXPECT_THAT(told_, ElementsAre(Told(2, RemovalCause::kDeleted),
                                 Told(1, RemovalCause::kDeleted),
                                 Told(0, RemovalCause::kDeleted),
                                 Told(3, RemovalCause::kDeleted)));
  EXPECT_EQ(depth_.most(), 1);
}

TEST_F(RemovalListenerNestingTest, CallWithinCountsAtOnce) {
  IntCache* view = nullptr;
  auto cache = NewCache([&](int key) {
    const CacheStats before = view->stats();
    EXPECT_EQ(view->Del(key + 1), key < 4);
    EXPECT_EQ(view->stats().deletes, before.deletes + (key < 4 ? 1 : 0));
    EXPECT_EQ(view->stats().entries, before.entries - (key < 4 ? 1 : 0));
    ExpectWhole(*view);
  });
  view = cache.get();
  for (int key = 0; key < 5; ++key) cache->Set(key, 0);
  cache->Del(0);
  EXPECT_EQ(told_.size(), 5u);
}

// Its key and value are in memory, whatever took its place.
TEST_F(RemovalListenerNestingTest, EntryIsWholeWhenItIsToldLater) {
  using StringCache = Cache<std::string, std::string>;
  const auto value_of = [](int number) {
    // Some outside the entry's block.
    return std::string(number % 3 == 0 ? 20'000 : 10, 'a' + number % 26);
  };
  constexpr int kLast = 200;
  options_.max_entries = 3;
  options_.shards = 1;
  StringCache* view = nullptr;
  int told = 0;
  StringCache::Hooks hooks;
  hooks.on_removal = [&](std::string_view key, std::string_view value,
                         RemovalCause) {
    const int number = std::stoi(std::string(key));
    EXPECT_EQ(number, told++);
    EXPECT_EQ(value, value_of(number));
    // Evicts others, of which it is told after this.
    for (int next = 2 * number + 3; next < 2 * number + 5; ++next) {
      if (next <= kLast) view->Set(std::to_string(next), value_of(next));
    }
  };
  auto cache = New<std::string, std::string>(hooks);
  view = cache.get();
  for (int i = 0; i < 3; ++i) cache->Set(std::to_string(i), value_of(i));
  EXPECT_TRUE(cache->Del("0"));
  EXPECT_EQ(told, kLast - 2);  // All but the last three.
}

TEST_F(RemovalListenerNestingTest, ExceptionsKeepNothingFromBeingTold) {
  options_.max_entries = 1;
  IntCache* view = nullptr;
  auto cache = NewCache([&](int key) {
    if (key < 100) view->Set(key + 2, 0);
    throw std::runtime_error("from the listener");
  });
  view = cache.get();
  cache->Set(0, 0);
  cache->Set(1, 0);
  EXPECT_EQ(told_.size(), 101u);
  EXPECT_EQ(cache->stats().listener_exceptions, 101);
  EXPECT_EQ(depth_.most(), 1);
  ExpectWhole(*cache);
}

// One level for each cache, and no more.
TEST_F(RemovalListenerNestingTest, CachesThatSetIntoEachOtherNestOnce) {
  constexpr int kLast = 10'000;
  options_.max_entries = 1;
  std::unique_ptr<IntCache> caches[2];
  for (int i = 0; i < 2; ++i) {
    caches[i] = NewCache([&caches, i](int key) {
      if (key < kLast) caches[1 - i]->Set(key + 1, 0);
    });
  }
  for (const auto& cache : caches) cache->Set(0, 0);
  caches[0]->Set(1, 0);
  EXPECT_GE(told_.size(), size_t{kLast});
  EXPECT_LE(depth_.most(), 2);
  for (const auto& cache : caches) ExpectWhole(*cache);
}

TEST_F(RemovalListenerNestingTest, CacheMayEndInANotificationOfAnother) {
  auto cache = NewCache([&](int key) {
    if (key != 0) return;
    auto other = NewCache([](int) {});
    for (int i = 10; i < 13; ++i) other->Set(i, 0);
    other->Del(10);
    other->Clear();
    EXPECT_EQ(told_.size(), 4u);
  });
  cache->Set(0, 0);
  cache->Del(0);
  EXPECT_EQ(told_.size(), 4u);
}

// Another thread is in no notification, and tells of what it removes itself.
TEST_F(RemovalListenerNestingTest, OtherThreadsTellAtOnce) {
  IntCache* view = nullptr;
  std::vector<std::pair<int, std::thread::id>> told;
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int key, int, RemovalCause) {
    told.emplace_back(key, std::this_thread::get_id());
    if (key != 0) return;
    std::thread::id other_id;
    std::thread([&] {
      other_id = std::this_thread::get_id();
      view->Del(1);
    }).join();
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told.back(), std::pair(1, other_id));
  };
  auto cache = New<int, int>(hooks);
  view = cache.get();
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
    IntCache* view = nullptr;
    auto cache = NewCache([&](int) { view->RunMaintenance(); });
    view = cache.get();
    for (int key = 0; key < 100; ++key) cache->Set(key, 0, absl::Seconds(1));
    clock_.RunFor(absl::Seconds(2));
    cache->RunMaintenance();
    EXPECT_EQ(std::exchange(told_, {}).size(), 100u);
    EXPECT_EQ(depth_.most(), 1);
    EXPECT_EQ(cache->stats().expirations, 100);
  }
}

}  // namespace
}  // namespace wheelcache
