// Has something happen in the middle of a call to the cache, at a named point
// of the engine; see cache/internal/threads/interleave.h.
//
//   At("remove: before the lock", [&] { cache->Set(1, 11); });
//   EXPECT_TRUE(cache->Del(1));  // Of the value that came meanwhile.
//
// Not in builds with NDEBUG, in which such tests are skipped.

#ifndef WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
#define WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
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

  // As At, when the call has come to the point so many times.
  static void AtNth(const std::string& point, int time,
                    std::function<void()> action) {
    if (time == 1) return At(point, std::move(action));
    At(point, [point, time, action = std::move(action)] {
      AtNth(point, time - 1, action);
    });
  }

  // Another thread that makes a call, and stays in the middle of it: where it
  // comes to a point for the `time`th time.
  class PausedCall {
   public:
    // Returns when the thread has come there.
    PausedCall(const std::string& point, int time, std::function<void()> call)
        : thread_([this, point, time, call = std::move(call)] {
            AtNth(point, time, [this] {
              has_come_.store(true);
              while (!goes_on_.load()) std::this_thread::yield();
            });
            call();
          }) {
      while (!has_come_.load()) std::this_thread::yield();
    }
    ~PausedCall() { GoOn(); }

    void LetGo() { goes_on_.store(true); }
    // Returns when the call has ended.
    void GoOn() {
      LetGo();
      if (thread_.joinable()) thread_.join();
    }

   private:
    std::atomic<bool> has_come_{false};
    std::atomic<bool> goes_on_{false};
    std::thread thread_;
  };
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_INTERRUPTION_H_
