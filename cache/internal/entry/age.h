// The age of a value, kept in 31 bits of its entry.
//
//   const CreationTime created = CreationTimeAt(clock.NowNanos());
//   clock.Advance(absl::Seconds(5));
//   AgeNanos(created, clock.NowNanos());  // 5'000'000'000.
//
// A clock is read in steps of 20 ms from its start, and the time of creation is
// the number of the step, modulo 2^31. An age is a whole number of steps: exact
// for whole steps, else off by less than a step either way.
//
// Range. 2^31 steps are 497 days. The first 15 of 16 parts of that, 466 days,
// stand for ages; the last one, 31 days, for a clock that was turned back since
// by as much: the age is zero then. Greater distances count modulo 497 days.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_

#include <cstdint>

namespace wheelcache::internal {

// The highest bit is of no account: an entry keeps something else there.
using CreationTime = uint32_t;

// A step. Shorter ones would reach less far, and ages matter in seconds.
inline constexpr int64_t kAgeStepNanos = 20'000'000;

// The largest age, in steps.
inline constexpr uint32_t kMaxAge = (uint32_t{15} << 27) - 1;

constexpr CreationTime CreationTimeAt(int64_t now_nanos) {
  // Rounded down before the clock's start, too, so that all steps are alike.
  const bool rounded_up = now_nanos % kAgeStepNanos < 0;
  return static_cast<CreationTime>(now_nanos / kAgeStepNanos - rounded_up);
}

// The age in steps of what was created at one time, at another one.
constexpr uint32_t AgeSteps(CreationTime created, CreationTime now) {
  const uint32_t steps = (now - created) & ((uint32_t{1} << 31) - 1);
  return steps <= kMaxAge ? steps : 0;
}

constexpr int64_t AgeNanos(CreationTime created, int64_t now_nanos) {
  return AgeSteps(created, CreationTimeAt(now_nanos)) * kAgeStepNanos;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_
