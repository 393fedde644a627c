// The two links that a timing wheel keeps in each of its timers.
//
// Links are pointers or unsigned integers, as the owner of the timers addresses
// them. See wheel/basic_timing_wheel.h.
//
// Threads. Thread-compatible, as the wheel.

#ifndef WHEELCACHE_WHEEL_TIMER_LINKS_H_
#define WHEELCACHE_WHEEL_TIMER_LINKS_H_

#include <cstdint>

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

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_TIMER_LINKS_H_
