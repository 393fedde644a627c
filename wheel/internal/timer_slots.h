// The slots of a timing wheel, in the wheel or in memory that its owner
// provides.
//
// All bytes zero is a wheel without timers, so slots in fresh pages take no
// memory until a timer is put there.
//
// Threads. Thread-compatible, as the wheel.

#ifndef WHEELCACHE_WHEEL_INTERNAL_TIMER_SLOTS_H_
#define WHEELCACHE_WHEEL_INTERNAL_TIMER_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

template <typename Ref>
class TimerSlot {
 public:
  Ref first[kListsPerTimerSlot];  // Of each list; null if that is empty.

  // A lower bound of the deadlines, so that no thread has to wake up merely to
  // cascade. Of an empty slot: the largest tick.
  uint64_t earliest() const { return ~earliest_inverted_; }
  void set_earliest(uint64_t tick) { earliest_inverted_ = ~tick; }

  bool empty() const {
    return std::all_of(std::begin(first), std::end(first),
                       [](Ref ref) { return ref == Ref{}; });
  }

 private:
  uint64_t earliest_inverted_;
};

// Slots within the wheel.
template <typename Ref>
class OwnTimerSlots {
 public:
  TimerSlot<Ref>* begin() { return slots_; }
  const TimerSlot<Ref>* begin() const { return slots_; }

 private:
  TimerSlot<Ref> slots_[kTimerSlots] = {};
};

// Slots in memory that outlives the wheel.
template <typename Ref>
class BorrowedTimerSlots {
 public:
  static constexpr size_t kBytes = sizeof(TimerSlot<Ref>) * kTimerSlots;

  // REQUIRES: kBytes of zeros, aligned to 8.
  explicit BorrowedTimerSlots(void* zeros)
      : slots_(static_cast<TimerSlot<Ref>*>(zeros)) {}

  TimerSlot<Ref>* begin() const { return slots_; }

 private:
  TimerSlot<Ref>* const slots_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_WHEEL_INTERNAL_TIMER_SLOTS_H_
