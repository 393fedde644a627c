// ForEach and EraseIf while other threads write, with values that validate
// themselves.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/test_environment.h"
#include "wheelcache/tests/testing/validated_values.h"

namespace wheelcache {
namespace {

constexpr uint64_t kStaying = 200;  // The keys that no thread removes.
constexpr uint64_t kKeys = 2000;
constexpr int kWriters = 2;

class ForEachThreadsTest : public CacheEnvironment {
 protected:
  using CacheType = Cache<uint64_t, std::string>;

  // Sets, deletes and clears keys from kStaying on, and gives those below new
  // values, until `done`.
  void Write(int writer) {
    std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(writer));
    uint64_t version = static_cast<uint64_t>(writer);
    while (!done_.load()) {
      version += kWriters;
      const uint64_t key = random() % kKeys;
      if (key < kStaying) {
        if (key % kWriters == static_cast<uint64_t>(writer)) Set(key, version);
      } else if (version / 5000 % 2 == 0) {
        Set(key, version);  // The index grows, and then shrinks.
      } else {
        cache_->Del(key);
      }
    }
  }

  void Set(uint64_t key, uint64_t version) {
    cache_->Set(key, StringValue::Make({key, version, 1}));
  }

  // Returns the stamp of the value.
  static Stamp Check(const CacheType::Handle& handle) {
    const Stamp stamp = StringValue::Check(*handle);
    EXPECT_EQ(stamp.key, handle.key());
    return stamp;
  }

  void Start(int shards, int64_t budget) {
    options_.shards = shards;
    options_.maintenance_budget = budget;
    cache_ = New<uint64_t, std::string>();
    for (uint64_t key = 0; key < kStaying; ++key) Set(key, key % kWriters);
    done_ = false;
    for (int i = 0; i < kWriters; ++i) {
      threads_.emplace_back([this, i] { Write(i); });
    }
  }

  void Stop() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.sets, stats.entries + stats.deletes + stats.replaced);
  }

  std::unique_ptr<CacheType> cache_;
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

// A key that always has a value is shown with one of its values.
TEST_F(ForEachThreadsTest, WhatStaysIsShownWhoeverWrites) {
  for (const int shards : {1, 8}) {
    Start(shards, /*budget=*/8);
    std::map<uint64_t, uint64_t> newest;
    for (uint64_t i = 0; i < TestOperations() / 1000; ++i) {
      std::set<uint64_t> staying;
      std::set<uint64_t> versions;
      EXPECT_TRUE(cache_->ForEach([&](const auto& handle) {
        const Stamp stamp = Check(handle);
        if (stamp.key >= kStaying) {
          EXPECT_TRUE(versions.insert(stamp.version).second);
          return true;
        }
        EXPECT_TRUE(staying.insert(stamp.key).second) << stamp.key;
        EXPECT_GE(stamp.version, newest[stamp.key]);
        newest[stamp.key] = stamp.version;
        return true;
      }));
      ASSERT_EQ(staying.size(), kStaying);
    }
    Stop();
  }
}

// What it counts as removed is what the others miss in the end.
TEST_F(ForEachThreadsTest, EraseIfRemovesOnlyWhatItSaw) {
  for (const int shards : {1, 8}) {
    Start(shards, /*budget=*/8);
    int64_t erased = 0;
    // Longer if the other threads begin late.
    for (uint64_t i = 0; i < TestOperations() / 1000 || erased == 0; ++i) {
      std::set<uint64_t> seen;
      erased += cache_->EraseIf([&](const auto& handle) {
        const Stamp stamp = Check(handle);
        if (stamp.key < kStaying) return false;
        seen.insert(stamp.key);
        return stamp.version % 3 == 0;
      });
      for (uint64_t key = 0; key < kStaying; ++key) {
        ASSERT_TRUE(cache_->Contains(key));
      }
    }
    Stop();
  }
}

// Two of them share the work, and tell of each value once.
TEST_F(ForEachThreadsTest, TwoEraseIfsRemoveEachValueOnce) {
  RemovalLog<uint64_t, uint64_t> log;
  options_.shards = 4;
  auto cache = New<uint64_t, uint64_t>(log.hooks());
  for (int round = 0; round < 20; ++round) {
    for (uint64_t key = 0; key < 500; ++key) cache->Set(key, key);
    std::atomic<int64_t> erased{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        erased += cache->EraseIf([](const auto& h) { return *h % 2 == 0; });
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(erased.load(), 250);
    EXPECT_EQ(log.Take().size(), 250u);
    EXPECT_EQ(cache->EraseIf([](const auto&) { return true; }), 250);
    log.Take();
  }
}

}  // namespace
}  // namespace wheelcache
