// A hierarchical timing wheel, written over the way its timers are addressed.
//
// Most users want wheel/timing_wheel.h, which fixes this template to timers
// that are linked by pointers. Use the template itself to keep timers in your
// own storage, for instance by 32-bit references into an array:
//
//   struct Session {
//     wheelcache::TimerLinks<uint32_t> links;
//     uint64_t deadline = 0;
//   };
//   struct Sessions {  // The Store: where the wheel finds a timer's fields.
//     using Ref = uint32_t;  // Ref{} (here 0) is null and names no timer.
//     wheelcache::TimerLinks<Ref>& links(Ref ref) { return all[ref].links; }
//     uint64_t deadline(Ref ref) { return all[ref].deadline; }
//     Session* all;
//   };
//   wheelcache::BasicTimingWheel<Sessions> wheel(Sessions{table}, now);
//   table[7].deadline = now + 250;
//   wheel.Schedule(7);
//   wheel.Advance(now + 300, kNoBudget, [](uint32_t ref) { Close(ref); });
//
// The wheel is passive: it knows no clock, takes no lock, starts no thread and
// allocates nothing. Its time is a count of ticks, as long as the owner likes a
// tick to be, over the full 64-bit range.
//
// Structure. Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP
// 1987), with the hand written in base 64. A timer waits in the level of the
// highest digit in which its deadline differs from the hand, in the slot that
// the deadline's digit names. So there is no horizon, and no timer is ever
// behind the hand. When the hand enters a slot's range, the slot cascades: its
// timers move to lower levels, or become due. One occupancy word a level lets
// the hand jump from one occupied slot to the next.
//
// Guarantees. A timer fires in the first Advance to its deadline or past it,
// never earlier, and once. Timers fire in the order of their deadlines, those
// of one tick in any order. Time never goes back: an earlier `now` counts as
// the latest one seen.
//
// Moving a deadline. Later: the owner changes its own field and calls nothing,
// the wheel finds out when the old deadline comes. Earlier: Cancel, change,
// Schedule.
//
// Cost. Schedule and Cancel are O(1). Advance costs what fires and cascades,
// each timer at most once a level, never the time that passed. NextWakeup is
// O(levels). A timer needs two Refs and its deadline; the wheel itself is 704
// Refs and 704 ticks.
//
// Threads. Thread-compatible: calls that change the wheel need the owner's
// lock.

#ifndef WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_
#define WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace wheelcache {

// Lets Advance do all that is due in one call.
inline constexpr uint64_t kNoBudget = std::numeric_limits<uint64_t>::max();

// The part of a timer that belongs to the wheel.
template <typename Ref>
struct TimerLinks {
  Ref next{};
  // The timer before this one, or, for the first of a slot, the slot's tag.
  // Null exactly while the timer is not scheduled.
  Ref prev{};

  bool scheduled() const { return prev != Ref{}; }
};

// Tells a slot from a timer in TimerLinks::prev. Pointers use the low bit,
// integers the top 704 values, which therefore cannot be references.
template <typename Ref>
struct SlotTag {
  static Ref Make(uint32_t slot) { return static_cast<Ref>(~Ref{slot}); }
  static bool Holds(Ref ref) { return ref >= static_cast<Ref>(~Ref{703}); }
  static uint32_t Slot(Ref ref) { return static_cast<uint32_t>(~ref); }
};

template <typename T>
struct SlotTag<T*> {
  static T* Make(uint32_t slot) {
    return reinterpret_cast<T*>(uintptr_t{slot} * 2 + 1);
  }
  static bool Holds(T* ref) {
    return (reinterpret_cast<uintptr_t>(ref) & 1) != 0;
  }
  static uint32_t Slot(T* ref) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(ref) >> 1);
  }
};

// A timing wheel over the timers of a `Store`, which supplies:
//   Ref                  a pointer or an unsigned integer; Ref{} is null;
//   links(Ref)           a TimerLinks<Ref>&, untouched by anybody else;
//   deadline(Ref)        the tick at which the timer is to fire. It may grow
//                        while the timer is scheduled, and must not shrink.
template <typename Store>
class BasicTimingWheel {
 public:
  using Ref = typename Store::Ref;

  // An empty wheel whose hand stands at `now`.
  explicit BasicTimingWheel(Store store = Store(), uint64_t now = 0)
      : store_(std::move(store)), now_(now) {}

  BasicTimingWheel(const BasicTimingWheel&) = delete;
  BasicTimingWheel& operator=(const BasicTimingWheel&) = delete;

  // The tick up to which Advance has worked. In a callback: the tick that
  // fires.
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

  // Moves the hand to `now` and calls `fire(Ref)` for each timer that has
  // become due, after taking it out of the wheel. Stops early after `budget`
  // timers were fired or moved to another slot; the next call goes on from
  // there. Returns how many that were: less than `budget` means that nothing
  // due is left.
  //
  // `fire` may schedule, cancel and destroy timers, its own included, and may
  // throw: then the hand rests where it stands. It must not call Advance.
  template <typename Fire>
  uint64_t Advance(uint64_t now, uint64_t budget, Fire&& fire);

  // The tick of the next Advance that can fire a timer, or nothing while the
  // wheel is empty. Not later than the earliest deadline; earlier only if a
  // deadline has grown or the earliest timer of a slot was cancelled since.
  std::optional<uint64_t> NextWakeup() const;

  // Hands every timer to `taken(Ref)`, in any order, and leaves the wheel
  // empty. `taken` must not call the wheel. O(timers + levels).
  template <typename Taken>
  void TakeAll(Taken&& taken);

  // Forgets every timer without touching it, in O(slots). The owner resets
  // the links of those it keeps.
  void Reset();

  // For tests: finds the first broken invariant. O(timers + slots).
  absl::Status CheckInvariants();

 private:
  static constexpr int kDigitBits = 6;
  static constexpr int kSlotsPerLevel = 1 << kDigitBits;
  static constexpr int kLevels = 11;  // 11 digits of 6 bits hold 64 bits.
  static constexpr int kSlots = kLevels * kSlotsPerLevel;

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

  static int Digit(uint64_t tick, int level) {
    return static_cast<int>((tick >> (level * kDigitBits)) &
                            (kSlotsPerLevel - 1));
  }

  // The tick at which the hand enters slot `digit` of `level`.
  uint64_t SlotStart(int level, int digit) const {
    const int shift = level * kDigitBits;
    const uint64_t above = now_ >> shift >> kDigitBits << kDigitBits;
    return (above | static_cast<uint64_t>(digit)) << shift;
  }

  // The slots of `level` that the hand has yet to enter in this revolution.
  uint64_t SlotsAhead(int level) const {
    return occupied_[level] & (~uint64_t{1} << Digit(now_, level));
  }

  Ref FirstAtHand(int level) const {
    return first_[level * kSlotsPerLevel + Digit(now_, level)];
  }

  // Links the timer at `tick`, which is its deadline or, for one that is
  // already due, the hand. REQUIRES: tick >= now_.
  void LinkAt(uint64_t tick, Ref timer);

  bool MoveHandTo(uint64_t now);

  Store store_;

  // Invariant: every timer is in the slot that LinkAt gives for the deadline
  // it had when it was linked, relative to now_.
  uint64_t now_;

  // The level whose slot at the hand is being emptied, 0 for none. Invariant:
  // no other level above 0 has timers in its slot at the hand.
  int cascading_level_ = 0;

  bool firing_ = false;

  // Bit s of occupied_[level] is set exactly while that slot has timers.
  uint64_t occupied_[kLevels] = {};

  // By level * 64 + slot: the first timer, and for an occupied slot above
  // level 0 a lower bound of its deadlines, so that nobody has to be woken
  // merely to cascade.
  Ref first_[kSlots] = {};
  uint64_t earliest_[kSlots];
};

template <typename Store>
bool BasicTimingWheel<Store>::empty() const {
  uint64_t any = 0;
  for (uint64_t word : occupied_) any |= word;
  return any == 0;
}

template <typename Store>
inline void BasicTimingWheel<Store>::Schedule(Ref timer) {
  assert(!store_.links(timer).scheduled());
  uint64_t floor = now_;
  if (ABSL_PREDICT_FALSE(firing_) &&
      floor != std::numeric_limits<uint64_t>::max()) {
    ++floor;
  }
  LinkAt(std::max(store_.deadline(timer), floor), timer);
}

template <typename Store>
inline void BasicTimingWheel<Store>::LinkAt(uint64_t tick, Ref timer) {
  // `| 1` maps equal ticks to level 0, where they belong.
  const int level = (63 - absl::countl_zero((tick ^ now_) | 1)) / kDigitBits;
  const int digit = Digit(tick, level);
  const int slot = level * kSlotsPerLevel + digit;
  const Ref next = first_[slot];
  TimerLinks<Ref>& links = store_.links(timer);
  links.next = next;
  links.prev = SlotTag<Ref>::Make(static_cast<uint32_t>(slot));
  first_[slot] = timer;
  if (next != Ref{}) {
    store_.links(next).prev = timer;
    earliest_[slot] = std::min(earliest_[slot], tick);
  } else {
    occupied_[level] |= uint64_t{1} << digit;
    earliest_[slot] = tick;
  }
}

template <typename Store>
inline void BasicTimingWheel<Store>::Cancel(Ref timer) {
  TimerLinks<Ref>& links = store_.links(timer);
  assert(links.scheduled());
  const Ref next = links.next;
  const Ref prev = links.prev;
  links.prev = Ref{};
  if (next != Ref{}) store_.links(next).prev = prev;
  if (!SlotTag<Ref>::Holds(prev)) {
    store_.links(prev).next = next;
    return;
  }
  const uint32_t slot = SlotTag<Ref>::Slot(prev);
  first_[slot] = next;
  if (next == Ref{}) {
    occupied_[slot / kSlotsPerLevel] &=
        ~(uint64_t{1} << (slot % kSlotsPerLevel));
  }
}

template <typename Store>
template <typename Fire>
uint64_t BasicTimingWheel<Store>::Advance(uint64_t now, uint64_t budget,
                                          Fire&& fire) {
  const FiringScope scope(firing_);
  uint64_t done = 0;
  do {
    // Timers leave their slot one by one, so that wherever the budget ends or
    // a callback throws, every timer is either out or still linked.
    if (cascading_level_ > 0) {
      while (Ref timer = FirstAtHand(cascading_level_)) {
        if (done == budget) return done;
        ++done;
        Cancel(timer);
        LinkAt(std::max(store_.deadline(timer), now_), timer);
      }
      cascading_level_ = 0;
    }
    while (Ref timer = FirstAtHand(0)) {
      if (done == budget) return done;
      ++done;
      Cancel(timer);
      const uint64_t deadline = store_.deadline(timer);
      if (ABSL_PREDICT_TRUE(deadline <= now_)) {
        fire(timer);
      } else {
        LinkAt(deadline, timer);  // It was moved to later.
      }
    }
  } while (MoveHandTo(now));
  return done;
}

// Moves the hand to the next occupied slot that starts by `now`, and returns
// true; or, where there is none, to `now`. Levels are searched from the lowest:
// each one's slots ahead end where the next level's begin.
template <typename Store>
bool BasicTimingWheel<Store>::MoveHandTo(uint64_t now) {
  if (now <= now_) return false;
  for (int level = 0; level < kLevels; ++level) {
    const uint64_t ahead = SlotsAhead(level);
    if (ahead == 0) continue;
    const uint64_t start = SlotStart(level, absl::countr_zero(ahead));
    if (start > now) break;
    now_ = start;
    cascading_level_ = level;
    return true;
  }
  now_ = now;
  return false;
}

template <typename Store>
std::optional<uint64_t> BasicTimingWheel<Store>::NextWakeup() const {
  if (FirstAtHand(0) != Ref{} || cascading_level_ > 0) return now_;
  for (int level = 0; level < kLevels; ++level) {
    const uint64_t ahead = SlotsAhead(level);
    if (ahead == 0) continue;
    return earliest_[level * kSlotsPerLevel + absl::countr_zero(ahead)];
  }
  return std::nullopt;
}

template <typename Store>
template <typename Taken>
void BasicTimingWheel<Store>::TakeAll(Taken&& taken) {
  for (Ref& first : first_) {
    Ref timer = std::exchange(first, Ref{});
    while (timer != Ref{}) {
      TimerLinks<Ref>& links = store_.links(timer);
      const Ref next = links.next;
      links.prev = Ref{};
      taken(timer);
      timer = next;
    }
  }
  Reset();
}

template <typename Store>
void BasicTimingWheel<Store>::Reset() {
  std::fill(std::begin(first_), std::end(first_), Ref{});
  std::fill(std::begin(occupied_), std::end(occupied_), 0);
  cascading_level_ = 0;
}

template <typename Store>
absl::Status BasicTimingWheel<Store>::CheckInvariants() {
  for (int slot = 0; slot < kSlots; ++slot) {
    const int level = slot / kSlotsPerLevel;
    const int digit = slot % kSlotsPerLevel;
    const auto broken = [&](const char* what) {
      return absl::InternalError(
          absl::StrCat("level ", level, ", slot ", digit, ": ", what));
    };
    if (((occupied_[level] >> digit & 1) != 0) != (first_[slot] != Ref{})) {
      return broken("the occupancy bit does not tell of the list");
    }
    const int hand = Digit(now_, level);
    const bool at_hand = digit == hand;
    if (first_[slot] != Ref{} &&
        (digit < hand || (at_hand && level > 0 && level != cascading_level_))) {
      return broken("timers behind the hand");
    }
    const uint64_t start = SlotStart(level, digit);
    Ref prev = SlotTag<Ref>::Make(static_cast<uint32_t>(slot));
    for (Ref timer = first_[slot]; timer != Ref{};
         timer = store_.links(timer).next) {
      if (store_.links(timer).prev != prev) return broken("a wrong back link");
      prev = timer;
      // What was due when it was linked waits at the hand or one tick after.
      const uint64_t deadline = store_.deadline(timer);
      const bool was_due = deadline <= now_ && start <= now_ + 1;
      if (deadline < start && !was_due) {
        return broken("a timer after its deadline");
      }
      if (deadline < earliest_[slot] && level > 0 && !was_due) {
        return broken("a timer before the earliest of its slot");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_BASIC_TIMING_WHEEL_H_
