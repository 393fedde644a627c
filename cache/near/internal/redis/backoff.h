// How long to wait before the next attempt to connect.
//
//   Backoff backoff(seed);
//   absl::Duration pause = backoff.Next();  // Up to 50 ms.
//   pause = backoff.Next();                 // Up to 100 ms.
//   backoff.Reset();                        // It worked.
//
// The limit doubles from 50 ms to 5 s, and the pause is anywhere below it (full
// jitter): a thousand clients of a server that restarts do not come back at the
// same instant.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_BACKOFF_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_BACKOFF_H_

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace wheelcache::internal {

class Backoff final {
 public:
  static constexpr absl::Duration kFirstLimit = absl::Milliseconds(50);
  static constexpr absl::Duration kLastLimit = absl::Seconds(5);

  explicit Backoff(uint64_t seed) : random_(seed) {}

  // Returns the next pause, and doubles the limit.
  absl::Duration Next() {
    const absl::Duration pause =
        limit_ * std::uniform_real_distribution<double>(0, 1)(random_);
    limit_ = std::min(2 * limit_, kLastLimit);
    return pause;
  }

  // Begins again with short pauses.
  void Reset() { limit_ = kFirstLimit; }

 private:
  std::mt19937_64 random_;
  absl::Duration limit_ = kFirstLimit;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_BACKOFF_H_
