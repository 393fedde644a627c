// A clock that stands still until it is told to move, for tests without sleeps.
//
//   wheelcache::SimulatedClock clock;
//   wheelcache::Reaper reaper(clock);
//   ...
//   clock.RunFor(absl::Seconds(60));  // Returns at once, all work done.
//   EXPECT_EQ(clock.wake_ups(), 0);   // Nothing was due, so no thread woke.
//
// RunFor lets time pass as it does for real: threads that sleep on this clock
// wake at their deadlines, one point in time after the other. Advance jumps, as
// if the process had been stopped meanwhile.
//
// Guarantees. Time never goes back: a move to an earlier reading is ignored.
// A thread counts as awake from NewSleeper() on until it sleeps, and again from
// the moment it is woken; so after WaitUntilAsleep() everything that was due,
// or that the calling thread had asked for, has been done.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_WHEEL_SIMULATED_CLOCK_H_
#define WHEELCACHE_WHEEL_SIMULATED_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

class WHEELCACHE_EXPORT SimulatedClock final : public Clock {
 public:
  // A clock that reads `start`. Its coarse reading is the last whole multiple
  // of `coarse_lag`, or exact if that is zero.
  explicit SimulatedClock(absl::Duration start = absl::ZeroDuration(),
                          absl::Duration coarse_lag = absl::ZeroDuration());

  // REQUIRES: all its sleepers are destroyed.
  ~SimulatedClock() override;

  int64_t NowNanos() const override {
    return now_nanos_.load(std::memory_order_acquire);
  }
  int64_t CoarseNowNanos() const override;
  int64_t coarse_lag_nanos() const override { return coarse_lag_nanos_; }
  std::unique_ptr<Sleeper> NewSleeper() override;

  // Jumps ahead and wakes the threads whose deadlines have come, without
  // waiting for them.
  void Advance(absl::Duration by);
  void AdvanceTo(absl::Duration now);

  // Moves ahead from one sleeper's deadline to the next, waiting at each until
  // all threads are asleep again, before the first move and after the last too.
  // REQUIRES: not called by a thread that has a sleeper.
  void RunFor(absl::Duration by);

  // Blocks until every thread that has a sleeper sleeps until a later deadline.
  // REQUIRES: as RunFor.
  void WaitUntilAsleep();

  // Returns how often a sleeping thread was woken, by time or by Wake().
  int64_t wake_ups() const;

 private:
  class SimulatedSleeper;

  void MoveToLocked(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitUntilAsleepLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllAsleepLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t EarliestDeadlineLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t coarse_lag_nanos_;

  mutable Mutex mu_;
  CondVar fell_asleep_;  // Signalled when AllAsleepLocked() may hold.
  std::atomic<int64_t> now_nanos_;  // Written under mu_.
  int64_t wake_ups_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<SimulatedSleeper*> sleepers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_SIMULATED_CLOCK_H_
