// The methods of RemovalOrder that are inlined into a shard's Set, eviction and
// expiry, for the sources that call them: each has one call site or two. Users
// of a cache need not compile them.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_IMPL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_IMPL_H_

#include <cassert>
#include <cstddef>
#include <utility>

#include "absl/base/optimization.h"
#include "wheelcache/cache/internal/engine/removal_order.h"
#include "wheelcache/cache/internal/engine/two_lists.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

template <typename F>
inline decltype(auto) RemovalOrder::WithLists(F&& f) {
  if (ABSL_PREDICT_TRUE(two_lists_ == nullptr)) return f(one_list_);
  return f(*two_lists_);
}

template <typename F>
inline decltype(auto) RemovalOrder::WithLists(F&& f) const {
  return const_cast<RemovalOrder*>(this)->WithLists(
      [&](const auto& lists) { return f(lists); });
}

inline void RemovalOrder::PrefetchNew(Hash32 hash) const {
  WithLists([&](const auto& lists) { lists.PrefetchGhosts(hash); });
}

inline Hash32 RemovalOrder::HashOf(EntryRef ref) const {
  for (const Tail& tail : tails_) {
    if (ref == tail.ref) return tail.hash;
  }
  return pool_.operations().hash(At(ref));
}

inline void RemovalOrder::ForgetTail(EntryRef ref) {
  for (Tail& tail : tails_) {
    if (ref == tail.ref) tail.ref = 0;
  }
}

inline void RemovalOrder::Add(const Added& added, const Room& room) {
  WithLists([&](auto& lists) { lists.Add(added, room); });
  if (At(added.ref).deadline() != Clock::kNever) Schedule(added.ref);
}

inline void RemovalOrder::Remove(EntryRef ref, int64_t charge) {
  assert(ref != replaced_);
  Unlink(ref, charge);
}

inline void RemovalOrder::RemoveVictim(EntryRef ref, Hash32 hash,
                                       int64_t charge) {
  assert(ref != replaced_);
  if (At(ref).timer.scheduled()) wheel_.Cancel(ref);
  ForgetTail(ref);
  WithLists([&](auto& lists) { lists.RemoveVictim(ref, hash, charge); });
  // There is no room, or nothing would be evicted.
  PrefetchVictims();
}

inline bool RemovalOrder::Replace(EntryRef old, int64_t charge, bool plain) {
  assert(replaced_ == 0);
  replaced_neighbours_ = NeighboursOf(old);
  if (!shared_.has_listener && plain) {
    replaced_ = old;
    replaced_charge_ = charge;
    return false;
  }
  Unlink(old, charge);
  return true;
}

inline EntryRef RemovalOrder::UnlinkReplaced() {
  if (replaced_ != 0) Unlink(replaced_, replaced_charge_);
  return std::exchange(replaced_, 0);
}

inline EntryRef RemovalOrder::UnlinkReplacedForSet(EntryRef next) {
  const size_t thread = ThreadIndex();
  if (std::exchange(last_writer_, thread) != thread) {
    PrefetchForThisThread(next);
  }
  const EntryRef unlinked = UnlinkReplaced();
  if (!VictimsAreKnown() && !shared_.budget.ample()) PrefetchVictims();
  return unlinked;
}

inline EntryRef RemovalOrder::UnlinkReplacedForEviction() {
  last_writer_ = ThreadIndex();
  return UnlinkReplaced();
}

inline void RemovalOrder::Unlink(EntryRef ref, int64_t charge) {
  ForgetTail(ref);
  WithLists([&](auto& lists) { lists.Remove(ref, charge); });
  if (At(ref).timer.scheduled()) wheel_.Cancel(ref);
}

inline void RemovalOrder::Schedule(EntryRef ref) {
  const int64_t deadline = At(ref).deadline();  // A hit may extend it.
  wheel_.Schedule(ref);
  if (deadline < due_nanos_) SetDue(wheel_.NextWakeup());
}

inline EntryRef RemovalOrder::FindVictim(EntryRef keep, const Room& incoming,
                                         uint64_t* budget) {
  return WithLists([&](auto& lists) {
    const EntryRef victim = lists.FindVictim(keep, incoming, budget);
    standing_ = lists.standing();
    // Exactly of an empty list: a Set that was sent to this shard for an older
    // entry must not be sent here again.
    tail_.Publish(standing_.tail, victim == 0 ? 0 : standing_.margin / 2);
    return victim;
  });
}

inline auto RemovalOrder::NeighboursOf(EntryRef ref) const -> Neighbours {
  const EntryHeader& entry = At(ref);
  return {entry.lru, entry.timer};
}

inline void RemovalOrder::Prefetch(const Neighbours& neighbours) const {
  const auto [newer, older] = neighbours.lru;
  if (newer != 0) PrefetchLineToWrite(&At(newer));
  if (older != 0) PrefetchLineToWrite(&At(older));
  wheel_.PrefetchNeighbours(neighbours.timer);
}

inline bool RemovalOrder::VictimsAreKnown() const {
  return WithLists([&](const auto& lists) {
    const auto backs = lists.backs();
    bool known = true;
    for (size_t i = 0; i < backs.size(); ++i) {
      known = known && backs[i] == tails_[i].ref;
    }
    return known;
  });
}

// Prefetches what the eviction of the entries at the tails will touch, unless
// that was done before.
// REQUIRES: no replaced entry is linked; a replaced entry is no victim.
inline void RemovalOrder::PrefetchVictims() {
  assert(replaced_ == 0);
  WithLists([&](const auto& lists) {
    const auto backs = lists.backs();
    for (size_t i = 0; i < backs.size(); ++i) {
      Tail& tail = tails_[i];
      if (backs[i] == 0 || backs[i] == tail.ref) continue;
      tail = {backs[i], pool_.operations().hash(At(backs[i])),
              NeighboursOf(backs[i])};
      index_.Prefetch(tail.hash);
      Prefetch(tail.neighbours);
      lists.PrefetchGhosts(tail.hash);
    }
  });
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_IMPL_H_
