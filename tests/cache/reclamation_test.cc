// When the values that left a cache are destroyed, and what holds them back.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/tests/testing/cache_environment.h"
#include "wheelcache/tests/testing/counted.h"

namespace wheelcache {
namespace {

using testing::Counted;

class ReclamationTest : public CacheEnvironment {
 protected:
  std::atomic<int64_t> values_{0};
};

// A thread that stays in a read until it is told to go on.
template <typename CacheType>
class StalledReader {
 public:
  StalledReader(CacheType* cache, int key)
      : thread_([this, cache, key] {
          cache->Visit(key, [this](const Counted&) {
            inside_.store(true);
            while (!go_on_.load()) std::this_thread::yield();
          });
        }) {
    while (!inside_.load()) std::this_thread::yield();
  }
  ~StalledReader() { GoOn(); }

  void GoOn() {
    go_on_.store(true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> go_on_{false};
  std::thread thread_;
};

TEST_F(ReclamationTest, AProgramOfOneThreadDestroysValuesAtOnce) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Visit(1, [](const Counted&) {});
  cache->Set(1, Counted(&values_));
  EXPECT_EQ(values_.load(), 1);
  cache->Del(1);
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(ReclamationTest, MaintenanceDestroysWhatOtherThreadsMightHaveSeen) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Del(2);
  EXPECT_EQ(values_.load(), 2);
  reader.GoOn();
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), 1);
}

// The caller's loop learns when to look, and does not spin meanwhile.
TEST_F(ReclamationTest, NextDeadlineTellsOfWhatAReaderHoldsBack) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  cache->Del(2);
  EXPECT_LE(cache->NextDeadline(), clock_.Now());
  cache->RunMaintenance();
  EXPECT_EQ(cache->NextDeadline(), clock_.Now() + options_.reclaim_delay);
  clock_.Advance(options_.reclaim_delay);
  reader.GoOn();
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), 1);
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
}

TEST_F(ReclamationTest, TheReaperDestroysWhatOtherThreadsMightHaveSeen) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Del(2);
  reader.GoOn();
  clock_.RunFor(options_.reclaim_delay);
  EXPECT_EQ(values_.load(), 1);
  const int64_t wake_ups = clock_.wake_ups();
  clock_.RunFor(absl::Minutes(1));
  EXPECT_EQ(clock_.wake_ups(), wake_ups);
}

TEST_F(ReclamationTest, TheReaperDestroysWhatAClearHasRemoved) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  auto cache = New<int, Counted>();
  for (int key = 0; key < 100; ++key) cache->Set(key, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Clear();
  EXPECT_EQ(values_.load(), 100);
  reader.GoOn();
  clock_.RunFor(options_.reclaim_delay);
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(ReclamationTest, AStalledReaderDoesNotKeepTheReaperBusy) {
  Reaper reaper(clock_);
  options_.reaper = &reaper;
  options_.reclaim_delay = absl::ZeroDuration();
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  StalledReader reader(cache.get(), 1);
  cache->Del(2);
  const int64_t wake_ups = clock_.wake_ups();
  clock_.RunFor(absl::Seconds(1));
  EXPECT_LE(clock_.wake_ups(), wake_ups + 101);
  reader.GoOn();
  clock_.RunFor(absl::Seconds(1));
  EXPECT_EQ(values_.load(), 1);
}

TEST_F(ReclamationTest, AStalledReaderHoldsBackNoMoreThanOneCacheful) {
  constexpr int64_t kEntries = 1'000;
  options_.max_entries = kEntries;
  auto cache = New<int, Counted>();
  for (int key = 0; key < kEntries; ++key) cache->Set(key, Counted(&values_));
  StalledReader reader(cache.get(), 0);
  int64_t most = 0;
  for (int key = 0; key < 100 * kEntries; ++key) {
    cache->Set(key, Counted(&values_));
    most = std::max(most, values_.load());
  }
  // Besides: seventeen collections of a sixteenth of the limit each, until the
  // stall was noticed, and the value under way.
  EXPECT_LE(most, 2 * kEntries + 18 * (kEntries / 16));
  reader.GoOn();
  cache->RunMaintenance();
  EXPECT_EQ(values_.load(), kEntries);
}

TEST_F(ReclamationTest, AHandleHoldsBackItsOwnValueAlone) {
  auto cache = New<int, Counted>();
  cache->Set(1, Counted(&values_));
  cache->Set(2, Counted(&values_));
  auto handle = cache->Find(1);
  cache->Clear();
  EXPECT_EQ(values_.load(), 1);
  handle = {};
  EXPECT_EQ(values_.load(), 0);
}

TEST_F(ReclamationTest, AVisitorMayUseTheCache) {
  auto cache = New<std::string, std::string>();
  cache->Set("a", "1");
  cache->Set("b", "2");
  bool same = false;
  EXPECT_TRUE(cache->Visit("a", [&](const auto& value) {
    EXPECT_EQ(cache->Get("b"), "2");
    cache->Set("a", "3");
    EXPECT_EQ(cache->Get("a"), "3");
    cache->Clear();
    same = value == "1";
  }));
  EXPECT_TRUE(same);
  EXPECT_FALSE(cache->Contains("a"));
}

TEST_F(ReclamationTest, APeekWithinAVisitIsNoUse) {
  options_.max_entries = 2;
  auto cache = New<int, int>();
  cache->Set(1, 10);
  cache->Set(2, 20);
  cache->Visit(2, [&](int) { EXPECT_EQ(cache->Peek(1), 10); });
  cache->Set(3, 30);
  EXPECT_FALSE(cache->Contains(1));
  EXPECT_TRUE(cache->Contains(2));
}

TEST_F(ReclamationTest, AThreadMayReadOneCacheAfterAnother) {
  std::atomic<int> stage{0};
  auto first = New<int, Counted>();
  auto second = New<int, Counted>();
  first->Set(1, Counted(&values_));
  second->Set(1, Counted(&values_));
  std::thread thread([&] {
    EXPECT_TRUE(first->Contains(1));
    stage.store(1);
    while (stage.load() != 2) std::this_thread::yield();
    EXPECT_TRUE(second->Contains(1));
  });
  while (stage.load() != 1) std::this_thread::yield();
  first.reset();
  EXPECT_EQ(values_.load(), 1);
  stage.store(2);
  thread.join();
}

}  // namespace
}  // namespace wheelcache
