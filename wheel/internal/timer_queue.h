// The part of a TimerService that is independent of key and value types: the
// lock, the wheel, and the path of a due timer to its callback.
//
// An entry is in the wheel until its tick has come, and then in the ready list
// until a task takes it. From the start of its callback on, it is in neither,
// nor in the index of the derived TimerTable. Before that, it can be moved and
// removed.
//
// A ready entry waits for a task. Tasks are interchangeable: each calls back
// the entry that has been ready longest, if any. They run on the reaper's
// thread or, if there is an executor, wherever that runs them.
//
// Threads. Thread-safe. Callbacks run without the lock.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/reaper.h"
#include "wheelcache/wheel/timing_wheel.h"

namespace wheelcache::internal {

// Return the error of a bad option or argument.
WHEELCACHE_EXPORT absl::Status CheckTimerOptions(absl::Duration interval,
                                                 bool has_execute,
                                                 bool has_clock,
                                                 bool has_reaper);
WHEELCACHE_EXPORT absl::Status NoCallbackError(absl::string_view field);

class WHEELCACHE_EXPORT TimerQueue
    : public Reaper::Client,
      public std::enable_shared_from_this<TimerQueue> {
 public:
  using Executor = std::function<void(std::function<void()>)>;

  // `executor` may be an empty function. Both references must outlive the last
  // callback.
  TimerQueue(absl::Duration interval, const Executor& executor, Reaper& reaper);

  absl::Status Start() { return reaper_.Register(this); }

  // Whether this thread runs a callback of the queue.
  bool InCallback() const;

  // Waits for the callbacks that are running.
  // REQUIRES: the queue is closed, and this thread runs none of them.
  void Join();

  int64_t exceptions() const;

 protected:
  class Entry : public Timer {
    friend class TimerQueue;

    bool ready_ = false;
    Entry* previous_ready_ = nullptr;
    Entry* next_ready_ = nullptr;
  };

  // All timers of a queue; swapping it out empties the queue.
  struct Timers {
    std::unique_ptr<TimingWheel> wheel = std::make_unique<TimingWheel>();
    Entry* first_ready = nullptr;
    Entry* last_ready = nullptr;
    size_t ready = 0;
  };

  static absl::Status CheckDelay(absl::Duration delay);
  static absl::Status ClosedError();
  static absl::Status UnknownKeyError();

  // Takes the entry, whose callback is about to begin, out of the index.
  virtual void UnindexLocked(Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) = 0;

  // Runs the callback of the entry, and destroys it. Called without the lock.
  virtual void Execute(Entry& entry) = 0;

  // The tick for a timer that is set now: the end of an interval, unless it is
  // due at once.
  uint64_t TickAfterSet(absl::Duration delay) const;

  // The tick for a timer that is moved now: the same, but a delay of less than
  // an interval does not wait for the end of one.
  uint64_t TickAfterMove(absl::Duration delay) const;

  void ScheduleLocked(Entry& entry, uint64_t tick)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnscheduleLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Runs `function`; contains and counts an exception. Returns whether there
  // was none.
  template <typename Function>
  bool ContainAndCount(Function&& function);

  mutable Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  Timers timers_ ABSL_GUARDED_BY(mu_);

 private:
  // How many timers are fired or cascaded in one hold of the lock.
  static constexpr uint64_t kBudget = 64;

  int64_t RunDue(int64_t now_nanos) final;
  int64_t CollectDueLocked(int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ClaimTask();
  bool StartTask();
  void RunTask();
  Entry* TakeReady();
  void CountException();

  uint64_t TickAt(int64_t nanos) const;
  uint64_t EndOfInterval(uint64_t tick) const;
  int64_t NanosAt(uint64_t tick) const;

  void MakeReadyLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UnreadyLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t interval_nanos_;
  const Executor& executor_;
  Reaper& reaper_;
  const int64_t start_nanos_;  // Tick 0. A tick is a nanosecond.

  // Tasks that were started and have not yet taken an entry. More ready entries
  // than that need more tasks.
  size_t tasks_ ABSL_GUARDED_BY(mu_) = 0;
  int running_ ABSL_GUARDED_BY(mu_) = 0;  // Callbacks.
  CondVar none_running_;
  int64_t exceptions_ ABSL_GUARDED_BY(mu_) = 0;
};

template <typename Function>
bool TimerQueue::ContainAndCount(Function&& function) {
  const bool returned = Contain(std::forward<Function>(function));
  if (!returned) CountException();
  return returned;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_QUEUE_H_
