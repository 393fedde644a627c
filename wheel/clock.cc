#include "wheelcache/wheel/clock.h"

#include <time.h>

#ifdef __linux__
#include <sys/timerfd.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>

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

// Looks at its clock again after `longest`, where that may jump.
class RealTimeSleeper final : public Sleeper {
 public:
  RealTimeSleeper(const Clock& clock, absl::Duration longest)
      : clock_(clock), longest_(longest) {}

  void SleepUntil(int64_t deadline_nanos) override {
    MutexLock lock(&mu_);
    while (!woken_) {
      const int64_t now = clock_.NowNanos();
      if (now >= deadline_nanos) break;
      const absl::Duration left =
          absl::Nanoseconds(deadline_nanos) - absl::Nanoseconds(now);
      wake_.WaitWithTimeout(&mu_, std::min(left, longest_));
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
  const absl::Duration longest_;
  Mutex mu_;
  CondVar wake_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

class MonotonicClock final : public Clock {
 public:
  int64_t NowNanos() const override { return Read(CLOCK_MONOTONIC); }
#ifdef CLOCK_MONOTONIC_COARSE
  int64_t CoarseNowNanos() const override {
    return Read(CLOCK_MONOTONIC_COARSE);
  }
  int64_t coarse_lag_nanos() const override { return kCoarseLagNanos; }
#endif
  std::unique_ptr<Sleeper> NewSleeper() override {
    return std::make_unique<RealTimeSleeper>(*this, absl::InfiniteDuration());
  }
};

#ifdef __linux__

// No condition variable waits on CLOCK_BOOTTIME.
class BootTimeSleeper final : public Sleeper {
 public:
  explicit BootTimeSleeper(int timer) : timer_(timer) {}
  ~BootTimeSleeper() override { close(timer_); }

  void SleepUntil(int64_t deadline_nanos) override {
    {
      MutexLock lock(&mu_);
      if (!woken_) ExpireAt(deadline_nanos);
    }
    uint64_t expirations;
    while (read(timer_, &expirations, sizeof(expirations)) < 0) {
      if (errno != EINTR) break;
    }
    MutexLock lock(&mu_);
    woken_ = false;
  }

  void Wake() override {
    MutexLock lock(&mu_);
    woken_ = true;
    ExpireAt(0);
  }

 private:
  void ExpireAt(int64_t nanos) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    nanos = std::max<int64_t>(nanos, 1);  // Zero would stop the timer.
    itimerspec expiry = {};
    expiry.it_value = absl::ToTimespec(absl::Nanoseconds(nanos));
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &expiry, nullptr);
  }

  const int timer_;
  Mutex mu_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

class BootTimeClock final : public Clock {
 public:
  int64_t NowNanos() const override { return Read(CLOCK_BOOTTIME); }
  std::unique_ptr<Sleeper> NewSleeper() override {
    const int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (timer < 0) return Clock::NewSleeper();
    return std::make_unique<BootTimeSleeper>(timer);
  }
};

#endif

}  // namespace

Clock& Clock::Monotonic() {
  static MonotonicClock* const clock = new MonotonicClock;
  return *clock;
}

Clock& Clock::SinceBoot() {
#ifdef __linux__
  static auto* const clock = new BootTimeClock;
  return *clock;
#else
  return Monotonic();
#endif
}

std::unique_ptr<Sleeper> Clock::NewSleeper() {
  return std::make_unique<RealTimeSleeper>(*this, absl::Seconds(1));
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
