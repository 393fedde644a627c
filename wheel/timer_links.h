// What a timing wheel keeps in each of its timers: two links.
//
// Links are pointers or unsigned integers, whatever the owner of the timers
// addresses them by. See wheel/basic_timing_wheel.h.

#ifndef WHEELCACHE_WHEEL_TIMER_LINKS_H_
#define WHEELCACHE_WHEEL_TIMER_LINKS_H_

#include <cstdint>

namespace wheelcache {

// The part of a timer that belongs to the wheel.
template <typename Ref>
struct TimerLinks {
  Ref next{};
  // The timer before this one, or, for the first of a slot, the slot's tag.
  // Null exactly while the timer is not scheduled.
  Ref prev{};

  bool scheduled() const { return prev != Ref{}; }
};

namespace internal {

inline constexpr int kTimerLevels = 11;  // 11 digits of 6 bits hold 64 bits.
inline constexpr int kSlotsPerTimerLevel = 64;
inline constexpr uint32_t kTimerSlots = kTimerLevels * kSlotsPerTimerLevel;

// Tells a slot from a timer in TimerLinks::prev. Integers use the top 704
// values, which therefore cannot refer to timers.
template <typename Ref>
struct SlotTag {
  static_assert(sizeof(Ref) >= sizeof(uint32_t) && Ref(-1) > Ref(0),
                "a timer is referred to by a pointer, or by an unsigned "
                "integer of at least 32 bits");
  static constexpr Ref Make(uint32_t slot) { return ~Ref{slot}; }
  static constexpr bool Holds(Ref ref) { return ref >= Make(kTimerSlots - 1); }
  static constexpr uint32_t Slot(Ref ref) {
    return static_cast<uint32_t>(~ref);
  }
};

// Pointers use the low bit, which is 0 in the address of a timer.
template <typename T>
struct SlotTag<T*> {
  static T* Make(uint32_t slot) {
    static_assert(alignof(T) > 1, "a timer needs an even address");
    return reinterpret_cast<T*>(uintptr_t{slot} * 2 + 1);
  }
  static bool Holds(T* ref) {
    return (reinterpret_cast<uintptr_t>(ref) & 1) != 0;
  }
  static uint32_t Slot(T* ref) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(ref) >> 1);
  }
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_TIMER_LINKS_H_
