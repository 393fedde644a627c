// The definitions of Shard's methods, of which cache/internal/engine/shard.h
// shows the declarations. Included by that alone.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_IMPL_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_IMPL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace internal {

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
inline auto Shard<Key, Value, Hash, Equal>::Find(const K& key, Hash32 hash,
                                                 ReadSection* section) const
    -> Found {
  Found found;
  bool covered = true;
  Index::Rest rest;
  const auto match = [&](EntryRef candidate) ABSL_ATTRIBUTE_ALWAYS_INLINE {
    covered = section->Covers();
    found.entry = &At(candidate);
    return !covered || Equal()(found.entry->key(), key);
  };
  found.ref = index_.FindAtHome(hash, &rest, match);
  if (ABSL_PREDICT_TRUE(covered && rest.empty())) return found;
  return FindInRest(key, hash, section, rest);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
auto Shard<Key, Value, Hash, Equal>::FindInRest(const K& key, Hash32 hash,
                                                ReadSection* section,
                                                Index::Rest rest) const
    -> Found {
  Found found;
  bool covered = true;
  const auto match = [&](EntryRef candidate) {
    covered = section->Covers();
    found.entry = &At(candidate);
    return !covered || Equal()(found.entry->key(), key);
  };
  if (!rest.empty()) {
    found.ref = Index::FindInRest(rest, hash, match);
    if (covered) return found;
  }
  do {
    section->Announce();
    covered = true;
    found.ref = index_.Find(hash, match);
  } while (!covered);
  return found;
}

template <typename Key, typename Value, typename Hash, typename Equal>
Publication Shard<Key, Value, Hash, Equal>::Publish(const Write& write,
                                                    Claim* claim,
                                                    Removed* removed) {
  EntryType& entry = At(write.ref);
  Interleave("publish: between clock and lock");
  MutexLock lock(&mu_);
  if (write.load != nullptr && !loads_.IsCurrent(*write.load)) {
    return Publication::kSuperseded;
  }
  if (entry.deadline() == Clock::kNever) {  // Not drawn by a call before.
    // Relaxed, as charge and key: the index publishes them together.
    entry.deadline_nanos.store(DeadlineLocked(write.now_nanos, write.ttl_nanos),
                               std::memory_order_relaxed);
  }
  PrefetchAfterAnotherThreadLocked(write.ref);
  FinishReplacementLocked(removed);
  PrefetchVictimLocked();
  const uint64_t paid =
      ReclaimLocked(write.now_nanos, shared_.writer_budget, claim, removed);
  const uint64_t budget = shared_.maintenance_budget - paid;
  EntryRef old = FindLocked(entry.key(), write.hash);
  if (old != 0) PrefetchLocked(NeighboursOf(old));
  if (old != 0 && At(old).ExpiredAt(write.now_nanos)) {
    RemoveLocked(old, RemovalCause::kExpired, claim, removed);
    old = 0;
  }
  Room need = write.room;
  if (old != 0) {
    need -= RoomOf(old);
  } else {
    // The last that may throw, before anything live has to leave.
    index_.Reserve([this](EntryRef other) { return HashOf(other); });
  }
  const Publication outcome =
      MakeRoomLocked(need, old, write.now_nanos, budget, claim, removed);
  if (outcome != Publication::kDone) return outcome;
  claim->Spend(need);
  Interleave("publish: between claim and link");
  loads_.Supersede(entry.key());
  used_ += need;
  LinkLocked(write.ref, write.hash, old, removed);
  return Publication::kDone;
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::PrefetchVictimLocked() {
  const EntryRef last = lru_.back();
  if (last == 0 || last == victim_.ref || shared_.budget.HasRoom()) return;
  victim_ = {last, HashOf(last), NeighboursOf(last)};
  index_.Prefetch(victim_.hash);
  PrefetchLocked(victim_.neighbours);
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::PrefetchAfterAnotherThreadLocked(
    EntryRef ref) {
  const size_t thread = ThreadIndex();
  if (std::exchange(last_writer_, thread) == thread) return;
  wheel_.PrefetchSlot(ref);
  if (lru_.front() != 0) PrefetchLineToWrite(&At(lru_.front()));
  if (replaced_ != 0) {
    PrefetchLineToWrite(&At(replaced_));
    PrefetchLocked(beside_replaced_);
  }
  if (victim_.ref != 0) {
    PrefetchLineToWrite(&At(victim_.ref));
    index_.Prefetch(victim_.hash);
    PrefetchLocked(victim_.neighbours);
  }
}

// Removes what is expired, and then what is least recently used but for
// `keep`, until the claim covers `need`.
template <typename Key, typename Value, typename Hash, typename Equal>
inline Publication Shard<Key, Value, Hash, Equal>::MakeRoomLocked(
    Room need, EntryRef keep, int64_t now_nanos, uint64_t budget, Claim* claim,
    Removed* removed) {
  while (!claim->Cover(need)) {
    if (budget == 0) return Publication::kMoreToDo;
    if (due_nanos_ <= now_nanos) {
      budget -= ReclaimLocked(now_nanos, budget, claim, removed);
      continue;
    }
    if (shared_.due.AnyDue(now_nanos)) return Publication::kReclaimOthers;
    const EntryRef victim = FindVictimLocked(keep, &budget);
    if (budget == 0) continue;
    if (victim == 0) return Publication::kEvictOthers;
    if (AnotherHasOlderLocked(victim)) return Publication::kEvictOlder;
    RemoveLocked(victim, RemovalCause::kEvicted, claim, removed);
    --budget;
    PrefetchVictimLocked();
  }
  return Publication::kDone;
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::LinkLocked(EntryRef ref,
                                                       Hash32 hash,
                                                       EntryRef old,
                                                       Removed* removed) {
  if (old == 0) {
    index_.Insert(hash, ref);
  } else {
    index_.Replace(hash, old, ref);
  }
  Interleave("publish: between index and list");
  PushFrontLocked(ref);
  if (At(ref).deadline() != Clock::kNever) ScheduleLocked(ref);
  if (old == 0) return;
  if (!shared_.has_listener && At(old).IsPlain(kMostReplacedBytes)) {
    removed->Announce(RemovalCause::kReplaced);
    replaced_ = old;
    beside_replaced_ = NeighboursOf(old);
  } else {
    UnlinkLocked(old);
    removed->Add(old, RemovalCause::kReplaced);
  }
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::UnlinkLocked(EntryRef ref) {
  if (ref == victim_.ref) victim_ = Victim();
  lru_.Remove(ref);
  if (At(ref).timer.scheduled()) wheel_.Cancel(ref);
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::FinishReplacementLocked(
    Removed* removed) {
  if (replaced_ == 0) return;
  UnlinkLocked(replaced_);
  removed->AddAnnounced(std::exchange(replaced_, 0));
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::RemoveLocked(EntryRef ref,
                                                  RemovalCause cause,
                                                  Claim* claim,
                                                  Removed* removed) {
  index_.Erase(ref == victim_.ref ? victim_.hash : HashOf(ref), ref);
  Interleave("remove: between index and list");
  const Room room = RoomOf(ref);
  used_ -= room;
  claim->Add(room);
  UnlinkLocked(ref);
  removed->Add(ref, cause);
}

template <typename Key, typename Value, typename Hash, typename Equal>
uint64_t Shard<Key, Value, Hash, Equal>::ReclaimDueLocked(int64_t now_nanos,
                                                          uint64_t budget,
                                                          Claim* claim,
                                                          Removed* removed) {
  // An entry leaves a few timers after its own has fired, when what has to let
  // go of it has come from memory.
  std::array<EntryRef, 4> fired = {};
  size_t next = 0;
  const auto remove = [&](EntryRef ref) {
    mu_.AssertHeld();
    if (ref != 0) RemoveLocked(ref, RemovalCause::kExpired, claim, removed);
  };
  const uint64_t done =
      wheel_.Advance(FloorTick(now_nanos), budget, [&](EntryRef ref) {
        mu_.AssertHeld();
        index_.Prefetch(HashOf(ref));
        PrefetchLocked(NeighboursOf(ref));
        remove(std::exchange(fired[next++ % fired.size()], ref));
      });
  for (size_t i = 0; i < fired.size(); ++i) {
    remove(fired[next++ % fired.size()]);
  }
  SetDueLocked(wheel_.NextWakeup());
  return done;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool Shard<Key, Value, Hash, Equal>::Remove(const K& key, Hash32 hash,
                                            int64_t now_nanos,
                                            RemovalCause cause, Claim* claim,
                                            Removed* removed) {
  Interleave("remove: between clock and lock");
  MutexLock lock(&mu_);
  loads_.Supersede(key);
  const EntryRef ref = FindLocked(key, hash);
  if (ref == 0) return false;
  const bool live = !At(ref).ExpiredAt(now_nanos);
  RemoveLocked(ref, live ? cause : RemovalCause::kExpired, claim, removed);
  return live;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool Shard<Key, Value, Hash, Equal>::Touch(const K& key, Hash32 hash,
                                           int64_t ttl_nanos,
                                           const Clock& clock) {
  Interleave("touch: before the lock");
  MutexLock lock(&mu_);
  // Not before: what others see expire while this thread waits for the lock
  // must not come back to life.
  const int64_t now_nanos = clock.NowNanos();
  Interleave("touch: between clock and deadline");
  const EntryRef ref = FindLiveLocked(key, hash, now_nanos);
  if (ref == 0) return false;
  UseLocked(ref);
  EntryType& entry = At(ref);
  const int64_t before = entry.deadline();
  const int64_t after = DeadlineLocked(now_nanos, ttl_nanos);
  const bool wheel_finds_out =
      entry.timer.scheduled() && after >= before && after != Clock::kNever;
  if (!wheel_finds_out && entry.timer.scheduled()) wheel_.Cancel(ref);
  entry.deadline_nanos.store(after, std::memory_order_relaxed);
  if (!wheel_finds_out && after != Clock::kNever) ScheduleLocked(ref);
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
bool Shard<Key, Value, Hash, Equal>::Evict(Claim* claim, Removed* removed) {
  MutexLock lock(&mu_);
  last_writer_ = ThreadIndex();
  FinishReplacementLocked(removed);
  uint64_t budget = shared_.maintenance_budget;
  bool evicted = false;
  while (budget > 0 && !claim->Cover(claim->need())) {
    const EntryRef victim = FindVictimLocked(/*keep=*/0, &budget);
    if (victim == 0) break;
    RemoveLocked(victim, RemovalCause::kEvicted, claim, removed);
    evicted = true;
    if (budget > 0) --budget;
    PrefetchVictimLocked();
  }
  return evicted;
}

// Returns the least recently used entry but for `keep`, or 0. Spends of
// `budget` what it costs to find it, and lets the other shards know how old it
// is.
template <typename Key, typename Value, typename Hash, typename Equal>
EntryRef Shard<Key, Value, Hash, Equal>::FindVictimLocked(EntryRef keep,
                                                          uint64_t* budget) {
  EntryRef victim = lru_.FindOldest(budget);
  if (victim == keep && victim != 0) {
    SetStamp(keep, recency_.NextStamp());  // It is about to be replaced.
    lru_.MoveToFront(keep);
    victim = lru_.FindOldest(budget);
    if (victim == keep) victim = 0;
  }
  if (victim != 0 || *budget > 0) {
    shared_.uses.set_tail(number_,
                          victim == 0 ? recency_.Now() : StampOf(victim),
                          /*slack=*/recency_.Margin() / 8);
  }
  return victim;
}

// Looks at one other shard, the next in turn each time: shares of the limits
// that have drifted are mended bit by bit.
template <typename Key, typename Value, typename Hash, typename Equal>
bool Shard<Key, Value, Hash, Equal>::AnotherHasOlderLocked(EntryRef victim) {
  if (shared_.shards == 1) return false;
  do {
    next_peer_ = (next_peer_ + 1) & (shared_.shards - 1);
  } while (next_peer_ == number_);
  return IsOlderBy(shared_.uses.tail(next_peer_), StampOf(victim),
                   recency_.Margin());
}

template <typename Key, typename Value, typename Hash, typename Equal>
auto Shard<Key, Value, Hash, Equal>::JoinLoad(Hash32 hash, int64_t now_nanos,
                                              LoadPtr load, EntryRef* found)
    -> LoadPtr {
  MutexLock lock(&mu_);
  *found = FindLiveLocked(load->key(), hash, now_nanos);
  if (*found != 0) {
    pool_.Pin(*found);
    return nullptr;
  }
  if (LoadPtr current = loads_.Find(load->key())) return current;
  loads_.Add(load);
  return load;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::EndLoad(const LoadPtr& load) {
  MutexLock lock(&mu_);
  if (loads_.IsCurrent(load)) loads_.Supersede(load->key());
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::TakeAllLocked(Removed* removed) {
  Interleave("clear: before a shard is emptied");
  loads_.SupersedeAll();
  FinishReplacementLocked(removed);
  if (!Contain([this] { index_.Clear(); })) {
    Claim claim(&shared_.budget);
    while (!lru_.empty()) {
      RemoveLocked(lru_.back(), RemovalCause::kDeleted, &claim, removed);
    }
    SetDueLocked(std::nullopt);
    return;
  }
  if (lru_.empty()) return;
  const EntryRef oldest = lru_.back();
  removed->AddCleared(lru_.TakeAll(), oldest);
  victim_ = Victim();
  wheel_.Reset();
  SetDueLocked(std::nullopt);
  shared_.budget.Give(used_);
  used_ = Room();
}

// The end of a TTL that begins now, varied by the jitter, saturated to kNever.
template <typename Key, typename Value, typename Hash, typename Equal>
int64_t Shard<Key, Value, Hash, Equal>::DeadlineLocked(int64_t now_nanos,
                                                       int64_t ttl_nanos) {
  if (ttl_nanos == Clock::kNever) return Clock::kNever;
  return Clock::NanosAfter(now_nanos, jitter_.Vary(ttl_nanos));
}

template <typename Key, typename Value, typename Hash, typename Equal>
inline void Shard<Key, Value, Hash, Equal>::ScheduleLocked(EntryRef ref) {
  wheel_.Schedule(ref);
  if (At(ref).deadline() < due_nanos_) SetDueLocked(wheel_.NextWakeup());
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::SetDueLocked(
    std::optional<uint64_t> tick) {
  const auto last_tick =
      static_cast<uint64_t>(Clock::kNever / shared_.tick_nanos);
  due_nanos_ = tick.has_value() && *tick <= last_tick
                   ? static_cast<int64_t>(*tick) * shared_.tick_nanos
                   : Clock::kNever;
  shared_.due.Set(number_, due_nanos_);
}

template <typename Key, typename Value, typename Hash, typename Equal>
absl::Status Shard<Key, Value, Hash, Equal>::CheckInvariants(Room* used) {
  MutexLock lock(&mu_);
  if (auto status = lru_.CheckInvariants(); !status.ok()) return status;
  if (auto status = wheel_.CheckInvariants(); !status.ok()) return status;
  Room sum;
  uint64_t timers = 0;
  for (EntryRef ref = lru_.front(); ref != 0; ref = At(ref).lru.older) {
    const EntryType& entry = At(ref);
    if (ref != replaced_) sum += RoomOf(ref);
    if ((FindLocked(entry.key(), HashOf(ref)) == ref) != (ref != replaced_)) {
      return absl::InternalError("an entry is wrongly in the index, or not");
    }
    if (entry.timer.scheduled() != (entry.deadline() != Clock::kNever)) {
      return absl::InternalError("an entry is wrongly in the wheel, or not");
    }
    if (entry.timer.scheduled() &&
        wheel_.NextWakeup().value() >
            std::max(wheel_.now(),
                     Entries{&pool_, shared_.tick_nanos}.deadline(ref))) {
      return absl::InternalError("the wheel would wake up too late");
    }
    timers += entry.timer.scheduled() ? 1 : 0;
  }
  if (wheel_.CountTimers() != timers) {
    return absl::InternalError("the wheel has other timers than the list");
  }
  const std::optional<uint64_t> wakeup = wheel_.NextWakeup();
  if (wakeup.has_value() && FloorTick(due_nanos_) > *wakeup) {
    return absl::InternalError("the shard is due later than its wheel");
  }
  if (shared_.due.Get(number_) != due_nanos_) {
    return absl::InternalError("the board does not tell when the shard is due");
  }
  if (static_cast<int64_t>(index_.size()) != sum.entries) {
    return absl::InternalError("the index has entries that the list has not");
  }
  if (!(sum == used_)) {
    return absl::InternalError("the charges do not add up to used_");
  }
  *used += sum;
  return absl::OkStatus();
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_IMPL_H_
