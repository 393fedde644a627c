// Has something happen in the middle of a call to the cache, at a named point
// of the engine; see cache/internal/threads/interleave.h.
//
//   At("remove: before the lock", [&] { cache->Set(1, 11); });
//   EXPECT_TRUE(cache->Del(1));  // Of the value that came meanwhile.
//
// Not in builds with NDEBUG, in which such tests are skipped.

#ifndef WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
#define WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_

#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/tests/testing/cache_environment.h"

namespace wheelcache {
namespace testing {

// What happens when a call of this thread next comes to the point; then nothing
// any more.
struct Interruption {
  std::string point;
  std::function<void()> action;
};
inline thread_local Interruption interruption;

inline void Interrupt(const char* point) {
  if (interruption.point != point) return;
  interruption.point.clear();
  // The action may plan the next.
  std::exchange(interruption.action, {})();
}

}  // namespace testing

// A test in which each interruption that it plans must come.
class InterruptedCacheEnvironment : public CacheEnvironment {
 protected:
  InterruptedCacheEnvironment() {
    internal::SetInterleaving(&testing::Interrupt);
  }
  ~InterruptedCacheEnvironment() override {
    internal::SetInterleaving(nullptr);
    EXPECT_EQ(testing::interruption.point, "") << "nothing came to this point";
    testing::interruption = {};
  }

  void SetUp() override {
#ifdef NDEBUG
    GTEST_SKIP() << "an engine without points to stop at";
#endif
  }

  static void At(const std::string& point, std::function<void()> action) {
    testing::interruption = {point, std::move(action)};
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
