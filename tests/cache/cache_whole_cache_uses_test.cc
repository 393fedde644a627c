// ForEach, EraseIf and SetLimits called from where users may call them, and
// with what types and functions they may have.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace wheelcache {
namespace {

using IntCache = Cache<int, int>;

class WholeCacheUsesTest : public CacheEnvironment {
 protected:
  static int Count(IntCache* cache) {
    int shown = 0;
    EXPECT_TRUE(cache->ForEach([&](const auto&) {
      ++shown;
      return true;
    }));
    return shown;
  }
  static void Fill(IntCache* cache, int entries) {
    for (int key = 0; key < entries; ++key) cache->Set(key, key);
  }
};

TEST_F(WholeCacheUsesTest, WithinAVisitorAndAroundOne) {
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  int visited = 0;
  EXPECT_TRUE(cache->Visit(1, [&](int) {
    EXPECT_EQ(Count(cache.get()), 100);
    EXPECT_EQ(cache->EraseIf([](const auto& h) { return h.key() == 50; }), 1);
    EXPECT_TRUE(cache->SetLimits(60, kUnlimited).ok());
    cache->ForEach([&](const auto& handle) {
      visited += cache->Visit(handle.key(), [](int) {}) ? 1 : 0;
      return true;
    });
  }));
  EXPECT_EQ(visited, 60);
}

TEST_F(WholeCacheUsesTest, WithinALoader) {
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  const absl::StatusOr<int> sum =
      cache->GetOrLoad(1000, [&]() -> absl::StatusOr<int> {
        int sum = 0;
        cache->ForEach([&](const auto& handle) {
          // A hit, and a load within the load.
          sum += *cache->GetOrLoad(handle.key(),
                                   []() -> absl::StatusOr<int> { return -1; });
          return true;
        });
        return sum;
      });
  EXPECT_EQ(*sum, 99 * 100 / 2);
  EXPECT_EQ(cache->Peek(1000), 99 * 100 / 2);
}

TEST_F(WholeCacheUsesTest, WithinAListener) {
  IntCache* of_listener = nullptr;
  int most = std::numeric_limits<int>::max();
  IntCache::Hooks hooks;
  hooks.on_removal = [&](int, int, RemovalCause) {
    const int shown = Count(of_listener);
    EXPECT_LE(shown, most);
    most = shown;
    EXPECT_LE(of_listener->size(), of_listener->limits().entries);
  };
  options_.maintenance_budget = 1;
  auto cache = New<int, int>(std::move(hooks));
  of_listener = cache.get();
  Fill(cache.get(), 60);
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  EXPECT_EQ(most, 10);
}

// Which runs when the pin of the function's handle ends, or limbo is flushed.
struct CallsInTheEnd {
  explicit CallsInTheEnd(std::function<void()> f) : function(std::move(f)) {}
  CallsInTheEnd(CallsInTheEnd&&) = default;
  ~CallsInTheEnd() {
    if (function) function();
  }
  std::function<void()> function;
};

TEST_F(WholeCacheUsesTest, WithinADestructorOfAValue) {
  int calls = 0;
  Cache<int, CallsInTheEnd>* of_values = nullptr;
  auto cache = New<int, CallsInTheEnd>();
  of_values = cache.get();
  for (int key = 0; key < 50; ++key) {
    cache->Set(
        key, CallsInTheEnd([&] {
          ++calls;
          of_values->ForEach([](const auto&) { return true; });
          EXPECT_TRUE(of_values->SetLimits(1000 + calls, kUnlimited).ok());
        }));
  }
  EXPECT_EQ(cache->EraseIf([](const auto& h) { return h.key() < 20; }), 20);
  EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  cache->Clear();
  cache->RunMaintenance();
  EXPECT_EQ(calls, 50);
}

TEST_F(WholeCacheUsesTest, OfValuesThatCannotBeCopied) {
  auto cache = New<std::string, std::unique_ptr<int>>();
  for (int i = 0; i < 200; ++i) {
    cache->Set(std::to_string(i), std::make_unique<int>(i));
  }
  int sum = 0;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_EQ(handle.key(), std::to_string(**handle));
    sum += **handle;
    return true;
  }));
  EXPECT_EQ(sum, 199 * 100);
  EXPECT_EQ(cache->EraseIf([](const auto& h) { return **h >= 100; }), 100);
  EXPECT_TRUE(cache->SetLimits(7, kUnlimited).ok());
  EXPECT_EQ(cache->size(), 7);
}

TEST_F(WholeCacheUsesTest, OfStringsWithPagesOfTheirOwn) {
  auto cache = New<std::string, std::string>();
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(i);
    cache->Set(number, number + std::string(100'000, 'x'));
  }
  cache->ForEach([](const auto& handle) {
    EXPECT_EQ(handle->substr(0, handle.key().size()), handle.key());
    return true;
  });
  EXPECT_EQ(cache->EraseIf([](const auto& handle) {
    return absl::string_view(handle.key().data(), handle.key().size())
               .substr(0, 1) == "1";
  }),
            11);
  EXPECT_TRUE(cache->SetLimits(kUnlimited, 500'000).ok());
  EXPECT_EQ(cache->size(), 4);
  EXPECT_LE(cache->bytes(), 500'000);
}

bool IsOdd(const IntCache::Handle& handle) { return *handle % 2 != 0; }

TEST_F(WholeCacheUsesTest, WithFunctionsOfAllKinds) {
  auto cache = New<int, int>();
  Fill(cache.get(), 10);
  EXPECT_EQ(cache->EraseIf(IsOdd), 5);
  EXPECT_EQ(cache->EraseIf(&IsOdd), 0);
  std::function<bool(const IntCache::Handle&)> is_zero =
      [](const IntCache::Handle& handle) { return *handle == 0; };
  EXPECT_EQ(cache->EraseIf(is_zero), 1);
  int calls = 0;
  EXPECT_TRUE(cache->ForEach([calls](const auto&) mutable { return ++calls; }));
  EXPECT_TRUE(cache->ForEach(
      [held = std::make_unique<int>(1)](const auto&) { return *held == 1; }));
}

TEST_F(WholeCacheUsesTest, AfterStopAndWithManyShards) {
  SimulatedClock clock(absl::Seconds(-5));  // Begins below zero.
  Reaper reaper(clock);
  options_.clock = &clock;
  options_.reaper = &reaper;
  options_.shards = 256;
  auto cache = New<int, int>();
  for (int key = 0; key < 3000; ++key) {
    cache->Set(key, key, absl::Seconds(1 + key % 10));
  }
  cache->Stop();
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(Count(cache.get()), 1500);
  EXPECT_TRUE(cache->SetLimits(1000, kUnlimited).ok());
  EXPECT_EQ(Count(cache.get()), 1000);
  EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 1000);
}

TEST_F(WholeCacheUsesTest, LimitsThatAreThoseOfNowChangeNothing) {
  options_.max_entries = 50;
  auto cache = New<int, int>();
  Fill(cache.get(), 50);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(cache->SetLimits(50, kUnlimited).ok());
  }
  EXPECT_EQ(cache->size(), 50);
  auto empty = New<int, int>();
  EXPECT_TRUE(empty->SetLimits(1, 1).ok());
  EXPECT_FALSE(empty->Set(1, 1));
  EXPECT_TRUE(empty->SetLimits(kUnlimited, kUnlimited).ok());
  EXPECT_TRUE(empty->Set(1, 1));
}

// Many small steps up and down, as an adaptive limit takes them.
TEST_F(WholeCacheUsesTest, LimitsInManySmallSteps) {
  auto cache = New<int, int>();
  Fill(cache.get(), 3000);
  for (int64_t limit = 3000; limit > 100; limit -= 7) {
    ASSERT_TRUE(cache->SetLimits(limit, kUnlimited).ok());
    ASSERT_LE(cache->size(), limit);
  }
  for (int64_t limit = 100; limit < 3000; limit += 7) {
    ASSERT_TRUE(cache->SetLimits(limit, kUnlimited).ok());
    cache->Set(static_cast<int>(5000 + limit), 1);
  }
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_F(WholeCacheUsesTest, MaintenanceAndLimitsWithinTheFunction) {
  options_.max_entries = 2000;
  options_.shards = 4;
  auto cache = New<int, int>();
  for (int key = 0; key < 2000; ++key) {
    cache->Set(key, key, absl::Seconds(1 + key % 100));
  }
  std::set<int> shown;
  EXPECT_TRUE(cache->ForEach([&](const auto& handle) {
    EXPECT_TRUE(shown.insert(handle.key()).second);
    EXPECT_GT(handle.TimeToLive(), absl::ZeroDuration());
    clock_.Advance(absl::Milliseconds(100));
    cache->RunMaintenance();
    EXPECT_TRUE(
        cache->SetLimits(2000 - static_cast<int64_t>(shown.size()), kUnlimited)
            .ok());
    return true;
  }));
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
}

TEST_F(WholeCacheUsesTest, ExceptionWithinOneThatIsWithinAnother) {
  options_.maintenance_budget = 1;
  auto cache = New<int, int>();
  Fill(cache.get(), 100);
  int outer = 0;
  EXPECT_THROW(cache->ForEach([&](const auto&) {
    ++outer;
    cache->ForEach([&](const auto& inner) -> bool {
      if (outer == 50 && inner.key() % 2 == 0) throw 1;
      return true;
    });
    return true;
  }),
               int);
  EXPECT_EQ(outer, 50);
  EXPECT_EQ(Count(cache.get()), 100);
}

}  // namespace
}  // namespace wheelcache
