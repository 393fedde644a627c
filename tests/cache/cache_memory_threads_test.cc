// That the memory of a cache follows its limit and comes back next to other
// threads.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache {
namespace {

class CacheMemoryThreadsTest : public CacheEnvironment {};

std::string ValueOf(uint64_t key) {
  return std::string(100, static_cast<char>('a' + key % 26));
}

// What is moved waits in limbo then, and the round of moving for that.
TEST_F(CacheMemoryThreadsTest, ComesBackWhileAnotherThreadMayRead) {
  constexpr uint64_t kKeys = 90'000;
  options_.max_bytes = 20 << 20;
  options_.shards = 4;
  const auto cache = New<uint64_t, std::string>();
  testing::Notification reads;
  testing::Notification done;
  std::thread reader([&] {
    cache->Get(uint64_t{0});
    reads.Notify();
    done.Wait();
  });
  reads.Wait();
  for (uint64_t key = 0; key < kKeys; ++key) cache->Set(key, ValueOf(key));
  const int64_t full = cache->stats().resident_bytes;
  for (uint64_t key = 0; key < kKeys; ++key) {
    if (key % 4 != 0) cache->Del(key);
  }
  while (cache->RunMaintenance(10'000) == 10'000) {
  }
  EXPECT_LT(cache->stats().resident_bytes, full / 4 + full / 10 + (4 << 20));
  EXPECT_TRUE(cache->CheckInvariants().ok()) << cache->CheckInvariants();
  for (uint64_t key = 0; key < kKeys; key += 4) {
    EXPECT_EQ(cache->Get(key), ValueOf(key));
  }
  done.Notify();
  reader.join();
}

class ShortMemoryTest : public InterruptedCacheEnvironment {
 protected:
  static constexpr int64_t kMaxBytes = 20 << 20;

  void SetUp() override {
    InterruptedCacheEnvironment::SetUp();
    options_.max_bytes = kMaxBytes;
    options_.shards = 4;
    options_.reaper = nullptr;
    cache_ = New<uint64_t, std::string>();
  }

  // Whether a Set is to move entries before it adds one.
  bool MemoryIsShort() const {
    return cache_->stats().resident_bytes > kMaxBytes / 16 * 17 + (4 << 20);
  }

  // Has `action` happen once in the step of a Set that moves entries, while
  // memory is short.
  void InShortMemory(const std::function<void()>& action) {
    At("move: between condemning and moving", [this, action] {
      if (MemoryIsShort()) {
        happened_ = true;
        action();
      } else {
        InShortMemory(action);
      }
    });
  }

  // Leaves every other small value in memory, and Sets large ones, which do not
  // fit between, until that action has happened.
  void SetUntilItHappens() {
    uint64_t key = 0;
    for (; cache_->stats().evictions == 0; ++key) {
      cache_->Set(key, ValueOf(key));
    }
    for (uint64_t small = 0; small < key; small += 2) cache_->Del(small);
    const std::string large(12 << 10, 'x');
    for (const uint64_t end = key + 10'000; !happened_ && key < end; ++key) {
      cache_->Set(key, large);
    }
  }

  std::unique_ptr<Cache<uint64_t, std::string>> cache_;
  bool happened_ = false;
};

// Else it would take fresh memory, as nothing it could evict has gone back.
TEST_F(ShortMemoryTest, SetWaitsWhileAnotherThreadMoves) {
  std::thread other;
  std::atomic<bool> has_set{false};
  InShortMemory([&] {
    testing::Notification waits_or_has_set;
    other = std::thread([&] {
      At("move: before the wait for others",
         [&] { waits_or_has_set.Notify(); });
      cache_->Set(~uint64_t{0}, "value");
      has_set = true;
      if (testing::interruption.point.empty()) return;
      testing::interruption = {};
      waits_or_has_set.Notify();
    });
    waits_or_has_set.Wait();
    EXPECT_FALSE(has_set);
  });
  SetUntilItHappens();
  ASSERT_TRUE(other.joinable());
  other.join();
  EXPECT_TRUE(cache_->Contains(~uint64_t{0}));
  EXPECT_TRUE(cache_->CheckInvariants().ok()) << cache_->CheckInvariants();
}

}  // namespace
}  // namespace wheelcache
