#include "wheelcache/wheel/clock.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/platform.h"

namespace wheelcache {
namespace {

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
  int64_t NowNanos() const override { return platform::MonotonicNanos(); }
  int64_t CoarseNowNanos() const override { return platform::CoarseNanos(); }
  int64_t coarse_lag_nanos() const override {
    return platform::kCoarseLagNanos;
  }
  std::unique_ptr<Sleeper> NewSleeper() override {
    return std::make_unique<RealTimeSleeper>(*this, absl::InfiniteDuration());
  }
};

// No condition variable waits on this clock.
class BootTimeSleeper final : public Sleeper {
 public:
  explicit BootTimeSleeper(int alarm) : alarm_(alarm) {}
  ~BootTimeSleeper() override { platform::CloseAlarm(alarm_); }

  void SleepUntil(int64_t deadline_nanos) override {
    {
      MutexLock lock(&mu_);
      if (!woken_) platform::SetAlarm(alarm_, deadline_nanos);
    }
    platform::AwaitAlarm(alarm_);
    MutexLock lock(&mu_);
    woken_ = false;
  }

  void Wake() override {
    MutexLock lock(&mu_);
    woken_ = true;
    platform::SetAlarm(alarm_, 0);
  }

 private:
  const int alarm_;
  Mutex mu_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
};

class BootTimeClock final : public Clock {
 public:
  int64_t NowNanos() const override { return platform::NanosSinceBoot(); }
  std::unique_ptr<Sleeper> NewSleeper() override {
    const int alarm = platform::OpenAlarm();
    if (alarm < 0) return Clock::NewSleeper();
    return std::make_unique<BootTimeSleeper>(alarm);
  }
};

}  // namespace

Clock& Clock::Monotonic() {
  static MonotonicClock* const clock = new MonotonicClock;
  return *clock;
}

Clock& Clock::SinceBoot() {
  static auto* const clock = new BootTimeClock;
  return *clock;
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
