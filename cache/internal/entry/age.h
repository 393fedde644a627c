// The age of a value, kept in four bytes of its entry.
//
//   const CreationTime created = CreationTimeAt(clock.NowNanos());
//   clock.Advance(absl::Seconds(5));
//   AgeNanos(created, clock.NowNanos());  // 5'000'000'000.
//
// A clock is read in steps of 20 ms from its start, and the time of creation is
// the number of the step, modulo 2^32. An age is a whole number of steps: exact
// for whole steps, else off by less than a step either way.
//
// Range. 2^32 steps are 2.7 years. The first 31 of 32 parts of that, 2.6 years,
// stand for ages; the last one, 31 days, for a clock that was turned back since
// by as much: the age is zero then. Greater distances count modulo 2.7 years.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_

#include <cstdint>

namespace wheelcache::internal {

using CreationTime = uint32_t;

// A step. Shorter ones would reach less far, and ages matter in seconds.
inline constexpr int64_t kAgeStepNanos = 20'000'000;

// The largest age, in steps.
inline constexpr uint32_t kMaxAge = (uint32_t{31} << 27) - 1;

constexpr CreationTime CreationTimeAt(int64_t now_nanos) {
  // Rounded down before the clock's start, too, so that all steps are alike.
  const bool rounded_up = now_nanos % kAgeStepNanos < 0;
  return static_cast<CreationTime>(now_nanos / kAgeStepNanos - rounded_up);
}

constexpr int64_t AgeNanos(CreationTime created, int64_t now_nanos) {
  const uint32_t age = CreationTimeAt(now_nanos) - created;
  return age <= kMaxAge ? age * kAgeStepNanos : 0;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_AGE_H_
