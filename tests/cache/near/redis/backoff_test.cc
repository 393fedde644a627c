#include "wheelcache/cache/near/internal/redis/backoff.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace wheelcache::internal {
namespace {

constexpr uint64_t kSeeds = 200;

TEST(BackoffTest, LimitOfThePausesDoublesFrom50MillisecondsTo5Seconds) {
  absl::Duration limit = absl::Milliseconds(50);
  for (int pauses = 1; pauses <= 10; ++pauses) {
    absl::Duration longest;
    absl::Duration shortest = absl::InfiniteDuration();
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Backoff backoff(seed);
      absl::Duration pause;
      for (int i = 0; i < pauses; ++i) pause = backoff.Next();
      longest = std::max(longest, pause);
      shortest = std::min(shortest, pause);
    }
    EXPECT_LE(longest, limit) << pauses;
    EXPECT_GE(longest, 0.9 * limit) << pauses;
    EXPECT_LE(shortest, 0.1 * limit) << pauses;
    limit = std::min(2 * limit, absl::Seconds(5));
  }
}

TEST(BackoffTest, ResetBeginsAgainWithShortPauses) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Backoff backoff(seed);
    for (int i = 0; i < 10; ++i) backoff.Next();
    backoff.Reset();
    EXPECT_LE(backoff.Next(), absl::Milliseconds(50));
    EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
  }
}

}  // namespace
}  // namespace wheelcache::internal
