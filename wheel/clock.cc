#include "wheelcache/wheel/clock.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/time/time.h"

namespace wheelcache {
namespace {

int64_t Read(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The kernel sets the coarse clock at its own timer interrupt. Where that comes
// late, because a hypervisor gave the core to somebody else, the reading is
// older than the resolution that the kernel states, by tens of milliseconds
// now and then. A second leaves a wide margin, and costs little: one exact
// reading for those who ask within a second of the deadline.
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

// Uses the standard library because absl::CondVar, in the releases that this
// library supports, waits on the wall clock: it would oversleep when that is
// set back. Nor does anything stay behind in these that a child of fork()
// could trip over.
class RealTimeSleeper final : public Sleeper {
 public:
  explicit RealTimeSleeper(const Clock& clock) : clock_(clock) {}

  void SleepUntil(int64_t deadline_nanos) override {
    std::unique_lock<std::mutex> lock(mu_);
    while (!woken_) {
      const int64_t now = clock_.NowNanos();
      if (now >= deadline_nanos) break;
      if (deadline_nanos == Clock::kNever) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, Remaining(now, deadline_nanos));
      }
    }
    woken_ = false;
  }

  void Wake() override {
    const std::lock_guard<std::mutex> lock(mu_);
    woken_ = true;
    changed_.notify_one();
  }

 private:
  // At most a day, since wait_for adds to a reading without saturating.
  static std::chrono::nanoseconds Remaining(int64_t now, int64_t deadline) {
    constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000'000;
    const uint64_t left =
        static_cast<uint64_t>(deadline) - static_cast<uint64_t>(now);
    return std::chrono::nanoseconds(std::min(left, kDay));
  }

  const Clock& clock_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool woken_ = false;  // Guarded by mu_.
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
  int64_t delay_nanos = absl::ToInt64Nanoseconds(delay);  // Saturated.
  if (absl::Nanoseconds(delay_nanos) < delay && delay_nanos != kNever) {
    ++delay_nanos;
  }
  if (delay_nanos > 0 && now_nanos > kNever - delay_nanos) return kNever;
  return now_nanos + delay_nanos;
}

}  // namespace wheelcache
