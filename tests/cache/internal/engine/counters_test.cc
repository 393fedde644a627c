// Counters: which thread has a stripe to itself, and that nothing is lost.

#include "wheelcache/cache/internal/engine/counters.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/cache/internal/threads/thread_record.h"

namespace wheelcache::internal {
namespace {

constexpr Count kAll[] = {
    Count::kHits,    Count::kMisses,   Count::kStamped,
    Count::kSets,    Count::kExpired,  Count::kEvicted,
    Count::kDeleted, Count::kReplaced, Count::kListenerExceptions};

void InANewThread(const std::function<void()>& function) {
  std::thread(function).join();
}

TEST(CountersTest, BeginAtZero) {
  const Counters counters;
  for (const Count what : kAll) EXPECT_EQ(counters.Sum(what), 0);
}

TEST(CountersTest, EachEventIsCountedApart) {
  Counters counters;
  const auto count = [&] {
    int64_t times = 0;
    for (const Count what : kAll) {
      counters.ForThisThread().Add(what, ++times);
    }
  };
  count();
  InANewThread(count);
  int64_t times = 0;
  for (const Count what : kAll) EXPECT_EQ(counters.Sum(what), 2 * ++times);
}

TEST(CountersTest, AThreadCountsInAStripeOfItsOwnFromTheFirstEventOn) {
  Counters counters;
  for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(counters.Add(Count::kHits), i);
  std::atomic<bool> done{false};
  std::thread other([&] {
    EXPECT_FALSE(HasThreadRecord());
    for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(counters.Add(Count::kHits), i);
    EXPECT_TRUE(HasThreadRecord());
    done.store(true);
  });
  other.join();
  EXPECT_TRUE(done.load());
  EXPECT_EQ(counters.Add(Count::kHits), 4);
  EXPECT_EQ(counters.Sum(Count::kHits), 7);
}

TEST(CountersTest, AThreadHasAStripeOfItsOwnInEachOfSeveral) {
  Counters first;
  Counters second;
  const auto count_in_both = [&] {
    for (int64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(first.Add(Count::kHits), i);
      EXPECT_EQ(second.Add(Count::kHits), i);
    }
  };
  std::atomic<bool> done{false};
  std::thread other([&] {
    count_in_both();
    // While this thread still has its index, which another would go on with.
    std::thread(count_in_both).join();
    done.store(true);
  });
  other.join();
  EXPECT_TRUE(done.load());
}

TEST(CountersTest, AThreadGoesOnInTheStripeOfTheOneWhoseIndexItHas) {
  Counters counters;
  ThreadIndex();
  for (int64_t i = 1; i <= 3; ++i) {
    InANewThread([&] { EXPECT_EQ(counters.Add(Count::kHits), i); });
  }
  EXPECT_EQ(counters.Sum(Count::kHits), 3);
}

// Of those the last ones share a stripe.
TEST(CountersTest, NothingIsLostHoweverManyThreadsThereAre) {
  constexpr int kThreads = 40;
  constexpr int kTimes = 10'000;
  Counters counters;
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ThreadIndex();
      ++ready;
      while (ready.load() < kThreads) std::this_thread::yield();
      for (int j = 0; j < kTimes; ++j) {
        counters.Add(Count::kSets);
        counters.Add(Count::kListenerExceptions);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.Sum(Count::kSets), kThreads * kTimes);
  EXPECT_EQ(counters.Sum(Count::kListenerExceptions), kThreads * kTimes);
}

// At its very end a thread has no index of its own.
struct Late {
  ~Late() { EXPECT_EQ(counters->Add(Count::kHits), expected); }
  Counters* counters;
  int64_t expected;
};

TEST(CountersTest, ThreadsAtTheirVeryEndShareAStripe) {
  Counters counters;
  for (int64_t i = 1; i <= 3; ++i) {
    InANewThread([&] {
      thread_local Late late = {&counters, i};  // Destroyed after the record.
      (void)&late;
      ThreadIndex();
    });
  }
  EXPECT_EQ(counters.Sum(Count::kHits), 3);
}

}  // namespace
}  // namespace wheelcache::internal
