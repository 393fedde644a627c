// Converts between readings of a clock, in nanoseconds, and the ticks in which
// a timing wheel counts.
//
//   constexpr Ticks ticks(/*tick_nanos=*/1'000);
//   ticks.Nanos(ticks.Ceil(1'500));  // 2'000: the first tick from there on.
//
// A clock may read less than zero, while ticks have no sign. So the reading 0
// is not tick 0 but the middle of the range, and order is kept everywhere.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TICKS_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TICKS_H_

#include <cstdint>
#include <limits>

#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class Ticks {
 public:
  // REQUIRES: a tick is at least a nanosecond.
  explicit constexpr Ticks(int64_t tick_nanos) : tick_nanos_(tick_nanos) {}

  // The last tick that begins at the reading or before it.
  constexpr uint64_t Floor(int64_t nanos) const {
    return FromZero(nanos / tick_nanos_ - (nanos % tick_nanos_ < 0));
  }

  // The first tick that begins at the reading or after it.
  constexpr uint64_t Ceil(int64_t nanos) const {
    return FromZero(nanos / tick_nanos_ + (nanos % tick_nanos_ > 0));
  }

  // The reading at which the tick begins. Of one that begins after the last
  // reading, Clock::kNever; of one that begins before the first, that.
  constexpr int64_t Nanos(uint64_t tick) const {
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    const auto from_zero = static_cast<int64_t>(tick ^ kZero);
    if (from_zero > Clock::kNever / tick_nanos_) return Clock::kNever;
    if (from_zero < kFirst / tick_nanos_) return kFirst;
    return from_zero * tick_nanos_;
  }

 private:
  static constexpr uint64_t kZero = uint64_t{1} << 63;

  static constexpr uint64_t FromZero(int64_t ticks) {
    return static_cast<uint64_t>(ticks) ^ kZero;
  }

  int64_t tick_nanos_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TICKS_H_
