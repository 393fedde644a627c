// The caches of the process, while they come, go and fork.

#include "wheelcache/cache/registry.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/engine/engine_registry.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/prometheus.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/status_page.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RegistryTest : public CacheEnvironment {
 protected:
  using IntCache = Cache<int, int>;

  std::unique_ptr<IntCache> Make(const std::string& name) {
    options_.name = name;
    return New<int, int>();
  }

  // Each as its name and id.
  static std::vector<std::string> Registered() {
    std::vector<std::string> names;
    for (const CacheReport& report : ReportCaches()) {
      names.push_back(absl::StrCat(report.name, " ", report.id));
    }
    return names;
  }
};

TEST_F(RegistryTest, CacheIsRegisteredFromItsCreationToItsEnd) {
  EXPECT_THAT(Registered(), IsEmpty());
  auto b = Make("b");
  auto a = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "b 1"));
  b.reset();
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
  a.reset();
  EXPECT_THAT(Registered(), IsEmpty());
}

TEST_F(RegistryTest, NamesAreForgottenWithTheirLastCache) {
  auto& registry = internal::EngineRegistry::Get();
  auto first = Make("a");
  auto second = Make("a");
  auto other = Make("b");
  EXPECT_EQ(registry.names(), 2u);
  first.reset();
  other.reset();
  EXPECT_EQ(registry.names(), 1u);
  second.reset();
  EXPECT_EQ(registry.names(), 0u);
}

TEST_F(RegistryTest, CacheMayStayOut) {
  options_.registered = false;
  auto hidden = Make("hidden");
  options_.registered = true;
  auto shown = Make("shown");
  EXPECT_THAT(Registered(), ElementsAre("shown 1"));
}

TEST_F(RegistryTest, CachesOfOneNameGetTheLowestFreeId) {
  std::vector<std::unique_ptr<IntCache>> caches;
  for (int i = 0; i < 4; ++i) caches.push_back(Make("a"));
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 3", "a 4"));
  caches[1].reset();
  caches[2].reset();
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 4"));
  caches[1] = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 4"));
  caches[3].reset();  // The last of them, with a gap before it.
  caches[2] = Make("a");
  caches[3] = Make("a");
  auto fifth = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1", "a 2", "a 3", "a 4", "a 5"));
  caches.clear();
  EXPECT_THAT(Registered(), ElementsAre("a 5"));
  fifth.reset();
  fifth = Make("a");
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
}

TEST_F(RegistryTest, ReportHasTheStatisticsOfItsCache) {
  auto cache = Make("a");
  cache->Set(1, 1);
  (void)cache->Get(1);
  const std::vector<CacheReport> reports = ReportCaches();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].stats.sets, 1);
  EXPECT_EQ(reports[0].stats.hits, 1);
  EXPECT_EQ(reports[0].stats.max_entries, kUnlimited);
}

TEST_F(RegistryTest, EachLookAfterFiveSecondsLeavesASample) {
  auto cache = Make("a");
  const auto look = [] { return ReportCaches()[0].samples; };
  EXPECT_EQ(look().size(), 1u);
  clock_.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  (void)cache->Get(1);
  EXPECT_EQ(look().size(), 1u);
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(look().size(), 2u);
  clock_.Advance(absl::Hours(1));
  cache->Set(1, 1);
  (void)cache->Get(1);
  (void)PrometheusText();  // Is a look, too.
  const std::vector<CacheSample> samples = look();
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].misses, 0);
  EXPECT_EQ(samples[1].misses, 1);
  EXPECT_EQ(samples[2].hits, 1);
  EXPECT_EQ(samples[2].time - samples[1].time, absl::Hours(1));
}

TEST_F(RegistryTest, OldSamplesMakeWayForNewOnes) {
  auto cache = Make("a");
  for (int i = 0; i < 250; ++i) {
    (void)cache->Get(1);
    (void)ReportCaches();
    clock_.Advance(absl::Seconds(5));
  }
  const std::vector<CacheSample> samples = ReportCaches()[0].samples;
  ASSERT_EQ(samples.size(), 120u);
  EXPECT_EQ(samples.back().misses, 250);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].time - samples[i - 1].time, absl::Seconds(5));
  }
}

TEST_F(RegistryTest, NextCacheOfANameHasNoSamplesOfTheLast) {
  auto first = Make("a");
  auto second = Make("a");
  (void)ReportCaches();
  clock_.Advance(absl::Seconds(5));
  (void)ReportCaches();
  first.reset();
  first = Make("a");
  EXPECT_EQ(ReportCaches()[0].samples.size(), 1u);
  EXPECT_EQ(ReportCaches()[1].samples.size(), 2u);
}

TEST_F(RegistryTest, CachesMayComeAndGoWhileOthersLook) {
  constexpr int kRounds = 300;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    CacheOptions options = options_;
    threads.emplace_back([options, t]() mutable {
      for (int i = 0; i < kRounds; ++i) {
        options.name = absl::StrCat("name ", (i + t) % 2);
        options.max_entries = 2;
        auto cache = *IntCache::Create(options);
        for (int key = 0; key < 5; ++key) cache->Set(key, key);
      }
    });
  }
  std::thread looker([&] {
    while (!done.load()) {
      for (const CacheReport& report : ReportCaches()) {
        const CacheStats& stats = report.stats;
        EXPECT_LE(stats.entries, 2);
        EXPECT_LE(stats.evictions, 3);
        EXPECT_EQ(stats.evictions, stats.eviction_age.count());
      }
      (void)PrometheusText();
      (void)StatusPage();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true);
  looker.join();
  EXPECT_THAT(Registered(), IsEmpty());
}

// A value whose destructor looks at all caches, its own included.
struct Looks {
  Looks() = default;
  Looks(const Looks&) = default;
  ~Looks() { (void)PrometheusText(); }
};

TEST_F(RegistryTest, DestructorsOfValuesMayLook) {
  auto cache = New<int, Looks>();
  cache->Set(1, Looks());
  cache->Set(1, Looks());
  cache.reset();
  EXPECT_THAT(Registered(), IsEmpty());
}

TEST_F(RegistryTest, ChildOfForkHasTheCachesOfItsParent) {
  auto a = Make("a");
  a->Set(1, 1);
  EXPECT_TRUE(testing::HoldsInChild([&] {
    auto b = Make("b");
    const bool both = Registered() == std::vector<std::string>{"a 1", "b 1"};
    a.reset();
    return both && Registered() == std::vector<std::string>{"b 1"};
  }));
  EXPECT_THAT(Registered(), ElementsAre("a 1"));
}

TEST_F(RegistryTest, ForkMayComeWhileOthersLook) {
  auto cache = Make("a");
  std::atomic<bool> done{false};
  std::thread looker([&] {
    while (!done.load()) {
      if (testing::kOthersMayAllocate) (void)ReportCaches();
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(testing::HoldsInChild(
        [&] { return Registered() == std::vector<std::string>{"a 1"}; },
        testing::Others::kRun));
  }
  done.store(true);
  looker.join();
}

TEST_F(RegistryTest, ForkWaitsForWhoeverLooks) {
  auto cache = Make("a");
  testing::Notification looks;
  std::atomic<bool> forked{false};
  std::thread looker([&] {
    internal::EngineRegistry::Get().ForEach([&](const auto&) {
      looks.Notify();
      for (int i = 0; i < 20'000 && !forked.load(); ++i) {
        std::this_thread::yield();
      }
      EXPECT_FALSE(forked.load());
    });
    // To ThreadSanitizer, a thread that had ended would be leaked by the child,
    // which cannot join it.
    while (!forked.load()) std::this_thread::yield();
  });
  looks.Wait();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  forked.store(true);
  looker.join();
  EXPECT_TRUE(testing::EndedWell(child));
}

// Ends the program well if it finds the one static cache, and looks again while
// static objects end.
void LookAtAStaticCacheAndExit() {
  CacheOptions options;
  options.reaper = nullptr;
  static const auto cache = *Cache<int, int>::Create(options);
  struct LastLook {
    ~LastLook() { (void)PrometheusText(); }
  };
  static const LastLook look;
  std::exit(ReportCaches().size() == 1 ? 0 : 1);
}

TEST(RegistryDeathTest, StaticCachesMayEndAfterTheRegistryWasUsed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LookAtAStaticCacheAndExit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace wheelcache
