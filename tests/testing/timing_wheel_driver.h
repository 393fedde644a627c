// Reads a tape as a sequence of calls to a timing wheel and compares every
// outcome with the oracle's: a sorted map that says when what must fire.

#ifndef WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_DRIVER_H_
#define WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/tests/testing/tape.h"
#include "wheelcache/wheel/basic_timing_wheel.h"

namespace wheelcache {

// Knows nothing of levels and slots. Timers have numbers. What the wheel leaves
// open, namely where the hand rests when a budget ends, the oracle is told; all
// else it predicts.
class TimingWheelOracle {
 public:
  bool empty() const { return timers_.empty(); }

  // The tick at which the next timer fires; kNoDeadline if none ever does.
  uint64_t earliest() const {
    return queue_.empty() ? kNoDeadline : queue_.begin()->first;
  }

  bool scheduled(int timer) const { return timers_.count(timer) != 0; }

  // The deadline of a scheduled timer.
  uint64_t deadline(int timer) const { return timers_.at(timer).deadline; }

  // Whether NextWakeup must be exact: since the oracle was last empty, no timer
  // was cancelled or moved.
  bool undisturbed() const { return undisturbed_; }

  // Schedules or moves a timer that cannot fire before the tick `floor`: the
  // hand, or from a callback the tick after it.
  void Schedule(int timer, uint64_t deadline, uint64_t floor) {
    bool undisturbed = undisturbed_;
    const auto old = timers_.find(timer);
    if (old != timers_.end()) {
      // One that moves to later stays where it is linked.
      if (deadline >= old->second.deadline) floor = old->second.floor;
      undisturbed = undisturbed && deadline == old->second.deadline;
      Erase(timer);
    }
    const auto place = queue_.emplace(std::max(deadline, floor), timer);
    timers_.emplace(timer, Timer{deadline, floor, place});
    undisturbed_ = undisturbed;
  }

  // Returns whether the timer was scheduled.
  bool Cancel(int timer) {
    if (!Erase(timer)) return false;
    undisturbed_ = empty();
    return true;
  }

  // Takes out a timer that the wheel fires with its hand at `hand`; false if
  // another was to come first, or none yet.
  bool Fire(int timer, uint64_t hand) {
    if (!scheduled(timer)) return false;
    const uint64_t tick = timers_.at(timer).place->first;
    const bool is_next = tick == earliest();
    Erase(timer);
    return is_next && tick == hand;
  }

 private:
  using Queue = std::multimap<uint64_t, int>;  // From the tick that fires.

  struct Timer {
    uint64_t deadline;
    uint64_t floor;
    Queue::iterator place;
  };

  bool Erase(int timer) {
    const auto found = timers_.find(timer);
    if (found == timers_.end()) return false;
    queue_.erase(found->second.place);
    timers_.erase(found);
    if (empty()) undisturbed_ = true;
    return true;
  }

  std::map<int, Timer> timers_;
  Queue queue_;
  bool undisturbed_ = true;
};

inline uint64_t SaturatingAdd(uint64_t tick, uint64_t ticks) {
  return tick > kNoDeadline - ticks ? kNoDeadline : tick + ticks;
}

inline uint64_t SaturatingSubtract(uint64_t tick, uint64_t ticks) {
  return tick < ticks ? 0 : tick - ticks;
}

// `Wheel` is one of tests/testing/numbered_wheels.h.
template <typename Wheel>
class TimingWheelDriver {
 public:
  // The tape must outlive the driver. Each call is written to `script`, if
  // there is one.
  explicit TimingWheelDriver(Tape& tape, std::ostream* script = nullptr)
      : tape_(tape),
        script_(script),
        timers_(OneOf({2, 20, 100, 200}, tape)),
        largest_budget_(OneOf({1, 4, 20, 1000}, tape)),
        disturbs_(!tape.OneIn(4)),
        latest_(std::min(TickAround(0), kNoDeadline - 1)),
        wheel_(latest_, timers_) {
    Note("start at ", latest_, " with ", timers_, " timers");
  }

  // Makes calls to the end of the tape, or to the first wrong outcome, which
  // it returns.
  absl::Status Run() {
    while (!tape_.empty() && status_.ok()) {
      MakeCall();
      ++calls_;
      CheckState();
    }
    return status_;
  }

  uint64_t calls() const { return calls_; }

 private:
  struct Thrown {};

  static uint64_t OneOf(std::initializer_list<uint64_t> values, Tape& tape) {
    return values.begin()[tape.Below(values.size())];
  }

  // Chooses a tick near one where wheels go wrong, mostly at or after `tick`.
  uint64_t TickAround(uint64_t tick) {
    const uint64_t span = uint64_t{1} << (6 * tape_.Below(11));
    const uint64_t next_span = SaturatingAdd(tick, span) / span * span;
    const uint64_t off_by_one = tape_.Below(3);
    switch (tape_.Below(8)) {
      case 0:
        return SaturatingSubtract(tick, tape_.Below(100));
      case 1:
        return SaturatingAdd(tick, off_by_one);
      case 2:
        return SaturatingAdd(tick, tape_.Below(200));
      case 3:
        return SaturatingAdd(tick, span - 1 + off_by_one);
      case 4:
        return SaturatingAdd(next_span - 1, off_by_one);
      case 5:
        return SaturatingAdd(tick, tape_.Number());
      case 6:
        return SaturatingAdd(tick, tape_.Below(10'000));
      default:
        return tape_.OneIn(16) ? kNoDeadline - off_by_one : tick;
    }
  }

  // Many timers gather around one tick, so that slots of all levels fill up.
  uint64_t Deadline() {
    if (tape_.OneIn(3)) return TickAround(wheel_.now());
    if (gathering_ <= wheel_.now()) gathering_ = TickAround(wheel_.now());
    return SaturatingAdd(gathering_, tape_.Below(100));
  }

  uint64_t TimeToAdvanceTo() {
    switch (tape_.Below(8)) {
      case 0:
        return latest_;
      case 1:
        return SaturatingAdd(latest_, 1);
      case 2:
        return NotFar(wheel_.NextWakeup().value_or(latest_));
      case 3:
        return NotFar(oracle_.earliest() - tape_.Below(2));
      case 4:
        return SaturatingSubtract(latest_, tape_.Number());
      case 5:
        return NotFar(tape_.OneIn(2) ? gathering_ : TickAround(latest_));
      default:
        return SaturatingAdd(latest_, tape_.Below(300));
    }
  }

  // Time goes one way, so the great jumps are rare.
  uint64_t NotFar(uint64_t tick) {
    const bool is_far = tick > latest_ && (tick - latest_) >> 14 != 0;
    return is_far && !tape_.OneIn(8) ? latest_ : tick;
  }

  uint64_t Budget() {
    return tape_.OneIn(4) ? kNoBudget : 1 + tape_.Below(largest_budget_);
  }

  int AnyTimer() { return static_cast<int>(tape_.Below(timers_)); }

  void MakeCall() {
    switch (tape_.Below(16)) {
      case 0:
        return Destroy(AnyTimer());
      case 1:
      case 2:
        return Cancel(AnyTimer());
      case 3:
        return tape_.OneIn(32) ? TakeAll() : CheckState();
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return Advance(TimeToAdvanceTo(), Budget());
      default:
        return ScheduleSome(tape_.OneIn(4) ? tape_.Below(timers_) : 1);
    }
  }

  void ScheduleSome(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) Schedule(AnyTimer(), Deadline());
  }

  void Schedule(int timer, uint64_t deadline) {
    if (!disturbs_ && oracle_.scheduled(timer)) return;
    Note("Schedule(", timer, ", ", deadline, ")");
    ++schedules_;
    wheel_.Schedule(timer, deadline);
    oracle_.Schedule(timer, deadline, wheel_.now() + (in_callback_ ? 1 : 0));
    Expect(wheel_.scheduled(timer), "Schedule left the timer unscheduled");
  }

  void Cancel(int timer) {
    if (!disturbs_) return;
    Note("Cancel(", timer, ")");
    Expect(wheel_.Cancel(timer) == oracle_.Cancel(timer),
           "Cancel returned the wrong thing");
    Expect(!wheel_.scheduled(timer), "Cancel left the timer scheduled");
  }

  void Destroy(int timer) {
    if (!disturbs_ && oracle_.scheduled(timer)) return;
    Note("Destroy(", timer, ")");
    wheel_.Destroy(timer);
    oracle_.Cancel(timer);
  }

  void TakeAll() {
    Note("TakeAll()");
    wheel_.TakeAll([this](int timer) {
      Expect(oracle_.Cancel(timer), "TakeAll handed out what was not there");
      Expect(!wheel_.scheduled(timer), "TakeAll left a timer scheduled");
      if (tape_.OneIn(4)) Destroy(AnyTimer());
    });
    Expect(oracle_.empty(), "TakeAll left a timer out");
  }

  void Advance(uint64_t now, uint64_t budget) {
    Note("Advance(", now, ", ", budget, ")");
    latest_ = std::max(latest_, std::min(now, kNoDeadline - 1));
    const uint64_t hand = wheel_.now();
    uint64_t fired = 0;
    std::optional<uint64_t> done;
    try {
      done = wheel_.Advance(now, budget, [&](int timer) {
        ++fired;
        Fire(timer);
      });
    } catch (const Thrown&) {
      Note("thrown");
    }
    in_callback_ = false;
    Expect(wheel_.now() >= hand, "the hand went back");
    Expect(wheel_.now() <= latest_, "the hand ran ahead");
    Expect(fired <= budget, "more fired than the budget");
    if (done.has_value()) CheckAdvanced(now, budget, fired, *done);
  }

  void CheckAdvanced(uint64_t now, uint64_t budget, uint64_t fired,
                     uint64_t done) {
    work_ += done;
    Expect(done >= fired && done <= budget, "Advance returned the wrong thing");
    Expect(work_ <= 11 * schedules_, "a timer moved more than once a level");
    if (done == budget) return;
    Expect(wheel_.now() >= std::min(now, kNoDeadline - 1), "the hand stopped");
    Expect(oracle_.earliest() > wheel_.now(), "a timer is late");
  }

  // What `fire` does: anything that a callback may.
  void Fire(int timer) {
    Note("  fires ", timer, " at ", wheel_.now());
    in_callback_ = true;
    Expect(oracle_.Fire(timer, wheel_.now()), "a timer fired out of turn");
    Expect(!wheel_.scheduled(timer), "a timer fired while scheduled");
    switch (tape_.Below(16)) {
      case 1:
        return Schedule(timer, wheel_.now());
      case 2:
        return Schedule(timer, TickAround(wheel_.now()));
      case 3:
        return Schedule(AnyTimer(), Deadline());
      case 4:
        return Cancel(AnyTimer());
      case 5:
        return Destroy(timer);
      case 6:
        return Destroy(AnyTimer());
      case 7:
        if (tape_.OneIn(4)) throw Thrown();
        return;
      case 8:
        return tape_.OneIn(16) ? TakeAll() : CheckState();
      default:  // Nothing, as from the end of the tape on.
        return;
    }
  }

  void CheckState() {
    const absl::Status invariants = wheel_.CheckInvariants();
    Expect(invariants.ok(), invariants.message());
    Expect(wheel_.empty() == oracle_.empty(), "empty() is wrong");
    const uint64_t wakeup = wheel_.NextWakeup().value_or(kNoDeadline);
    Expect(wakeup >= wheel_.now(), "NextWakeup lies behind the hand");
    Expect(wakeup <= oracle_.earliest(), "NextWakeup is late");
    Expect(!oracle_.undisturbed() || wakeup == oracle_.earliest(),
           "NextWakeup is not exact");
  }

  void Expect(bool holds, absl::string_view claim) {
    if (holds || !status_.ok()) return;
    status_ = absl::InternalError(absl::StrCat("call ", calls_, ": ", claim));
    Note(claim);
  }

  template <typename... Parts>
  void Note(const Parts&... parts) {
    if (script_ != nullptr) *script_ << absl::StrCat(parts...) << '\n';
  }

  Tape& tape_;
  std::ostream* const script_;
  const int timers_;
  const uint64_t largest_budget_;
  const bool disturbs_;  // Whether scheduled timers are cancelled and moved.
  uint64_t gathering_ = 0;
  uint64_t latest_;  // The latest tick that Advance was called with.

  Wheel wheel_;
  TimingWheelOracle oracle_;
  bool in_callback_ = false;

  uint64_t calls_ = 0;
  uint64_t schedules_ = 0;
  uint64_t work_ = 0;
  absl::Status status_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_DRIVER_H_
