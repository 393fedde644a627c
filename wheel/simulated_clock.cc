#include "wheelcache/wheel/simulated_clock.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "absl/algorithm/container.h"

namespace wheelcache {

// All fields, and the methods that end in Locked, are guarded by the clock's
// lock, which the annotations cannot name from both sides.
class SimulatedClock::SimulatedSleeper final : public Sleeper {
 public:
  explicit SimulatedSleeper(SimulatedClock& clock) : clock_(clock) {
    MutexLock lock(&clock_.mu_);
    clock_.sleepers_.push_back(this);
  }

  ~SimulatedSleeper() override {
    MutexLock lock(&clock_.mu_);
    clock_.sleepers_.erase(absl::c_find(clock_.sleepers_, this));
    clock_.fell_asleep_.SignalAll();
  }

  void SleepUntil(int64_t deadline_nanos) override {
    MutexLock lock(&clock_.mu_);
    deadline_nanos_ = deadline_nanos;
    if (AsleepLocked()) {
      clock_.fell_asleep_.SignalAll();
      while (AsleepLocked()) woken_or_due_.Wait(&clock_.mu_);
      ++clock_.wake_ups_;
    }
    deadline_nanos_ = kAwake;
    woken_ = false;
  }

  void Wake() override {
    MutexLock lock(&clock_.mu_);
    woken_ = true;
    woken_or_due_.Signal();
  }

  bool AsleepLocked() const {
    return !woken_ && clock_.NowNanos() < deadline_nanos_;
  }

  int64_t DeadlineLocked() const { return deadline_nanos_; }

  void NoticeTimeLocked() {
    if (!AsleepLocked()) woken_or_due_.Signal();
  }

 private:
  static constexpr int64_t kAwake = std::numeric_limits<int64_t>::min();

  SimulatedClock& clock_;
  CondVar woken_or_due_;
  int64_t deadline_nanos_ = kAwake;
  bool woken_ = false;
};

SimulatedClock::SimulatedClock(absl::Duration start, absl::Duration coarse_lag)
    : coarse_lag_nanos_(absl::ToInt64Nanoseconds(coarse_lag)),
      now_nanos_(absl::ToInt64Nanoseconds(start)) {}

SimulatedClock::~SimulatedClock() {
  assert(sleepers_.empty() && "a sleeper must not outlive its clock");
}

int64_t SimulatedClock::CoarseNowNanos() const {
  const int64_t now = NowNanos();
  if (coarse_lag_nanos_ == 0) return now;
  int64_t past = now % coarse_lag_nanos_;
  if (past < 0) past += coarse_lag_nanos_;
  return std::max(now, std::numeric_limits<int64_t>::min() + past) - past;
}

std::unique_ptr<Sleeper> SimulatedClock::NewSleeper() {
  return std::make_unique<SimulatedSleeper>(*this);
}

void SimulatedClock::Advance(absl::Duration by) {
  MutexLock lock(&mu_);
  MoveToLocked(NanosAfter(by));
}

void SimulatedClock::AdvanceTo(absl::Duration now) {
  MutexLock lock(&mu_);
  MoveToLocked(absl::ToInt64Nanoseconds(now));
}

void SimulatedClock::RunFor(absl::Duration by) {
  MutexLock lock(&mu_);
  const int64_t end = std::min(NanosAfter(by), kNever - 1);
  do {
    WaitUntilAsleepLocked();
    MoveToLocked(std::min(EarliestDeadlineLocked(), end));
  } while (NowNanos() < end);
  WaitUntilAsleepLocked();
}

void SimulatedClock::WaitUntilAsleep() {
  MutexLock lock(&mu_);
  WaitUntilAsleepLocked();
}

int64_t SimulatedClock::wake_ups() const {
  MutexLock lock(&mu_);
  return wake_ups_;
}

void SimulatedClock::MoveToLocked(int64_t now_nanos) {
  now_nanos = std::min(now_nanos, kNever - 1);
  if (now_nanos <= NowNanos()) return;
  now_nanos_.store(now_nanos, std::memory_order_release);
  for (SimulatedSleeper* sleeper : sleepers_) sleeper->NoticeTimeLocked();
}

void SimulatedClock::WaitUntilAsleepLocked() {
  while (!AllAsleepLocked()) fell_asleep_.Wait(&mu_);
}

bool SimulatedClock::AllAsleepLocked() const {
  return absl::c_all_of(sleepers_, [](const SimulatedSleeper* sleeper) {
    return sleeper->AsleepLocked();
  });
}

int64_t SimulatedClock::EarliestDeadlineLocked() const {
  int64_t earliest = kNever;
  for (const SimulatedSleeper* sleeper : sleepers_) {
    earliest = std::min(earliest, sleeper->DeadlineLocked());
  }
  return earliest;
}

}  // namespace wheelcache
