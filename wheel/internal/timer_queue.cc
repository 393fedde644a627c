#include "wheelcache/wheel/internal/timer_queue.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// The callbacks that this thread is in, the innermost first.
class CallbackScope {
 public:
  explicit CallbackScope(const TimerQueue* queue)
      : queue_(queue), outer_(innermost) {
    innermost = this;
  }
  ~CallbackScope() { innermost = outer_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  static int CountOf(const TimerQueue* queue) {
    int count = 0;
    for (const CallbackScope* s = innermost; s != nullptr; s = s->outer_) {
      if (s->queue_ == queue) ++count;
    }
    return count;
  }

 private:
  static thread_local const CallbackScope* innermost;

  const TimerQueue* const queue_;
  const CallbackScope* const outer_;
};

thread_local const CallbackScope* CallbackScope::innermost = nullptr;

}  // namespace

absl::Status CheckTimerOptions(absl::Duration interval, bool has_execute,
                               bool has_clock, bool has_reaper) {
  if (interval < absl::Nanoseconds(1) || interval == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("interval is ", absl::FormatDuration(interval),
                     ": it must be positive and finite"));
  }
  if (!has_execute) return NoCallbackError("execute");
  if (has_clock && has_reaper) {
    return absl::InvalidArgumentError(
        "clock and reaper are both set: a reaper brings its own clock");
  }
  return absl::OkStatus();
}

absl::Status NoCallbackError(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is empty: it must be a function to call"));
}

TimerQueue::TimerQueue(absl::Duration interval, const Executor& executor,
                       Reaper& reaper)
    : interval_nanos_(absl::ToInt64Nanoseconds(interval)),
      executor_(executor),
      reaper_(reaper),
      start_nanos_(reaper.clock().NowNanos()) {}

bool TimerQueue::InCallback() const { return CallbackScope::CountOf(this) > 0; }

void TimerQueue::Join() {
  reaper_.Unregister(this);
  MutexLock lock(&mu_);
  while (running_ > 0) none_running_.Wait(&mu_);
}

int64_t TimerQueue::exceptions() const {
  MutexLock lock(&mu_);
  return exceptions_;
}

absl::Status TimerQueue::CheckDelay(absl::Duration delay) {
  if (delay >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "delay is ", absl::FormatDuration(delay), ": it must not be negative"));
}

absl::Status TimerQueue::ClosedError() {
  return absl::FailedPreconditionError("the timer service is closed");
}

absl::Status TimerQueue::UnknownKeyError() {
  return absl::NotFoundError("no timer is set for this key");
}

uint64_t TimerQueue::TickAfterSet(absl::Duration delay) const {
  const uint64_t tick = TickAt(reaper_.clock().NanosAfter(delay));
  return delay == absl::ZeroDuration() ? tick : EndOfInterval(tick);
}

uint64_t TimerQueue::TickAfterMove(absl::Duration delay) const {
  const uint64_t tick = TickAt(reaper_.clock().NanosAfter(delay));
  return delay < absl::Nanoseconds(interval_nanos_) ? tick
                                                    : EndOfInterval(tick);
}

void TimerQueue::ScheduleLocked(Entry& entry, uint64_t tick) {
  UnreadyLocked(entry);
  timers_.wheel->Schedule(&entry, tick);
  reaper_.WakeAt(this, NanosAt(tick));
}

void TimerQueue::UnscheduleLocked(Entry& entry) {
  UnreadyLocked(entry);
  timers_.wheel->Cancel(&entry);
}

int64_t TimerQueue::RunDue(int64_t now_nanos) {
  int64_t next;
  {
    MutexLock lock(&mu_);
    next = CollectDueLocked(now_nanos);
  }
  while (ClaimTask()) {
    if (!StartTask()) {
      return std::min(next, Clock::NanosAfter(
                                now_nanos, absl::Nanoseconds(interval_nanos_)));
    }
  }
  return next;
}

// Makes ready what is due, up to the budget; returns when to run next: at
// `now_nanos` or earlier if more is due.
int64_t TimerQueue::CollectDueLocked(int64_t now_nanos) {
  timers_.wheel->Advance(TickAt(now_nanos), kBudget,
                         [this](Timer* timer) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                           MakeReadyLocked(*static_cast<Entry*>(timer));
                         });
  const std::optional<uint64_t> tick = timers_.wheel->NextWakeup();
  return tick.has_value() ? NanosAt(*tick) : Clock::kNever;
}

// Returns whether a ready entry lacks a task, and counts one for it.
bool TimerQueue::ClaimTask() {
  MutexLock lock(&mu_);
  if (timers_.ready <= tasks_) return false;
  ++tasks_;
  return true;
}

// Returns false if the executor did not take the task.
bool TimerQueue::StartTask() {
  if (!executor_) {
    RunTask();
    return true;
  }
  const bool accepted = ContainAndCount([this] {
    executor_([weak = weak_from_this()] {
      if (const auto queue = weak.lock()) queue->RunTask();
    });
  });
  if (accepted) return true;
  MutexLock lock(&mu_);
  if (tasks_ > 0) --tasks_;
  return false;
}

void TimerQueue::RunTask() {
  Entry* const entry = TakeReady();
  if (entry == nullptr) return;
  {
    const CallbackScope scope(this);
    ContainAndCount([&] { Execute(*entry); });
  }
  MutexLock lock(&mu_);
  if (--running_ == 0) none_running_.SignalAll();
}

// Returns null if all that was ready has been moved or removed since.
TimerQueue::Entry* TimerQueue::TakeReady() {
  MutexLock lock(&mu_);
  // An executor that threw may have kept the task, which then does not count.
  if (tasks_ > 0) --tasks_;
  Entry* const entry = timers_.first_ready;
  if (entry == nullptr) return nullptr;
  UnreadyLocked(*entry);
  UnindexLocked(*entry);
  ++running_;
  return entry;
}

void TimerQueue::CountException() {
  MutexLock lock(&mu_);
  ++exceptions_;
}

uint64_t TimerQueue::TickAt(int64_t nanos) const {
  if (nanos <= start_nanos_) return 0;
  return static_cast<uint64_t>(nanos) - static_cast<uint64_t>(start_nanos_);
}

// The first end of an interval at `tick` or later; the tick of kNever if none
// comes before that.
uint64_t TimerQueue::EndOfInterval(uint64_t tick) const {
  const uint64_t interval = static_cast<uint64_t>(interval_nanos_);
  const uint64_t rest = (interval - tick % interval) % interval;
  return tick + std::min(rest, TickAt(Clock::kNever) - tick);
}

int64_t TimerQueue::NanosAt(uint64_t tick) const {
  return static_cast<int64_t>(static_cast<uint64_t>(start_nanos_) + tick);
}

void TimerQueue::MakeReadyLocked(Entry& entry) {
  entry.ready_ = true;
  entry.previous_ready_ = timers_.last_ready;
  entry.next_ready_ = nullptr;
  (timers_.last_ready != nullptr ? timers_.last_ready->next_ready_
                                 : timers_.first_ready) = &entry;
  timers_.last_ready = &entry;
  ++timers_.ready;
}

void TimerQueue::UnreadyLocked(Entry& entry) {
  if (!entry.ready_) return;
  Entry* const previous = entry.previous_ready_;
  Entry* const next = entry.next_ready_;
  (previous != nullptr ? previous->next_ready_ : timers_.first_ready) = next;
  (next != nullptr ? next->previous_ready_ : timers_.last_ready) = previous;
  entry.ready_ = false;
  --timers_.ready;
}

}  // namespace wheelcache::internal
