// The limits of a cache, as a fork() finds them.

#include "wheelcache/cache/internal/engine/limits.h"

#include <thread>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/tests/testing/notification.h"

namespace wheelcache::internal {
namespace {

TEST(LimitsTest, NothingChangesDuringAFork) {
  Budget budget({100, 1'000});
  Limits limits(&budget);
  testing::Notification runs;
  limits.BeforeFork();
  std::thread other([&] {
    runs.Notify();
    limits.SetTarget({200, 1'000});
  });
  runs.Wait();
  for (int i = 0; i < 20'000 && budget.limit().entries == 100; ++i) {
    std::this_thread::yield();
  }
  EXPECT_EQ(budget.limit(), (Room{100, 1'000}));
  limits.AfterForkInParent();
  other.join();
  EXPECT_EQ(budget.limit(), (Room{200, 1'000}));
}

}  // namespace
}  // namespace wheelcache::internal
