// What a cache asks of the system: that an empty one takes little, that a hit
// allocates nothing, and what a cache is like where an allocation fails, each
// of each call, alone and with all that follow it, or where no thread can be
// had.

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/counted.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/failing_allocations.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/simulated_clock.h"

namespace {

thread_local bool no_thread = false;

}  // namespace

extern "C" {

// The names that the linker gives to what --wrap replaces.
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                          void* (*start)(void*), void* argument) {
  if (no_thread) return EAGAIN;
  return __real_pthread_create(thread, attributes, start, argument);
}
}

namespace wheelcache {
namespace {

using testing::Allocation;
using testing::Failed;
using testing::WithEachAllocationFailing;

// As large as a page, so that an arena soon needs more.
struct CountedPage : testing::Counted {
  using Counted::Counted;
  std::array<char, 4000> bytes = {};
};

using CountedCache = Cache<int, CountedPage>;

// Threads that stay until the end of a test, so that each new one needs a
// record of its own.
class StayingThreads {
 public:
  // Takes the records that were given back.
  StayingThreads() {
    for (int i = internal::CountThreadRecords(); i > 0; --i) {
      Run([] { internal::ReadSection(); });
    }
  }
  ~StayingThreads() {
    end_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

  // Returns when `function` has run on another thread.
  template <typename Function>
  void Run(Function&& function) {
    std::atomic<bool> done{false};
    threads_.emplace_back([&] {
      function();
      done.store(true);
      while (!end_.load()) std::this_thread::yield();
    });
    while (!done.load()) std::this_thread::yield();
  }

 private:
  std::atomic<bool> end_{false};
  std::vector<std::thread> threads_;
};

class CacheMemoryFailureTest
    : public testing::WithEachPolicy<CacheEnvironment> {
 protected:
  CountedCache::Hooks CountingHooks() {
    CountedCache::Hooks hooks;
    hooks.on_removal = [this](int, const CountedPage&, RemovalCause) {
      ++told_;
    };
    return hooks;
  }

  CountedPage Value() { return CountedPage(&values_); }

  // The invariants, and that each value that was Set is there or was told.
  void ExpectWhole(CountedCache& cache) const {
    ASSERT_TRUE(cache.CheckInvariants().ok()) << cache.CheckInvariants();
    const CacheStats stats = cache.stats();
    const int64_t removed =
        stats.evictions + stats.expirations + stats.deletes + stats.replaced;
    ASSERT_EQ(stats.sets, stats.entries + removed);
    ASSERT_EQ(told_, removed);
  }

  // Sets the key with each of its allocations failing. Where one throws, the
  // cache holds what it did.
  void SetWithEachAllocationFailing(CountedCache& cache, int key, int keys) {
    std::vector<bool> held(keys);
    const auto look = [&](int k) { return cache.Contains(k); };
    for (int k = 0; k < keys; ++k) held[k] = look(k);
    WithEachAllocationFailing([&] { cache.Set(key, Value()); },
                              [&](bool thrown) {
                                if (thrown || key % 16 == 0) ExpectWhole(cache);
                                for (int k = 0; k < keys; ++k) {
                                  if (!thrown) held[k] = look(k);
                                  ASSERT_EQ(look(k), held[k]) << k;
                                }
                              });
    ASSERT_TRUE(cache.Contains(key));
  }

  std::atomic<int64_t> values_{0};
  int64_t told_ = 0;
};

TEST_P(CacheMemoryFailureTest, SetHappensOrDoesNotWhereTheIndexMustGrow) {
  constexpr int kKeys = 200;
  options_.shards = 1;
  auto cache = New<int, CountedPage>(CountingHooks());
  const int64_t callocs = Failed(Allocation::kCalloc);
  for (int key = 0; key < kKeys; ++key) {
    SetWithEachAllocationFailing(*cache, key, kKeys);
    ASSERT_EQ(cache->size(), key + 1);
    ASSERT_EQ(values_.load(), key + 1);
  }
  EXPECT_GT(Failed(Allocation::kCalloc), callocs);
}

TEST_P(CacheMemoryFailureTest, SetHappensOrDoesNotWhereTheArenaMustGrow) {
  constexpr int kKeys = 1'000;  // 4 MB: two huge pages of the first chunk.
  options_.shards = 4;
  auto cache = New<int, CountedPage>(CountingHooks());
  const int64_t reserved = Failed(Allocation::kMmap);
  const int64_t made_usable = Failed(Allocation::kMprotect);
  for (int key = 0; key < kKeys; ++key) {
    SetWithEachAllocationFailing(*cache, key, /*keys=*/10);
    ASSERT_EQ(values_.load(), key + 1);
  }
  EXPECT_GE(Failed(Allocation::kMmap), reserved + 1);
  // The chunk's bits, and each of the pages.
  EXPECT_GE(Failed(Allocation::kMprotect), made_usable + 3);
}

// Promise: Failures leave the cache whole
// One shard's index must grow, for an entry whose room another shard has to
// give; and a reader keeps the arrays that it has grown out of.
TEST_P(CacheMemoryFailureTest, SetThatFailsEvictsNobody) {
  constexpr int kKeys = 1'000;
  options_.shards = 2;
  options_.max_entries = 200;
  auto cache = New<int, CountedPage>(CountingHooks());
  std::vector<int> keys[2];
  for (int key = 0; key < kKeys; ++key) {
    keys[internal::HashKey<DefaultHash<int>>(key).for_shard % 2].push_back(key);
  }
  for (int i = 0; i < options_.max_entries; ++i) {
    cache->Set(keys[0][i], Value());
  }
  const int64_t callocs = Failed(Allocation::kCalloc);
  const internal::ReadSection reader;
  for (int i = 0; i < 100; ++i) {
    SetWithEachAllocationFailing(*cache, keys[1][i], kKeys);
  }
  EXPECT_GT(Failed(Allocation::kCalloc), callocs);
}

// Of new keys and of resident ones, with and without the room of others.
TEST_P(CacheMemoryFailureTest, ConditionalWriteHappensOrDoesNot) {
  constexpr int kCalls = 600;
  options_.shards = 2;
  options_.max_entries = 100;
  auto cache = New<int, CountedPage>(CountingHooks());
  const int64_t failed = Failed();
  for (int i = 0; i < kCalls; ++i) {
    const int key = i / 3;
    int64_t sets = cache->stats().sets;
    const auto check = [&](bool thrown) {
      ExpectWhole(*cache);
      if (!thrown) ++sets;
      ASSERT_EQ(cache->stats().sets, sets);
    };
    if (i % 2 == 0) {
      WithEachAllocationFailing(
          [&] {
            const auto old = cache->Find(key);
            ASSERT_EQ(cache->SetIf(key, old, Value()), Put::kStored);
          },
          check);
    } else {
      WithEachAllocationFailing(
          [&] {
            ASSERT_TRUE(cache->Update(key, [&](const auto&) {
              return CountedCache::Decision::Set(Value());
            }));
          },
          check);
    }
    ASSERT_TRUE(cache->Contains(key));
  }
  EXPECT_GT(Failed(), failed);
  EXPECT_EQ(values_.load(), 100);
}

TEST_P(CacheMemoryFailureTest, SetKeepsTheOldValueOfAStringOrReplacesIt) {
  const std::string large(200'000, 'x');  // Outside of the arena.
  auto cache = New<std::string, std::string>();
  cache->Set("key", "old");
  int failures = 0;
  WithEachAllocationFailing([&] { cache->Set("key", large); },
                            [&](bool thrown) {
                              failures += thrown ? 1 : 0;
                              EXPECT_EQ(cache->Get("key"),
                                        thrown ? "old" : large);
                              EXPECT_TRUE(cache->CheckInvariants().ok());
                              cache->Set("key", "old");
                            });
  EXPECT_GT(failures, 0);
}

TEST_P(CacheMemoryFailureTest, NothingIsLostWhereLimboHasNoMemory) {
  constexpr int kKeys = 1'000;
  options_.shards = 1;
  options_.max_entries = 100;
  auto cache = New<int, CountedPage>(CountingHooks());
  {
    // So that nothing is destroyed at once.
    StayingThreads threads;
    threads.Run([&] { (void)cache->Contains(0); });
    for (int key = 0; key < kKeys; ++key) {
      SetWithEachAllocationFailing(*cache, key, /*keys=*/10);
    }
    WithEachAllocationFailing([&] { cache->RunMaintenance(); },
                              [&](bool thrown) { EXPECT_FALSE(thrown); });
    WithEachAllocationFailing([&] { cache->Clear(); },
                              [&](bool thrown) { EXPECT_FALSE(thrown); });
  }
  cache->RunMaintenance();
  ExpectWhole(*cache);
  EXPECT_EQ(values_.load(), 0);
}

struct OneHash {
  size_t operator()(int) const { return 42; }
};

TEST_P(CacheMemoryFailureTest, ForEachThatFailsLeavesNoPin) {
  options_.maintenance_budget = 1;
  auto cache =
      std::move(*Cache<int, testing::Counted, OneHash>::Create(options_));
  for (int key = 0; key < 60; ++key) {
    cache->Set(key, testing::Counted(&values_));
  }
  int shown = 0;
  WithEachAllocationFailing(
      [&] {
        shown = 0;
        cache->ForEach([&](const auto&) {
          ++shown;
          return true;
        });
      },
      [&](bool thrown) {
        EXPECT_EQ(shown < 60, thrown);
        ASSERT_TRUE(cache->CheckInvariants().ok());
      });
  EXPECT_EQ(shown, 60);
  cache->Clear();
  cache->RunMaintenance();
  EXPECT_EQ(values_, 0);
}

TEST_P(CacheMemoryFailureTest, SetLimitsNeedsNoMemory) {
  options_.shards = 4;
  auto cache = New<int, CountedPage>(CountingHooks());
  for (int key = 0; key < 3000; ++key) cache->Set(key, Value());
  EXPECT_FALSE(testing::ThrowsWithoutMemory(0, /*all_that_follow=*/true, [&] {
    EXPECT_TRUE(cache->SetLimits(10, kUnlimited).ok());
  }));
  EXPECT_EQ(cache->size(), 10);
  ExpectWhole(*cache);
}

// Promise: Hits take no lock
TEST_P(CacheMemoryFailureTest, HitAllocatesNothing) {
  for (const int shards : {1, 16}) {
    options_.shards = shards;
    auto cache = New<std::string, std::string>();
    const std::string key(100, 'k');
    cache->Set(key, std::string(1000, 'v'), absl::Hours(1));
    cache->Set("another", "value");
    // The first read of a thread gets it a record of its own.
    ASSERT_TRUE(cache->Contains(key));
    const int64_t failed = Failed();
    EXPECT_FALSE(testing::ThrowsWithoutMemory(0, /*all_that_follow=*/true, [&] {
      for (int i = 0; i < 100; ++i) {
        size_t size = 0;
        if (const auto handle = cache->Find(key)) size += handle->size();
        cache->Visit("another", [&](std::string_view v) { size += v.size(); });
        if (cache->Contains(key) && cache->TimeToLive(key)) ++size;
        EXPECT_EQ(size, 1000u + 5 + 1);
      }
    }));
    EXPECT_EQ(Failed(), failed) << "nothing was asked for";
  }
}

TEST_P(CacheMemoryFailureTest, AdviceIsWhatACacheDoesWithout) {
  options_.advise = true;
  options_.max_entries = 10;
  int advised = 0;
  int silent = 0;
  for (int64_t n = 0; n < 100; ++n) {
    std::unique_ptr<Cache<int, int>> cache;
    (void)testing::ThrowsWithoutMemory(n, /*all_that_follow=*/false,
                                       [&] { cache = New<int, int>(); });
    if (cache == nullptr) continue;
    cache->Set(1, 1);
    EXPECT_EQ(cache->Get(1), 1);
    (cache->Advise().has_value() ? advised : silent) += 1;
  }
  EXPECT_GT(advised, 0);
  EXPECT_EQ(silent, 1);
}

TEST_P(CacheMemoryFailureTest, FirstCallOfAThreadFailsBeforeItDoesAnything) {
  auto cache = New<std::string, std::string>();
  const std::string long_value(100, 'x');
  cache->Set("key", long_value);
  StayingThreads threads;
  int failures = 0;
  for (int n = 0; n < 8; ++n) {
    threads.Run([&] {
      const auto fails = [&](auto&& call) {
        failures += testing::ThrowsWithoutMemory(n, true, call) ? 1 : 0;
        EXPECT_EQ(cache->Peek("key"), long_value);
        EXPECT_TRUE(cache->CheckInvariants().ok());
      };
      fails([&] { EXPECT_EQ(cache->Get("key"), long_value); });
      fails([&] { EXPECT_EQ(*cache->Find("key"), long_value); });
      fails([&] { cache->Set("key", long_value); });
    });
  }
  EXPECT_GT(failures, 0);
}

// Promise: Failures leave the cache whole
TEST_P(CacheMemoryFailureTest, CallsThatRemoveNeedNoMemoryInAnyThread) {
  auto cache = New<int, CountedPage>(CountingHooks());
  for (int key = 0; key < 10; ++key) {
    cache->Set(key, Value(), absl::Seconds(key < 5 ? 1 : 10));
  }
  auto handle = cache->Find(9);
  auto read = cache->Find(2);
  StayingThreads threads;
  const auto run_without_memory = [&](auto&& call) {
    bool thrown = true;
    threads.Run([&] { thrown = testing::ThrowsWithoutMemory(0, true, call); });
    EXPECT_FALSE(thrown);
  };
  run_without_memory([&] { cache->Del(0); });
  run_without_memory([&] { (void)cache->Take(1); });
  run_without_memory([&] { cache->DelIf(2, std::exchange(read, {})); });
  run_without_memory([&] { cache->Touch(6, absl::Seconds(1)); });
  clock_.Advance(absl::Seconds(1));
  run_without_memory([&] { cache->RunMaintenance(); });
  EXPECT_EQ(cache->size(), 4);
  run_without_memory([&] { cache->Clear(); });
  ExpectWhole(*cache);
  cache->RunMaintenance();  // With memory, for what waits in limbo.
  EXPECT_EQ(values_.load(), 1);
  run_without_memory([&] { handle = {}; });
  EXPECT_EQ(values_.load(), 0);
  for (int key = 0; key < 10; ++key) cache->Set(key, Value());
  run_without_memory([&] { cache.reset(); });
  EXPECT_EQ(values_.load(), 0);
}

TEST_P(CacheMemoryFailureTest, CreateLeavesNothingBehind) {
  int failures = 0;
  WithEachAllocationFailing(
      [&] {
        Reaper reaper(clock_);
        options_.reaper = &reaper;
        const auto cache = CountedCache::Create(options_, CountingHooks());
        EXPECT_TRUE(cache.ok());
        EXPECT_TRUE((*cache)->Set(1, Value()));
      },
      [&](bool thrown) {
        failures += thrown ? 1 : 0;
        EXPECT_EQ(values_.load(), 0);
      });
  EXPECT_GT(failures, 5);
}

class RoomFailureTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {};

// It had room in its index when it began to evict, and has none when it is
// done: others were there first.
TEST_P(RoomFailureTest, SetThatFailsAfterItEvictedTellsOfThat) {
  options_.shards = 2;
  options_.max_entries = 30;
  RemovalLog<int, int> log;
  auto cache = New<int, int>(log.hooks());
  std::vector<int> keys[2];
  for (int key = 0; key < 1000; ++key) {
    keys[internal::HashKey<DefaultHash<int>>(key).for_shard % 2].push_back(key);
  }
  for (int i = 0; i < options_.max_entries; ++i) cache->Set(keys[0][i], i);
  AtNth("store: between clock and lock", 2, [&] {
    for (int i = 1; i <= 7; ++i) {
      cache->Del(keys[0][i]);
      cache->Set(keys[1][i], i);
    }
    testing::failing_allocations.left = 0;
    testing::failing_allocations.once = true;
  });
  EXPECT_THROW(cache->Set(keys[1][0], 0), std::bad_alloc);
  EXPECT_FALSE(cache->Contains(keys[1][0]));
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.evictions, 1);
  EXPECT_EQ(stats.sets, stats.entries + stats.evictions + stats.deletes);
  EXPECT_EQ(log.Take().size(), 8u);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// What a cache takes before its first Set, of malloc and for its shards. A
// process may have hundreds of caches that are hardly used.
class CacheFootprintTest : public CacheEnvironment {};

// 64,000 bytes are promised, and a shard has one cache line left to grow.
TEST_F(CacheFootprintTest, EmptyCacheTakesLittle) {
  options_ = CacheOptions();
  options_.reaper = nullptr;
  // What a process has once.
  const auto first = New<uint64_t, std::string>();
  ASSERT_TRUE(first->Set(1, "value"));

  const int64_t before = testing::Allocated();
  const auto cache = New<uint64_t, std::string>();
  const int64_t by_malloc = testing::Allocated() - before;
  // These have pages of their own.
  constexpr int64_t kShards = internal::ShardArray<internal::Shard>::Bytes(64);
  EXPECT_GT(by_malloc, 5'000);
  EXPECT_LE(by_malloc, 7'000);
  EXPECT_LE(by_malloc + kShards, 60'500);
}

// One shard.
TEST_F(CacheFootprintTest, EmptyCacheOfFewEntriesTakesLittle) {
  options_.max_entries = 100;
  const auto first = New<uint64_t, std::string>();
  ASSERT_TRUE(first->Set(1, "value"));

  const int64_t before = testing::Allocated();
  const auto cache = New<uint64_t, std::string>();
  const int64_t taken = testing::Allocated() - before;
  EXPECT_GT(taken, 5'000);
  EXPECT_LE(taken, 7'200);
}

TEST(NoThreadTest, CacheWorksWhereNoThreadCanBeCreated) {
  SimulatedClock clock;
  no_thread = true;
  Reaper reaper(clock);
  CacheOptions options;
  options.clock = &clock;
  options.reaper = &reaper;
  options.jitter = 0;
  options.shards = 1;
  auto cache = *Cache<int, int>::Create(options);
  no_thread = false;
  EXPECT_FALSE(cache->reaper_status().ok());
  for (int key = 0; key < 100; ++key) cache->Set(key, key, absl::Seconds(1));
  EXPECT_EQ(cache->Get(1), 1);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
  // Each Set does a part of the thread's work.
  for (int key = 100; key < 150; ++key) cache->Set(key, key);
  EXPECT_EQ(cache->size(), 50);
  cache->Set(0, 0, absl::Seconds(1));
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(cache->NextDeadline(), clock.Now());
  EXPECT_GT(cache->RunMaintenance(), 0);
  EXPECT_EQ(cache->size(), 50);
  cache->Stop();
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheMemoryFailureTest,
                         testing::EachPolicy());
INSTANTIATE_TEST_SUITE_P(Policies, RoomFailureTest, testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
