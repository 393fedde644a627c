// The method definitions of BasicTimingWheel. Included by
// wheel/basic_timing_wheel.h alone.

#ifndef WHEELCACHE_WHEEL_INTERNAL_BASIC_TIMING_WHEEL_IMPL_H_
#define WHEELCACHE_WHEEL_INTERNAL_BASIC_TIMING_WHEEL_IMPL_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache {

template <typename Store, typename Slots>
bool BasicTimingWheel<Store, Slots>::empty() const {
  uint64_t any = 0;
  for (uint64_t word : occupied_) any |= word;
  return any == 0;
}

template <typename Store, typename Slots>
inline void BasicTimingWheel<Store, Slots>::PrefetchSlot(Ref timer) const {
  const uint64_t tick = std::max(store_.deadline(timer), now_);
  const uint32_t level = LevelOf(tick);
  internal::PrefetchLineToWrite(
      &slot(level * kSlotsPerLevel + Digit(tick, level)));
}

template <typename Store, typename Slots>
inline void BasicTimingWheel<Store, Slots>::Schedule(Ref timer) {
  assert(!store_.links(timer).scheduled());
  LinkAt(std::max(store_.deadline(timer), now_ + (firing_ ? 1 : 0)), timer);
}

// Links the timer into the slot for `tick`: its deadline or, if that has
// passed, the hand's tick or the one after.
// REQUIRES: tick >= now_.
template <typename Store, typename Slots>
inline void BasicTimingWheel<Store, Slots>::LinkAt(uint64_t tick, Ref timer) {
  const uint32_t level = LevelOf(tick);
  const uint32_t digit = Digit(tick, level);
  const uint32_t number = level * kSlotsPerLevel + digit;
  Slot& slot = this->slot(number);
  if (tick <= slot.earliest()) {
    slot.set_earliest(tick);
    occupied_[level] |= uint64_t{1} << digit;
  }
  // Most slots have one timer. In list 0, it is where the branch predictor
  // expects it when the slot is emptied.
  const uint32_t turn = links_made_++ % kListsPerSlot;
  const uint32_t list = slot.first[0] == Ref{} ? 0 : turn;
  Ref& first = slot.first[list];
  const Ref next = first;
  TimerLinks<Ref>& links = store_.links(timer);
  links.next = next;
  links.prev = ListTag::Make(number * kListsPerSlot + list);
  first = timer;
  if (next != Ref{}) store_.links(next).prev = timer;
}

template <typename Store, typename Slots>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void BasicTimingWheel<Store, Slots>::Cancel(
    Ref timer) {
  TimerLinks<Ref>& links = store_.links(timer);
  assert(links.scheduled());
  const Ref next = links.next;
  const Ref prev = links.prev;
  links.prev = Ref{};
  if (next != Ref{}) store_.links(next).prev = prev;
  if (!ListTag::Holds(prev)) {
    store_.links(prev).next = next;
    return;
  }
  const uint32_t list = ListTag::List(prev);
  const uint32_t number = list / kListsPerSlot;
  Slot& slot = this->slot(number);
  slot.first[list % kListsPerSlot] = next;
  if (next == Ref{} && slot.empty()) {
    slot.set_earliest(kNoDeadline);
    occupied_[number / kSlotsPerLevel] &=
        ~(uint64_t{1} << (number % kSlotsPerLevel));
  }
}

template <typename Store, typename Slots>
inline void BasicTimingWheel<Store, Slots>::PrefetchNeighbours(
    const TimerLinks<Ref>& links) const {
  if (!links.scheduled()) return;
  if (links.next != Ref{}) {
    internal::PrefetchLineToWrite(&store_.links(links.next));
  }
  if (ListTag::Holds(links.prev)) {
    const uint32_t list = ListTag::List(links.prev);
    internal::PrefetchLineToWrite(&slot(list / kListsPerSlot));
  } else {
    internal::PrefetchLineToWrite(&store_.links(links.prev));
  }
}

template <typename Store, typename Slots>
template <typename Fire>
uint64_t BasicTimingWheel<Store, Slots>::Advance(uint64_t now, uint64_t budget,
                                                 Fire&& fire) {
  const FiringScope scope(firing_);
  uint64_t done = 0;
  do {
    done += Cascade(budget - done);
    done += FireAtHand(budget - done, fire);
  } while (done < budget && MoveHandTo(std::min(now, kLastTick)));
  return done;
}

// Takes the first timer out of the list whose head in its slot is `first`, and
// prefetches the next one.
template <typename Store, typename Slots>
inline typename BasicTimingWheel<Store, Slots>::Ref
BasicTimingWheel<Store, Slots>::TakeFirst(const Ref& first) {
  const Ref timer = first;
  Cancel(timer);
  if (first != Ref{}) internal::PrefetchLineToWrite(&store_.links(first));
  return timer;
}

// Takes up to `budget` timers out of a slot and hands each to `take(Ref)`. Each
// is taken out right before its call, so that a callback finds every other
// timer linked. Returns their number.
template <typename Store, typename Slots>
template <typename Take>
inline uint64_t BasicTimingWheel<Store, Slots>::TakeFrom(uint32_t slot,
                                                         uint64_t budget,
                                                         Take take) {
  uint64_t taken = 0;
  while (taken < budget && IsOccupied(slot)) {
    for (const Ref& first : this->slot(slot).first) {
      if (first == Ref{} || taken == budget) continue;
      ++taken;
      take(TakeFirst(first));
    }
  }
  return taken;
}

// Moves up to `budget` timers of the cascading slot to the slots where they
// belong now that the hand stands at that slot's start.
template <typename Store, typename Slots>
uint64_t BasicTimingWheel<Store, Slots>::Cascade(uint64_t budget) {
  if (cascading_level_ == 0) return 0;
  return TakeFrom(SlotAtHand(cascading_level_), budget, [this](Ref timer) {
    LinkAt(std::max(store_.deadline(timer), now_), timer);
  });
}

// Fires up to `budget` timers of the hand's own tick.
template <typename Store, typename Slots>
template <typename Fire>
uint64_t BasicTimingWheel<Store, Slots>::FireAtHand(uint64_t budget,
                                                    Fire& fire) {
  return TakeFrom(SlotAtHand(0), budget, [this, &fire](Ref timer) {
    const uint64_t deadline = store_.deadline(timer);
    if (deadline <= now_) {
      fire(timer);
    } else {
      LinkAt(deadline, timer);  // Its deadline has grown.
    }
  });
}

// Moves the hand to the next occupied slot that starts by `now`, and returns
// true; or, where there is none, to `now`. Levels are searched from the lowest:
// the slots of each end where the next level's begin.
// REQUIRES: nothing is left to do at the hand, so that all slots lie ahead.
template <typename Store, typename Slots>
bool BasicTimingWheel<Store, Slots>::MoveHandTo(uint64_t now) {
  if (now <= now_) return false;
  for (uint32_t level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const uint64_t start = SlotStart(FirstOccupiedSlot(level));
    if (start > now) break;
    now_ = start;
    cascading_level_ = level;
    return true;
  }
  now_ = now;
  return false;
}

template <typename Store, typename Slots>
std::optional<uint64_t> BasicTimingWheel<Store, Slots>::NextWakeup() const {
  uint64_t wakeup = kNoDeadline;
  for (uint32_t level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    wakeup = std::min(wakeup, slot(FirstOccupiedSlot(level)).earliest());
    // The levels above begin later, up to a slot that is being emptied.
    if (level >= cascading_level_) break;
  }
  if (wakeup == kNoDeadline) return std::nullopt;
  return wakeup;
}

template <typename Store, typename Slots>
template <typename Taken>
void BasicTimingWheel<Store, Slots>::TakeAll(Taken&& taken) {
  for (uint32_t level = 0; level < kLevels; ++level) {
    while (occupied_[level] != 0) {
      TakeFrom(FirstOccupiedSlot(level), kNoBudget,
               [&taken](Ref timer) { taken(timer); });
    }
  }
}

template <typename Store, typename Slots>
void BasicTimingWheel<Store, Slots>::Reset() {
  for (uint32_t level = 0; level < kLevels; ++level) {
    while (occupied_[level] != 0) {
      slot(FirstOccupiedSlot(level)) = Slot();
      occupied_[level] &= occupied_[level] - 1;
    }
  }
}

template <typename Store, typename Slots>
absl::Status BasicTimingWheel<Store, Slots>::CheckInvariants() const {
  for (uint32_t number = 0; number < internal::kTimerSlots; ++number) {
    const absl::Status status = CheckSlot(number);
    if (!status.ok()) {
      return absl::InternalError(
          absl::StrCat("level ", number / kSlotsPerLevel, ", slot ",
                       number % kSlotsPerLevel, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

template <typename Store, typename Slots>
uint64_t BasicTimingWheel<Store, Slots>::CountTimers() const {
  uint64_t timers = 0;
  for (uint32_t number = 0; number < internal::kTimerSlots; ++number) {
    for (Ref timer : slot(number).first) {
      for (; timer != Ref{}; timer = store_.links(timer).next) ++timers;
    }
  }
  return timers;
}

template <typename Store, typename Slots>
absl::Status BasicTimingWheel<Store, Slots>::CheckSlot(uint32_t number) const {
  const Slot& slot = this->slot(number);
  if (IsOccupied(number) == slot.empty()) {
    return absl::InternalError("the occupancy bit does not tell of the lists");
  }
  if (slot.empty()) {
    return slot.earliest() == kNoDeadline
               ? absl::OkStatus()
               : absl::InternalError("an empty slot with an earliest deadline");
  }
  const uint32_t level = number / kSlotsPerLevel;
  const uint32_t hand = SlotAtHand(level);
  const bool may_be_at_hand = level == 0 || level == cascading_level_;
  if (number < hand || (number == hand && !may_be_at_hand)) {
    return absl::InternalError("timers behind the hand");
  }
  const uint64_t start = SlotStart(number);
  if (slot.earliest() < start ||
      (slot.earliest() - start) >> (level * kDigitBits) != 0) {
    return absl::InternalError("the earliest deadline lies outside the slot");
  }
  absl::Status status;
  for (uint32_t list = 0; status.ok() && list < kListsPerSlot; ++list) {
    status = CheckList(number * kListsPerSlot + list);
  }
  return status;
}

template <typename Store, typename Slots>
absl::Status BasicTimingWheel<Store, Slots>::CheckList(uint32_t list) const {
  const Slot& slot = this->slot(list / kListsPerSlot);
  const uint64_t start = SlotStart(list / kListsPerSlot);
  Ref prev = ListTag::Make(list);
  for (Ref timer = slot.first[list % kListsPerSlot]; timer != Ref{};
       timer = store_.links(timer).next) {
    if (store_.links(timer).prev != prev) {
      return absl::InternalError("a wrong back link");
    }
    prev = timer;
    // A timer that was due when linked is at the hand or one tick after.
    const uint64_t deadline = store_.deadline(timer);
    const bool was_due = deadline <= now_ && start <= now_ + 1;
    if (deadline < slot.earliest() && !was_due) {
      return absl::InternalError("a deadline before the earliest of its slot");
    }
  }
  return absl::OkStatus();
}

}  // namespace wheelcache

#endif  // WHEELCACHE_WHEEL_INTERNAL_BASIC_TIMING_WHEEL_IMPL_H_
