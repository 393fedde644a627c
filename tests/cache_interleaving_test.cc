// What a call sees that others overtake in the middle. Each test has one thing
// happen at one point of the engine, each time in the same way.

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/interleave.h"
#include "wheelcache/tests/testing/cache_environment.h"

#ifndef WHEELCACHE_INTERLEAVE
#error "this test needs an engine that can be interrupted"
#endif

namespace wheelcache {
namespace {

// What happens when a call next comes to the point; then nothing any more.
struct Interruption {
  std::string point;
  std::function<void()> action;
};
Interruption interruption;

}  // namespace

namespace internal {

void Interleave(const char* point) {
  if (interruption.point != point) return;
  interruption.point.clear();
  interruption.action();
}

}  // namespace internal

namespace {

class CacheInterleavingTest : public CacheEnvironment {
 protected:
  ~CacheInterleavingTest() override {
    EXPECT_EQ(interruption.point, "") << "nothing came to this point";
    interruption = {};
  }

  static void At(const std::string& point, std::function<void()> action) {
    interruption = {point, std::move(action)};
  }
};

TEST_F(CacheInterleavingTest, TouchDoesNotReviveWhatWasSeenToBeExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("touch: before the lock", [&] {
    clock_.Advance(absl::Seconds(1));
    EXPECT_EQ(cache->Get(1), std::nullopt);
  });
  EXPECT_FALSE(cache->Touch(1, absl::Hours(1)));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheInterleavingTest, TimeToLiveIsThatOfAValueTouchedMeanwhile) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("time to live: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->TimeToLive(1), absl::Hours(1) - absl::Seconds(1));
}

TEST_F(CacheInterleavingTest, GetFindsWhatReplacedAValueBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    cache->Set(1, 11);
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 11);
}

TEST_F(CacheInterleavingTest, GetFindsWhatWasTouchedBeforeItExpired) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock", [&] {
    EXPECT_TRUE(cache->Touch(1, absl::Hours(1)));
    clock_.Advance(absl::Seconds(1));
  });
  EXPECT_EQ(cache->Get(1), 10);
}

TEST_F(CacheInterleavingTest, GetReturnsNothingThatExpiresWhileItLooks) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("read: between deadline and clock",
     [&] { clock_.Advance(absl::Seconds(1)); });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheInterleavingTest, GetReturnsWhatIsDeletedAfterItWasFound) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("read: between index and deadline", [&] {
    EXPECT_TRUE(cache->Del(1));
    cache->Set(2, "two");
  });
  EXPECT_EQ(cache->Get(1), "one");
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheInterleavingTest, GetNeverReturnsTheValueOfAnotherKey) {
  auto cache = New<int, std::string>();
  cache->Set(1, "one");
  At("index: between tag and cell", [&] {
    EXPECT_TRUE(cache->Del(1));
    for (int key = 2; key < 100; ++key) cache->Set(key, "another");
  });
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

TEST_F(CacheInterleavingTest, SetOvertakenByADelIsVisible) {
  auto cache = New<int, int>();
  cache->Set(1, 10);
  At("publish: between clock and lock", [&] { EXPECT_TRUE(cache->Del(1)); });
  EXPECT_TRUE(cache->Set(1, 11));
  EXPECT_EQ(cache->Get(1), 11);
  EXPECT_TRUE(cache->CheckInvariants().ok());
}

// In go-zero a Del between the two steps of a Set left a key without a timer.
TEST_F(CacheInterleavingTest, SetOvertakenByADelStillExpires) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("publish: between clock and lock", [&] { EXPECT_TRUE(cache->Del(1)); });
  cache->Set(1, 11, absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  cache->RunMaintenance();
  EXPECT_EQ(cache->size(), 0);
}

TEST_F(CacheInterleavingTest, SetCountsItsTtlFromWhenItWasCalled) {
  auto cache = New<int, int>();
  At("publish: between clock and lock",
     [&] { clock_.Advance(absl::Milliseconds(600)); });
  cache->Set(1, 10, absl::Seconds(1));
  EXPECT_EQ(cache->TimeToLive(1), absl::Milliseconds(400));
}

TEST_F(CacheInterleavingTest, DelOvertakenByASetTakesTheNewValue) {
  auto cache = New<int, int>();
  cache->Set(1, 10, absl::Seconds(1));
  At("remove: between clock and lock", [&] {
    clock_.Advance(absl::Seconds(1));
    cache->Set(1, 11);
  });
  EXPECT_TRUE(cache->Del(1));
  EXPECT_EQ(cache->Get(1), std::nullopt);
}

}  // namespace
}  // namespace wheelcache
