// What a call sees that others overtake in the middle. Each test has one thing
// happen at one point of the engine, each time in the same way.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/each_policy.h"
#include "wheelcache/tests/testing/interruption.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {
namespace {

class CacheInterleavingTest
    : public testing::WithEachPolicy<InterruptedCacheEnvironment> {
 protected:
  // As At, when the call has come to the point so many times.
  static void AtNth(const std::string& point, int time,
                    std::function<void()> action) {
    if (time == 1) return At(point, std::move(action));
    At(point, [=] { AtNth(point, time - 1, action); });
  }

  // Has another thread call `call`, which comes to the lock of a shard and
  // waits there until this thread lets go of it; or which has come to its end
  // without.
  void CallBesides(std::function<void()> call) {
    std::atomic<bool> goes_on{false};
    other_ = std::thread([&goes_on, call = std::move(call)] {
      At("read: before the lock", [&] { goes_on.store(true); });
      call();
      if (!std::exchange(testing::interruption, {}).point.empty()) {
        goes_on.store(true);
      }
    });
    while (!goes_on.load()) std::this_thread::yield();
  }
  void WaitForTheOther() { other_.join(); }

 private:
  std::thread other_;
};

TEST_P(CacheInterleavingTest, TouchDoesNotReviveWhatWasSeenToBeExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("touch: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(cache->Get(1), std::nullopt);
  });
  EXPECT_FALSE(cache->Touch(1, absl::Hours(1)));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// The thread of Touch holds the lock, so that whoever finds the value expired
// has to wait for the new deadline.
TEST_P(CacheInterleavingTest, NobodySeesAValueExpireThatATouchHasFoundAlive) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  std::optional<int> seen;
  At("touch: between clock and deadline", [&] {
    clock_.Advance(absl::Seconds(1));
    CallBesides([&] { seen = cache->Get(1); });
  });
  EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
  WaitForTheOther();
  EXPECT_EQ(seen, 10);
}

TEST_P(CacheInterleavingTest, TimeToLiveIsThatOfAValueTouchedMeanwhile) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("time to live: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->TimeToLive(1), absl::Hours(1) - absl::Seconds(1));
}

TEST_P(CacheInterleavingTest, GetFindsWhatReplacedAValueBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    cache->Set(1, 11);
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 11);
}

TEST_P(CacheInterleavingTest, GetFindsWhatWasTouchedBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_P(CacheInterleavingTest, GetReturnsNothingThatExpiresWhileItLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock",
     [&] { clock_.Advance(absl::Seconds(1)); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheInterleavingTest, GetReturnsWhatIsDeletedAfterItWasFound) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("read: between index and deadline", [&] {
    EXPECT_TRUE(cache->Del(1));
    cache->Set(2, "two");
  });
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_P(CacheInterleavingTest, GetNeverReturnsTheValueOfAnotherKey) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("index: between tag and cell", [&] {
    EXPECT_TRUE(cache->Del(1));
    for (int key = 2; key < 100; ++key) cache->Set(key, "another");
  });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// Puts all keys into one bucket of the index and those that follow it.
struct OneHash {
  size_t operator()(int) const { return 0; }
};

// A read that meets what was made after it began must begin anew. Otherwise the
// value is destroyed under its eyes as soon as the read counts as stalled.
TEST_P(CacheInterleavingTest, ReadProtectsWhatWasMadeAfterItBegan) {
  using Value = std::shared_ptr<int>;
  constexpr int kKeys = 14;  // Two more than a bucket has room for.
  for (const int visited : {0, kKeys - 1}) {
    for (int look = 1; look <= visited + 1; ++look) {
      auto cache = *Cache<int, Value, OneHash>::Create(options_);
      for (int key = 0; key < kKeys; ++key) cache->Set(key, nullptr);
      std::weak_ptr<int> watched;
      AtNth("index: between tag and cell", look, [&] {
        internal::AdvanceBirth();
        for (int key = 0; key < kKeys; ++key) {
          auto value = std::make_shared<int>(key);
          if (key == visited) watched = value;
          cache->Set(key, std::move(value));
        }
      });
      EXPECT_TRUE(cache->Visit(visited, [&](const Value&) {
        cache->Del(visited);
        for (int i = 0; i < 40; ++i) {  // More collections than make a stall.
          cache->Set(-1, nullptr);
          cache->RunMaintenance();
        }
        EXPECT_FALSE(watched.expired()) << visited << ", look " << look;
      }));
      cache->RunMaintenance();
      EXPECT_TRUE(watched.expired());
    }
  }
}

// A read that has begun anew may meet what was made later still.
TEST_P(CacheInterleavingTest, ReadProtectsWhatWasMadeAfterItBeganAnew) {
  using Value = std::shared_ptr<int>;
  auto cache = New<int, Value>();
  cache->Set(1, nullptr);
  std::weak_ptr<int> watched;
  const auto replace = [&] {
    internal::AdvanceBirth();
    auto value = std::make_shared<int>(1);
    watched = value;
    cache->Set(1, std::move(value));
  };
  At("index: between tag and cell", [&] {
    replace();
    At("index: between tag and cell", replace);
  });
  EXPECT_TRUE(cache->Visit(1, [&](const Value&) {
    cache->Del(1);
    for (int i = 0; i < 40; ++i) {  // More collections than make a stall.
      cache->Set(2, nullptr);
      cache->RunMaintenance();
    }
    EXPECT_FALSE(watched.expired());
  }));
  cache->RunMaintenance();
  EXPECT_TRUE(watched.expired());
}

TEST_P(CacheInterleavingTest, SetOvertakenByADelIsVisible) {
  auto cache = New<int, int>();
  cache->Set(1, 10);
  At("store: between clock and lock", [&] { EXPECT_TRUE(cache->Del(1)); });
  EXPECT_TRUE(cache->Set(1, 11));
  EXPECT_EQ(cache->Get(1), 11);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// In go-zero a Del between the two steps of a Set left a key without a timer.
TEST_P(CacheInterleavingTest, SetOvertakenByADelStillExpires) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("store: between clock and lock", [&] { EXPECT_TRUE(cache->Del(1)); });
  cache->Set(1, 11, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

TEST_P(CacheInterleavingTest, SetCountsItsTtlFromWhenItWasCalled) {
  auto cache = New<int, int>();
  At("store: between clock and lock",
     [&] { clock_.Advance(absl::Milliseconds(600)); });
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->TimeToLive(1), absl::Milliseconds(400));
}

TEST_P(CacheInterleavingTest, DelOvertakenByASetTakesTheNewValue) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("remove: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    cache->Set(1, 11);
  });
  EXPECT_TRUE(cache->Del(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

// One shard is empty already, another one not yet.
TEST_P(CacheInterleavingTest, ReadersSeeAllOrNothingOfAClear) {
  constexpr int kKeys = 16;
  options_.shards = 2;
  auto cache = New<int, int>();
  for (int key = 0; key < kKeys; ++key) cache->Set(key, key);
  bool missed = false;
  bool hit_after_a_miss = false;
  const auto read_all_twice = [&] {
    for (int i = 0; i < 2 * kKeys; ++i) {
      const bool hit = cache->Get(i % kKeys).has_value();
      hit_after_a_miss = hit_after_a_miss || (missed && hit);
      missed = missed || !hit;
    }
  };
  const auto before_the_second_shard = [&] { CallBesides(read_all_twice); };
  At("clear: before a shard is emptied",
     [&] { At("clear: before a shard is emptied", before_the_second_shard); });
  cache->Clear();
  WaitForTheOther();
  EXPECT_TRUE(missed);
  EXPECT_FALSE(hit_after_a_miss);
}

// For ThreadSanitizer. The flag is relaxed, so that it orders nothing that the
// lock does not.
TEST_P(CacheInterleavingTest, UseOfAnEntryThatHasLeftDoesNotLookAtItsLinks) {
  options_.shards = 1;  // Where nothing but the last one used is young.
  auto cache = New<int, int>();
  for (int key = 0; key < 3; ++key) cache->Set(key, key);
  std::atomic<bool> unlocked{false};
  std::thread deleter;
  At("read: between index and deadline", [&] {
    deleter = std::thread([&] {
      At("limbo: before an entry is added",
         [&] { unlocked.store(true, std::memory_order_relaxed); });
      EXPECT_TRUE(cache->Del(1));
    });
    while (!unlocked.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  EXPECT_EQ(cache->Get(1), 1);
  deleter.join();
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// Two look through limbo at a time: the reaper finds nothing there while the
// other has it in hand, and has to be told of what that one puts back.
TEST_P(CacheInterleavingTest, ReaperComesForWhatMaintenancePutBackIntoLimbo) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  auto cache = New<int, std::shared_ptr<int>>();
  auto value = std::make_shared<int>(7);
  cache->Set(1, value);
  cache->Set(2, nullptr);
  cache->Visit(2, [&](const auto&) {
    cache->Del(1);
    clock_.RunFor(absl::Seconds(1));
    At("limbo: between the epoch's end and the scan of readers",
       [&] { clock_.RunFor(absl::Seconds(1)); });
    cache->RunMaintenance();
  });
  EXPECT_EQ(value.use_count(), 2);
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(value.use_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Policies, CacheInterleavingTest,
                         testing::EachPolicy());

}  // namespace
}  // namespace wheelcache
