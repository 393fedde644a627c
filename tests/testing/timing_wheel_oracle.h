// The oracle of the timing wheel: a sorted map that says when what must fire.
//
// It knows nothing of levels and slots. Timers have numbers. What the wheel
// leaves open, namely where the hand rests when a budget ends, the oracle is
// told; all else it predicts.

#ifndef WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_ORACLE_H_
#define WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <map>

#include "wheelcache/wheel/basic_timing_wheel.h"

namespace wheelcache {

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

}  // namespace wheelcache

#endif  // WHEELCACHE_TESTS_TESTING_TIMING_WHEEL_ORACLE_H_
