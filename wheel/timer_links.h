// The two links that a timing wheel keeps in each of its timers.
//
// Links are pointers or unsigned integers, as the owner of the timers addresses
// them. See wheel/basic_timing_wheel.h.
//
// Threads. Thread-compatible, as the wheel.

#ifndef WHEELCACHE_WHEEL_TIMER_LINKS_H_
#define WHEELCACHE_WHEEL_TIMER_LINKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

// The part of a timer that belongs to the wheel.
template <typename Ref>
struct TimerLinks {
  Ref next{};
  // The timer before this one, or, for the first of a list, the list's tag.
  // Null exactly while the timer is not scheduled.
  Ref prev{};

  bool scheduled() const { return prev != Ref{}; }
};

namespace internal {

// Every wheel has 11 levels, one for each 6-bit digit of a 64-bit tick, of 64
// slots of 4 lists.
inline constexpr uint32_t kTimerLevels = 11;
inline constexpr uint32_t kSlotsPerTimerLevel = 64;
inline constexpr uint32_t kListsPerTimerSlot = 4;
inline constexpr uint32_t kTimerSlots = kTimerLevels * kSlotsPerTimerLevel;
inline constexpr uint32_t kTimerLists = kTimerSlots * kListsPerTimerSlot;

// Tells a list from a timer in TimerLinks::prev. Integers use the top 2816
// values, which therefore cannot refer to timers.
template <typename Ref>
struct ListTag {
  static_assert(sizeof(Ref) >= sizeof(uint32_t) && Ref(-1) > Ref(0),
                "a timer is referred to by a pointer, or by an unsigned "
                "integer of at least 32 bits");
  static constexpr Ref Make(uint32_t list) { return ~Ref{list}; }
  static constexpr bool Holds(Ref ref) { return ref >= ~Ref{kTimerLists - 1}; }
  static uint32_t List(Ref ref) { return static_cast<uint32_t>(~ref); }
};

// Pointers use the low bit, which is 0 in the address of a timer.
template <typename T>
struct ListTag<T*> {
  static T* Make(uint32_t list) {
    static_assert(alignof(T) > 1, "a timer needs an even address");
    return reinterpret_cast<T*>(uintptr_t{list} * 2 + 1);
  }
  static bool Holds(T* ref) {
    return (reinterpret_cast<uintptr_t>(ref) & 1) != 0;
  }
  static uint32_t List(T* ref) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(ref) >> 1);
  }
};

// The slots of a timing wheel, in the wheel or in memory that its owner
// provides. All bytes zero is a wheel without timers, so slots in fresh pages
// take no memory until a timer is put there.
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

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_TIMER_LINKS_H_
