// The order in which the entries of a shard leave: those that expire by a
// timing wheel, those that have to make room by an EvictionOrder, which is one
// LRU list or two.
//
// Invariant: an entry of the shard is in a list; it is in the wheel exactly
// if its deadline is finite. One entry that was replaced may still be in both,
// until UnlinkReplaced.
//
// A replaced entry. Its neighbours in list and wheel lie anywhere in memory, so
// that to unlink it at once is to wait for them. Replace leaves it where it is,
// for the next UnlinkReplaced, if nobody notices: there is no listener to tell,
// and to destroy it does nothing but free a small block.
//
// Time. The wheel counts in ticks and rounds deadlines up: an entry that it
// fires has expired, and one that has expired for less than a tick may still be
// here.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_order.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

// Converts between readings of a clock, in nanoseconds, and the ticks in which
// a timing wheel counts.
//
// A clock may read less than zero, while ticks have no sign. So the reading 0
// is not tick 0 but the middle of the range, and order is kept everywhere.
class Ticks {
 public:
  // REQUIRES: a tick is at least a nanosecond.
  explicit constexpr Ticks(int64_t tick_nanos) : tick_nanos_(tick_nanos) {}

  // The last tick that begins at the reading or before it.
  constexpr uint64_t Floor(int64_t nanos) const {
    return FromZero(nanos / tick_nanos_ - (nanos % tick_nanos_ < 0));
  }

  // The first tick that begins at the reading or after it.
  constexpr uint64_t Ceil(int64_t nanos) const {
    return FromZero(nanos / tick_nanos_ + (nanos % tick_nanos_ > 0));
  }

  // The reading at which the tick begins. Of one that begins after the last
  // reading, Clock::kNever; of one that begins before the first, that.
  constexpr int64_t Nanos(uint64_t tick) const {
    constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
    const auto from_zero = static_cast<int64_t>(tick ^ kZero);
    if (from_zero > Clock::kNever / tick_nanos_) return Clock::kNever;
    if (from_zero < kFirst / tick_nanos_) return kFirst;
    return from_zero * tick_nanos_;
  }

 private:
  static constexpr uint64_t kZero = uint64_t{1} << 63;

  static constexpr uint64_t FromZero(int64_t ticks) {
    return static_cast<uint64_t>(ticks) ^ kZero;
  }

  int64_t tick_nanos_;
};

class WHEELCACHE_EXPORT RemovalOrder {
 public:
  // The largest block that a replaced entry may keep until UnlinkReplaced, in
  // bytes.
  static constexpr size_t kMostDeferred = 512;

  using Owner = EvictionOrder::Owner;
  using Added = EvictionOrder::Added;

  // An empty one, at this time.
  RemovalOrder(const Owner& shard, int64_t now_nanos);

  RemovalOrder(const RemovalOrder&) = delete;
  RemovalOrder& operator=(const RemovalOrder&) = delete;

  // Whether there is no entry, nor a replaced one.
  bool empty() const { return evictions_.empty(); }

  // Adds an entry as the most recently used. It takes so much room.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(const Added& added, const Room& room);

  // Takes an entry out. REQUIRES: it is not the replaced one.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Remove(EntryRef ref);

  // As Remove, of what FindVictim returned and is evicted. See EvictionOrder.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RemoveVictim(EntryRef ref, Hash32 hash,
                                                 int64_t charge);

  // Takes out an entry in whose place another one was added, or leaves that to
  // UnlinkReplaced; returns whether it has gone. `plain` says whether it is a
  // small block that only has to be freed. REQUIRES: UnlinkReplaced was called
  // since the last Replace.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Replace(EntryRef old, bool plain);

  // Takes out what Replace has left, and returns it, or null. To be called
  // before the next Replace, Advance and FindVictim.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef UnlinkReplaced();

  // Puts a copy of an entry in its place. REQUIRES: UnlinkReplaced was called
  // since the last Replace.
  void Substitute(EntryRef old, EntryRef copy);

  // Makes an entry the most recently used. See EvictionOrder.
  void Use(EntryRef ref) { evictions_.Use(ref); }
  void MoveToFront(EntryRef ref) { evictions_.MoveToFront(ref); }

  // Marks an entry, until it is removed: see Recency.
  void Mark(EntryRef ref) { evictions_.Mark(ref); }

  // Gives an entry another deadline.
  void SetDeadline(EntryRef ref, int64_t deadline_nanos);

  // See EvictionOrder.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef FindVictim(EntryRef keep,
                                                   const Room& incoming,
                                                   int64_t now_nanos,
                                                   uint64_t* budget) {
    return evictions_.FindVictim(keep, incoming, now_nanos, budget);
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool AnotherShardHasOlder(EntryRef victim) {
    return evictions_.AnotherShardHasOlder(victim);
  }
  void PublishOldest(uint64_t* budget) { evictions_.PublishOldest(budget); }
  void SetShare(Room share) { evictions_.SetShare(share); }

  // When the wheel next has something to do; also on the DueBoard.
  int64_t due_nanos() const { return due_nanos_; }

  // Calls `fire(ref)` for each entry that has expired, with its timer out of
  // the wheel; it may Remove entries. Stops after `budget` fired and cascaded
  // timers. Returns how many those were: less than `budget` means that nothing
  // due is left.
  uint64_t Advance(int64_t now_nanos, uint64_t budget,
                   absl::FunctionRef<void(EntryRef)> fire);

  // Takes out all entries at once, in O(occupied slots of the wheel). The
  // `older` links of the entries still lead from the first returned one to the
  // second.
  std::pair<EntryRef, EntryRef> TakeAll();

  // For tests: finds the first broken invariant, and calls `visit(ref)` for
  // each entry but the replaced one. O(entries).
  absl::Status CheckInvariants(absl::FunctionRef<void(EntryRef)> visit);

  // For tests: whether the wheel has worked beyond this time, and so would fire
  // what is due next too late.
  bool IsAheadOf(int64_t now_nanos) const {
    return wheel_.now() > ticks().Floor(now_nanos);
  }

 protected:
  // How the wheel finds the links of an entry.
  struct Links {
    using Ref = EntryRef;
    TimerLinks<Ref>& links(Ref ref) const { return pool->At(ref).timer; }
    // Rounded up: a timer that fires is past its deadline.
    uint64_t deadline(Ref ref) const {
      return ticks.Ceil(pool->At(ref).deadline());
    }
    EntryPool* pool;
    Ticks ticks;
  };
  using Wheel = BasicTimingWheel<Links, WheelSlots>;
  // The wheel marks its lists by the largest references.
  static_assert(!ListTag<EntryRef>::Holds(Chunks::kLastRef));

  EntryPool& pool() const { return pool_; }
  const EvictionOrder& evictions() const { return evictions_; }
  EvictionOrder& evictions() { return evictions_; }
  const Wheel& wheel() const { return wheel_; }
  EntryRef replaced() const { return replaced_; }

 private:
  EntryHeader& At(EntryRef ref) const { return pool_.At(ref); }
  Ticks ticks() const { return Ticks(shared_.tick_nanos); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Unlink(EntryRef ref);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Schedule(EntryRef ref);
  void SetDue(std::optional<uint64_t> tick);
  absl::Status CheckEntry(EntryRef ref) const;
  absl::Status CheckDue() const;

  SharedState& shared_;
  EntryPool& pool_;  // Of shared_.
  const int shard_;

  EntryRef replaced_ = 0;  // What UnlinkReplaced is to take out.
  int64_t due_nanos_ = Clock::kNever;
  EvictionOrder evictions_;
  Wheel wheel_;
};

// Inlined into the shard's Set and eviction: each has one call site or two.

inline void RemovalOrder::Add(const Added& added, const Room& room) {
  evictions_.Add(added, room);
  if (At(added.ref).deadline() != Clock::kNever) Schedule(added.ref);
}

inline void RemovalOrder::Remove(EntryRef ref) {
  assert(ref != replaced_);
  Unlink(ref);
}

inline void RemovalOrder::RemoveVictim(EntryRef ref, Hash32 hash,
                                       int64_t charge) {
  assert(ref != replaced_);
  if (At(ref).timer.scheduled()) wheel_.Cancel(ref);
  evictions_.RemoveVictim(ref, hash, charge);
}

inline bool RemovalOrder::Replace(EntryRef old, bool plain) {
  assert(replaced_ == 0);
  if (!shared_.has_listener && plain) {
    replaced_ = old;
    return false;
  }
  Unlink(old);
  return true;
}

inline EntryRef RemovalOrder::UnlinkReplaced() {
  if (replaced_ != 0) Unlink(replaced_);
  return std::exchange(replaced_, 0);
}

inline void RemovalOrder::Unlink(EntryRef ref) {
  evictions_.Remove(ref);
  if (At(ref).timer.scheduled()) wheel_.Cancel(ref);
}

inline void RemovalOrder::Schedule(EntryRef ref) {
  wheel_.Schedule(ref);
  if (At(ref).deadline() < due_nanos_) SetDue(wheel_.NextWakeup());
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_
