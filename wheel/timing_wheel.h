// An intrusive timing wheel: timers live inside the objects that they time.
//
//   struct Connection {
//     int fd;
//     wheelcache::Timer idle;
//   };
//   auto connection = std::make_unique<Connection>();
//   wheelcache::TimingWheel wheel(NowInTicks());
//   wheel.Schedule(&connection->idle, NowInTicks() + 30'000);
//   ...
//   wheel.Schedule(&connection->idle, NowInTicks() + 30'000);  // Moves it.
//   ...
//   wheel.Advance(NowInTicks(), wheelcache::kNoBudget,
//                 [](wheelcache::Timer* timer) { CloseOwnerOf(timer); });
//
// The owner chooses the length of a tick. The wheel holds pointers to timers
// and owns none; a timer that is destroyed cancels itself, and a wheel that is
// destroyed unschedules its timers without firing them.
//
// Guarantees and cost are those of BasicTimingWheel
// (wheel/basic_timing_wheel.h): O(1) Schedule and Cancel, exact to the tick, no
// horizon, and an Advance that costs what is due, not the time passed.
//
// Threads. Thread-compatible: calls that change the wheel need the owner's
// lock, as does the destruction of a scheduled timer.
//
// Use TimerService (wheel/timer_service.h) for keys, threads and a clock.

#ifndef WHEELCACHE_WHEEL_TIMING_WHEEL_H_
#define WHEELCACHE_WHEEL_TIMING_WHEEL_H_

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache {

class TimingWheel;

// A timer to be embedded in the object that it times; 32 bytes on a 64-bit
// machine. Lives at a fixed address.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  inline ~Timer();  // Cancels.

  // Whether the timer is in a wheel.
  bool scheduled() const { return links_.scheduled(); }

  // The tick at which it fires, or for which it was last scheduled.
  uint64_t deadline() const { return deadline_; }

 private:
  friend class TimingWheel;

  TimerLinks<Timer*> links_;
  uint64_t deadline_ = 0;
  TimingWheel* wheel_ = nullptr;  // Valid while scheduled.
};

class TimingWheel {
 public:
  // An empty wheel at tick `now`.
  explicit TimingWheel(uint64_t now = 0) : wheel_(Timers(), now) {}

  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  ~TimingWheel() {
    wheel_.TakeAll([](Timer*) {});
  }

  // The tick up to which Advance has worked. In a callback: the tick that
  // fires.
  uint64_t now() const { return wheel_.now(); }
  bool empty() const { return wheel_.empty(); }

  // Makes the timer fire at `deadline`, whether it is scheduled (a move) or
  // not. A deadline that has passed fires in the next Advance, or, when
  // scheduled from a callback, one tick after the hand; kNoDeadline never does.
  // REQUIRES: the timer is not scheduled in another wheel.
  void Schedule(Timer* timer, uint64_t deadline);

  // Takes the timer out of the wheel; false if it was not scheduled.
  // REQUIRES: the timer is not scheduled in another wheel.
  bool Cancel(Timer* timer);

  // Moves the hand to `now` and calls `fire(Timer*)` for each timer that has
  // become due; see BasicTimingWheel::Advance for budget, result and what
  // `fire` may do.
  template <typename Fire>
  uint64_t Advance(uint64_t now, uint64_t budget, Fire&& fire) {
    return wheel_.Advance(now, budget, std::forward<Fire>(fire));
  }

  // The tick to which Advance is to be called next, never later than the
  // earliest deadline that is still to come; nothing if no timer can ever fire.
  std::optional<uint64_t> NextWakeup() const { return wheel_.NextWakeup(); }

  // Hands every timer to `taken(Timer*)`, unscheduled and in any order.
  // `taken` may cancel and destroy timers and may throw; it must not schedule
  // any.
  template <typename Taken>
  void TakeAll(Taken&& taken) {
    wheel_.TakeAll(std::forward<Taken>(taken));
  }

  // For tests: finds the first broken invariant.
  absl::Status CheckInvariants() const { return wheel_.CheckInvariants(); }

 private:
  struct Timers {
    using Ref = Timer*;
    static TimerLinks<Timer*>& links(Timer* timer) { return timer->links_; }
    static uint64_t deadline(Timer* timer) { return timer->deadline_; }
  };

  BasicTimingWheel<Timers> wheel_;
};

static_assert(sizeof(Timer) <= 32 || sizeof(void*) > 8,
              "a timer costs its owner at most 32 bytes");

inline void TimingWheel::Schedule(Timer* timer, uint64_t deadline) {
  if (timer->scheduled()) {
    assert(timer->wheel_ == this);
    if (deadline >= timer->deadline_) {
      timer->deadline_ = deadline;  // The wheel reads it at the old one.
      return;
    }
    wheel_.Cancel(timer);
  }
  timer->deadline_ = deadline;
  timer->wheel_ = this;
  wheel_.Schedule(timer);
}

inline bool TimingWheel::Cancel(Timer* timer) {
  if (!timer->scheduled()) return false;
  assert(timer->wheel_ == this);
  wheel_.Cancel(timer);
  return true;
}

inline Timer::~Timer() {
  if (scheduled()) wheel_->Cancel(this);
}

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_TIMING_WHEEL_H_
