// The end of a cache, and of its background work; and its life in the child of
// a fork().

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

using testing::EndInAMinute;
using testing::HoldsInChild;
using testing::kChildMayStartThreads;
using testing::kOthersMayAllocate;
using testing::Others;

// How many Sets of a thread it takes until small caches have their memory.
constexpr int kSetsThatAllocate = 2000;

void Await(const std::atomic<int>& count, int goal) {
  while (count.load() < goal) std::this_thread::yield();
}

class CacheLifetimeTest : public CacheEnvironment {
 protected:
  Reaper reaper_{clock_};
};

TEST_F(CacheLifetimeTest, StopEndsTheBackgroundWorkAndMayBeCalledTwice) {
  options_.reaper = &reaper_;
  auto cache = New<int, int>();
  cache->Set(1, 1, absl::Seconds(1));
  cache->Stop();
  cache->Stop();
  clock_.RunFor(absl::Hours(1));
  EXPECT_EQ(cache->size(), 1);
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheLifetimeTest, StoppedCacheIsOfUse) {
  options_.reaper = &reaper_;
  auto cache = New<int, int>();
  cache->Stop();
  EXPECT_TRUE(cache->Set(1, 1, absl::Seconds(1)));
  EXPECT_EQ(cache->Get(1), 1);
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

// Whatever another thread was doing to the cache at that instant.
TEST_F(CacheLifetimeTest, ChildIsNotHeldUpByLocksOfOtherThreads) {
  auto cache = New<int, int>();
  std::atomic<bool> stop{false};
  std::atomic<int> writers_with_memory{0};
  std::thread writer([&] {
    for (int i = 0; !stop.load(); ++i) {
      cache->Set(i % 1000, i);
      if (i == kSetsThatAllocate) ++writers_with_memory;
    }
  });
  if (!kOthersMayAllocate) Await(writers_with_memory, 1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(HoldsInChild(
        [&] {
          for (int key = 0; key < 1000; ++key) cache->Set(key, -key);
          return cache->Get(7) == -7 && cache->CheckInvariants().ok();
        },
        Others::kRun));
  }
  stop.store(true);
  writer.join();
}

TEST_F(CacheLifetimeTest, ChildOfForkGetsTheRoomThatOtherThreadsHadClaimed) {
  options_.max_entries = 16;
  options_.shards = 8;
  auto cache = New<int, int>();
  std::atomic<bool> stop{false};
  std::atomic<int> writers_with_memory{0};
  std::vector<std::thread> writers;
  for (int first = 0; first < 4; ++first) {
    writers.emplace_back([&, first] {
      for (int i = 0; !stop.load(); ++i) {
        cache->Set(4 * i + first, i);
        if (i == kSetsThatAllocate) ++writers_with_memory;
      }
    });
  }
  if (!kOthersMayAllocate) Await(writers_with_memory, 4);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(HoldsInChild(
        [&] {
          const bool whole = cache->CheckInvariants().ok();
          cache.reset();  // Ends when nothing is in use any more.
          return whole;
        },
        Others::kRun));
  }
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
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
      return;
    }
    int status = 0;
    children_end = children_end && waitpid(child, &status, 0) == child &&
                   WIFEXITED(status) && WEXITSTATUS(status) == 0;
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

TEST_F(CacheLifetimeTest, CacheWorksWhereNoThreadCanBeCreated) {
  Reaper reaper(clock_, [](pthread_t*, const pthread_attr_t*, void* (*)(void*),
                           void*) { return EAGAIN; });
  options_.reaper = &reaper;
  options_.shards = 1;
  auto cache = New<int, int>();
  EXPECT_FALSE(cache->reaper_status().ok());
  for (int key = 0; key < 100; ++key) cache->Set(key, key, absl::Seconds(1));
  EXPECT_EQ(cache->Get(1), 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
  // Each Set does a part of the thread's work.
  for (int key = 100; key < 150; ++key) cache->Set(key, key);
  EXPECT_EQ(cache->size(), 50);
  cache->Set(0, 0, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->NextDeadline(), clock_.Now());
  EXPECT_GT(cache->RunMaintenance(), 0);
  EXPECT_EQ(cache->size(), 50);
  cache->Stop();
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

// The first read of a process, on a thread of its own, while another one forks;
// exits with 0 if the child comes to an end.
[[noreturn]] void ExitAfterAForkDuringTheFirstRead() {
  static auto& cache = *Cache<int, int>::Create({})->release();
  std::atomic<bool> is_about_to_read{false};
  std::thread reader([&is_about_to_read] {
    is_about_to_read.store(true);
    (void)cache.Get(1);
  });
  while (!is_about_to_read.load()) std::this_thread::yield();
  const bool holds =
      HoldsInChild([] { return cache.Get(1) == std::nullopt; }, Others::kRun);
  reader.join();
  std::exit(holds ? 0 : 1);
}

TEST(CacheLifetimeDeathTest, ForkMayComeDuringTheFirstRead) {
  if (!kOthersMayAllocate) GTEST_SKIP();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ::testing::ExitedWithCode well(0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EXIT(ExitAfterAForkDuringTheFirstRead(), well, "");
  }
}

TEST(CacheLifetimeDeathTest, CacheMayBeAGlobal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ::testing::ExitedWithCode well(0);
  EXPECT_EXIT(ExitWithACacheThatIsNotDestroyed(), well, "");
  EXPECT_EXIT(ExitWithACacheThatIsDestroyed(), well, "");
}

}  // namespace
}  // namespace wheelcache
