// The time source of this library, and a way to sleep on it.
//
//   wheelcache::Clock& clock = wheelcache::Clock::Monotonic();
//   const int64_t deadline = clock.NanosAfter(absl::Milliseconds(20));
//   std::unique_ptr<wheelcache::Sleeper> sleeper = clock.NewSleeper();
//   sleeper->SleepUntil(deadline);  // Or until somebody calls Wake().
//
// A clock counts nanoseconds from a start of its own, so its readings compare
// only with each other. Code that takes a Clock& runs unchanged on a
// SimulatedClock (wheel/simulated_clock.h), its threads included: they sleep on
// a Sleeper of the clock and on nothing else.
//
// Guarantees. Monotonic() never goes back and is not moved when the wall clock
// is set; it stands still while the computer is suspended. SinceBoot() goes on,
// and what came due meanwhile is found when the computer wakes up.
//
// The coarse reading is for code that tests a distant deadline millions of
// times a second: it costs a fraction of the exact one, and lags behind it. If
// it is at least coarse_lag_nanos() before the deadline, the deadline has not
// come; otherwise the exact reading decides. CoarseClock has this rule.
//
// Threads. Thread-safe. One thread at a time sleeps on a Sleeper; any may wake
// it.
//
// To write a clock, implement NowNanos(). The rest follows from it, for a clock
// that runs at the speed of real time. If it jumps, sleepers notice it within a
// second.

#ifndef WHEELCACHE_WHEEL_CLOCK_H_
#define WHEELCACHE_WHEEL_CLOCK_H_

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

// Puts one thread to sleep until a time on the clock that made it. The clock
// must outlive it.
class WHEELCACHE_EXPORT Sleeper {
 public:
  virtual ~Sleeper() = default;

  // Blocks until the clock reads `deadline_nanos` or more, or until Wake().
  // REQUIRES: no other thread is in this call.
  virtual void SleepUntil(int64_t deadline_nanos) = 0;

  // Ends the present SleepUntil or, if there is none, the next one. Any number
  // of calls between two sleeps count as one. Thread-safe.
  virtual void Wake() = 0;
};

class WHEELCACHE_EXPORT Clock {
 public:
  // A point in time that never comes; sums that overflow saturate to it.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // The process's real clock. Never destroyed.
  static Clock& Monotonic();

  // The same, but counts the time that the computer is suspended, where the
  // system has two clocks: Linux and macOS have; on Windows, both go on. Every
  // reading is an exact one, which a hit pays for with some nanoseconds. On
  // Linux, a Sleeper takes a file descriptor.
  static Clock& SinceBoot();

  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // Returns the exact reading.
  virtual int64_t NowNanos() const = 0;

  // Returns a reading that is cheap, never ahead of NowNanos(), and behind it
  // by less than coarse_lag_nanos().
  virtual int64_t CoarseNowNanos() const { return NowNanos(); }

  // Returns the bound of the lag, 0 where the coarse reading is exact.
  // Constant, so that a hot caller may keep it.
  virtual int64_t coarse_lag_nanos() const { return 0; }

  // Creates a Sleeper on this clock, for one thread.
  virtual std::unique_ptr<Sleeper> NewSleeper();

  // Returns the exact reading as a length of time since the clock's start.
  absl::Duration Now() const { return absl::Nanoseconds(NowNanos()); }

  // Returns the reading that this clock will show `delay` from now, saturated:
  // kNever for an infinite delay. Rounded up, so that it is never early.
  int64_t NanosAfter(absl::Duration delay) const {
    return NanosAfter(NowNanos(), delay);
  }

  // As above, counted from the reading `now_nanos`.
  static int64_t NanosAfter(int64_t now_nanos, absl::Duration delay);

  // As above, for a non-negative delay in nanoseconds.
  static constexpr int64_t NanosAfter(int64_t now_nanos, int64_t delay_nanos) {
    return now_nanos <= kNever - delay_nanos ? now_nanos + delay_nanos : kNever;
  }
};

// Tests deadlines by the coarse reading of a clock, unless they are within its
// lag. The clock must outlive it.
class CoarseClock {
 public:
  explicit CoarseClock(const Clock& clock, int64_t margin_nanos = 0)
      : clock_(clock),
        lag_nanos_(Clock::NanosAfter(clock.coarse_lag_nanos(), margin_nanos)) {}

  // Returns whether the clock has reached the deadline.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool HasReached(int64_t deadline_nanos) const {
    return !IsFarBefore(deadline_nanos) && deadline_nanos <= clock_.NowNanos();
  }

  // Returns true only if the deadline is more than the margin ahead; false,
  // too, if the coarse reading does not tell.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool IsFarBefore(int64_t deadline_nanos) const {
    int64_t later;  // Than the exact reading, unless that is close to kNever.
    return ABSL_PREDICT_TRUE(!__builtin_add_overflow(clock_.CoarseNowNanos(),
                                                     lag_nanos_, &later)) &&
           ABSL_PREDICT_TRUE(deadline_nanos > later);
  }

 private:
  // Members, not arguments: a hit has no register to keep them in while the
  // clock is read.
  const Clock& clock_;
  const int64_t lag_nanos_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_CLOCK_H_
