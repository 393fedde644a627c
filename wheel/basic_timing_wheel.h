// A hierarchical timing wheel, generic in how its timers are addressed.
//
// Most users want wheel/timing_wheel.h, which instantiates this template for
// timers linked by pointers. Use the template itself to keep timers in your own
// storage, for instance by 32-bit references into an array:
//
//   struct Session {
//     wheelcache::TimerLinks<uint32_t> links;
//     uint64_t deadline = 0;
//   };
//   struct Sessions {  // The Store: where the wheel finds a timer's fields.
//     using Ref = uint32_t;  // Ref{} (here 0) is null and names no timer.
//     wheelcache::TimerLinks<Ref>& links(Ref ref) const {
//       return all[ref].links;
//     }
//     uint64_t deadline(Ref ref) const { return all[ref].deadline; }
//     Session* all;
//   };
//   Session table[100];
//   wheelcache::BasicTimingWheel<Sessions> wheel(Sessions{table}, now);
//   table[7].deadline = now + 250;
//   wheel.Schedule(7);
//   wheel.Advance(now + 300, wheelcache::kNoBudget,
//                 [](uint32_t ref) { Close(ref); });
//
// The wheel is passive: it knows no clock, takes no lock, starts no thread and
// allocates nothing. Its time is a count of ticks over the full 64-bit range;
// the owner chooses the length of a tick.
//
// Structure. Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP
// 1987), with the hand written in base 64. A timer waits in the level of the
// highest digit in which its deadline differs from the hand, in the slot that
// the deadline's digit names. With the hand H at 2*64^2 + 5*64 + 61:
//
// level 2   . . H . . x . .            4096 ticks a slot    x: 5*64^2 + 7
// level 1   . . . . . H . y . .        64 ticks             y: 2*64^2 + 7*64
// level 0   . . . . . . . . . H . z    1 tick        z: 2*64^2 + 5*64 + 63
//
// So there is no horizon, and no timer is ever behind the hand. When the hand
// enters a slot's range, the slot cascades: its timers move to lower levels, or
// become due. One occupancy word per level lets the hand jump from one occupied
// slot to the next. A slot has four lists, which are emptied interleaved: while
// one timer is handled, the next of the other lists are being prefetched.
//
// Guarantees. A timer fires in the first Advance to its deadline or past it,
// never earlier, and once, whatever is scheduled, cancelled, destroyed or
// thrown meanwhile. Timers fire in the order of their deadlines, those of one
// tick in any order. The hand never goes back: an Advance to an earlier tick
// works at the tick that the hand has reached.
//
// Moving a deadline. Later: the owner changes its own field and calls nothing;
// the wheel reads it when the old deadline comes. Earlier: Cancel, change,
// Schedule.
//
// Cost. Schedule and Cancel are O(1). Advance costs what fires and cascades,
// each timer at most once per level, and not the time that passed. NextWakeup
// is O(levels). A timer needs two Refs and its deadline; the wheel itself is
// 2816 Refs and 704 ticks.
//
// Threads. Thread-compatible: calls that change the wheel need the owner's
// lock.

#ifndef WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_
#define WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache {

// Lets Advance do all that is due in one call.
inline constexpr uint64_t kNoBudget = std::numeric_limits<uint64_t>::max();

// The deadline of a timer that never fires, to which sums may saturate: the
// hand stops one tick before it.
inline constexpr uint64_t kNoDeadline = std::numeric_limits<uint64_t>::max();

// A timing wheel over the timers of a `Store`, which supplies:
//   Ref                  a pointer or an unsigned integer; Ref{} is null;
//   links(Ref) const     a TimerLinks<Ref>&, untouched by anybody else;
//   deadline(Ref) const  the tick at which the timer is to fire. It may grow
//                        while the timer is scheduled, and must not shrink.
// `Slots` provides the memory of the slots: by default, the wheel itself.
template <typename Store,
          typename Slots = internal::OwnTimerSlots<typename Store::Ref>>
class BasicTimingWheel {
 public:
  using Ref = typename Store::Ref;

  // An empty wheel whose hand stands at `now`.
  explicit BasicTimingWheel(Store store = Store(), uint64_t now = 0,
                            Slots slots = Slots())
      : store_(std::move(store)),
        now_(std::min(now, kLastTick)),
        slots_(slots) {}

  BasicTimingWheel(const BasicTimingWheel&) = delete;
  BasicTimingWheel& operator=(const BasicTimingWheel&) = delete;

  // The hand: the tick up to which Advance has worked. In a callback: the tick
  // that fires.
  uint64_t now() const { return now_; }

  bool empty() const;

  // Puts the timer in the slot of its deadline. One that is already due fires
  // in the next Advance, to whatever tick; when scheduled from a callback, one
  // tick after the hand, so that a callback which always schedules again
  // cannot keep Advance from returning.
  // REQUIRES: the timer is not scheduled.
  void Schedule(Ref timer);

  // Takes the timer out of the wheel.
  // REQUIRES: the timer is scheduled.
  void Cancel(Ref timer);

  // Prefetches what Cancel of a timer with these links will change: its
  // neighbours, or its slot. Does nothing if it is not scheduled.
  void PrefetchNeighbours(const TimerLinks<Ref>& links) const;

  // Prefetches the slot in which Schedule would put this timer.
  void PrefetchSlot(Ref timer) const;

  // Moves the hand to `now` and calls `fire(Ref)` for each timer that has
  // become due, after taking it out of the wheel. Stops early after `budget`
  // timers were fired or moved to another slot; the next call continues there.
  // Returns their number: less than `budget` means that nothing due is left.
  //
  // `fire` may schedule, cancel and destroy timers, its own included, and may
  // throw: then the hand stays where it is. It must not call Advance nor
  // destroy the wheel.
  template <typename Fire>
  uint64_t Advance(uint64_t now, uint64_t budget, Fire&& fire);

  // The tick to which Advance is to be called next, or nothing if no timer can
  // ever fire. Not later than the earliest deadline, unless that has passed;
  // earlier only if a deadline has grown or a timer was cancelled since.
  std::optional<uint64_t> NextWakeup() const;

  // Hands every timer to `taken(Ref)`, in any order, after taking it out of
  // the wheel. `taken` may cancel and destroy timers and may throw; it must not
  // schedule any. O(timers + levels).
  template <typename Taken>
  void TakeAll(Taken&& taken);

  // Forgets every timer without touching it, in O(occupied slots). The owner
  // resets the links of those it keeps.
  void Reset();

  // For tests: the first broken invariant, and the number of timers in a wheel
  // without one. O(timers + slots).
  absl::Status CheckInvariants() const;
  uint64_t CountTimers() const;

 private:
  static constexpr uint32_t kDigitBits = 6;
  static constexpr uint32_t kLevels = internal::kTimerLevels;
  static constexpr uint32_t kSlotsPerLevel = internal::kSlotsPerTimerLevel;
  static constexpr uint32_t kListsPerSlot = internal::kListsPerTimerSlot;
  static constexpr uint64_t kLastTick = kNoDeadline - 1;
  static_assert(kSlotsPerLevel == 1 << kDigitBits);

  using ListTag = internal::ListTag<Ref>;

  using Slot = internal::TimerSlot<Ref>;

  // Marks the time in which callbacks run.
  class FiringScope {
   public:
    explicit FiringScope(bool& firing) : firing_(firing) {
      assert(!firing_ && "a callback must not call Advance");
      firing_ = true;
    }
    ~FiringScope() { firing_ = false; }

   private:
    bool& firing_;
  };

  static uint32_t Digit(uint64_t tick, uint32_t level) {
    return tick >> (level * kDigitBits) & (kSlotsPerLevel - 1);
  }

  // The level of the highest digit in which a tick differs from the hand, 0 if
  // none does.
  uint32_t LevelOf(uint64_t tick) const {
    const auto zeros =
        static_cast<uint32_t>(absl::countl_zero((tick ^ now_) | 1));
    // Equals 63 - zeros; on x86 the xor cancels that of countl_zero.
    return (63 ^ zeros) / kDigitBits;
  }

  // The tick at which the hand enters a slot.
  uint64_t SlotStart(uint32_t slot) const {
    const uint32_t shift = slot / kSlotsPerLevel * kDigitBits;
    const uint64_t above = now_ >> shift >> kDigitBits << kDigitBits;
    return (above | slot % kSlotsPerLevel) << shift;
  }

  Slot& slot(uint32_t number) { return slots_.begin()[number]; }
  const Slot& slot(uint32_t number) const { return slots_.begin()[number]; }

  uint32_t SlotAtHand(uint32_t level) const {
    return level * kSlotsPerLevel + Digit(now_, level);
  }

  // REQUIRES: the level is not empty.
  uint32_t FirstOccupiedSlot(uint32_t level) const {
    return level * kSlotsPerLevel +
           static_cast<uint32_t>(absl::countr_zero(occupied_[level]));
  }

  bool IsOccupied(uint32_t slot) const {
    return (occupied_[slot / kSlotsPerLevel] >> slot % kSlotsPerLevel & 1) != 0;
  }

  void LinkAt(uint64_t tick, Ref timer);
  Ref TakeFirst(const Ref& first);
  template <typename Take>
  uint64_t TakeFrom(uint32_t slot, uint64_t budget, Take take);
  uint64_t Cascade(uint64_t budget);
  template <typename Fire>
  uint64_t FireAtHand(uint64_t budget, Fire& fire);
  bool MoveHandTo(uint64_t now);
  absl::Status CheckSlot(uint32_t number) const;
  absl::Status CheckList(uint32_t list) const;

  Store store_;

  // Invariants: now_ <= kLastTick. Every timer is in the slot that LinkAt
  // chooses, relative to now_, for the deadline it had when it was linked.
  uint64_t now_;

  // The level whose slot at the hand is being emptied, or was last. Invariant:
  // no other level above 0 has timers in its slot at the hand.
  uint32_t cascading_level_ = 0;

  bool firing_ = false;

  uint32_t links_made_ = 0;  // Spreads timers over the lists of their slots.

  // Bit s of occupied_[level] is set exactly while that slot has timers.
  uint64_t occupied_[kLevels] = {};

  Slots slots_;  // By level * 64 + digit.
};

}  // namespace wheelcache

#include "wheelcache/wheel/internal/basic_timing_wheel_impl.h"

#endif  // WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_
