#include "wheelcache/wheel/clock.h"

#include <time.h>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace {

int64_t Read(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The kernel sets the coarse clock at its own timer interrupt. If the interrupt
// is late, because of CPU steal by a hypervisor, the reading lags by more than
// the resolution that the kernel states, at times by tens of milliseconds. A
// second leaves a wide margin, and costs little: exact readings within a second
// of the deadline only.
constexpr int64_t kCoarseLagNanos = 1'000'000'000;

class MonotonicClock final : public Clock {
 public:
  int64_t NowNanos() const override { return Read(CLOCK_MONOTONIC); }
#ifdef CLOCK_MONOTONIC_COARSE
  int64_t CoarseNowNanos() const override {
    return Read(CLOCK_MONOTONIC_COARSE);
  }
  int64_t coarse_lag_nanos() const override { return kCoarseLagNanos; }
#endif
};

class RealTimeSleeper final : public Sleeper {
 public:
  explicit RealTimeSleeper(const Clock& clock) : clock_(clock) {}

  void SleepUntil(int64_t deadline_nanos) override {
    MutexLock lock(&mu_);
    while (!woken_) {
      const int64_t now = clock_.NowNanos();
      if (now >= deadline_nanos) break;
      wake_.WaitWithTimeout(
          &mu_, absl::Nanoseconds(deadline_nanos) - absl::Nanoseconds(now));
    }
    woken_ = false;
  }

  void Wake() override {
    MutexLock lock(&mu_);
    woken_ = true;
    wake_.Signal();
  }

 private:
  const Clock& clock_;
  Mutex mu_;
  CondVar wake_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

Clock& Clock::Monotonic() {
  static MonotonicClock* const clock = new MonotonicClock;
  return *clock;
}

std::unique_ptr<Sleeper> Clock::NewSleeper() {
  return std::make_unique<RealTimeSleeper>(*this);
}

int64_t Clock::NanosAfter(int64_t now_nanos, absl::Duration delay) {
  constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();
  int64_t delay_nanos = absl::ToInt64Nanoseconds(delay);  // Saturated.
  if (absl::Nanoseconds(delay_nanos) < delay && delay_nanos != kNever) {
    ++delay_nanos;
  }
  if (delay_nanos >= 0) return NanosAfter(now_nanos, delay_nanos);
  if (delay_nanos == kLongAgo) return kLongAgo;
  if (now_nanos < kLongAgo - delay_nanos) return kLongAgo;
  return now_nanos + delay_nanos;
}

}  // namespace wheelcache
