// Has something happen in the middle of a call to the cache, at a named point
// of an engine that is built for that; see cache/internal/threads/interleave.h.
//
//   At("remove: between clock and lock", [&] { cache->Set(1, 11); });
//   EXPECT_TRUE(cache->Del(1));  // Of the value that came meanwhile.
//
// Defines what the engine calls: to be included by one source of a program,
// which is built with WHEELCACHE_INTERLEAVE.

#ifndef WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
#define WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_

#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/tests/testing/cache_environment.h"

#ifndef WHEELCACHE_INTERLEAVE
#error "this test needs an engine that can be interrupted"
#endif

namespace wheelcache {
namespace testing {

// What happens when a call of this thread next comes to the point; then nothing
// any more.
struct Interruption {
  std::string point;
  std::function<void()> action;
};
inline thread_local Interruption interruption;

}  // namespace testing

namespace internal {

inline void Interleave(const char* point) {
  testing::Interruption& interruption = testing::interruption;
  if (interruption.point != point) return;
  interruption.point.clear();
  // The action may plan the next.
  std::exchange(interruption.action, {})();
}

}  // namespace internal

// A test in which each interruption that it plans must come.
class InterruptedCacheEnvironment : public CacheEnvironment {
 protected:
  ~InterruptedCacheEnvironment() override {
    EXPECT_EQ(testing::interruption.point, "") << "nothing came to this point";
    testing::interruption = {};
  }

  static void At(const std::string& point, std::function<void()> action) {
    testing::interruption = {point, std::move(action)};
  }
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
