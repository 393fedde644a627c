// An independently locked part of a cache: the place where index, wheel and
// LRU list are kept in agreement.
//
// Invariant, whenever the lock is free: an entry of this shard is in the index
// and in the list; it is in the wheel exactly if its deadline is finite; its
// charge is part of used_, which the cache's Budget has given.
//
// No method runs user code under the lock, but for the hash and the equality
// of keys. What is removed goes to the caller's RemovedList, to be disposed of
// without a lock; its room goes to the caller's Claim. No method reclaims,
// evicts and moves within the list more than SharedState::maintenance_budget
// entries under the lock; where that did not suffice, it says so and is called
// again.
//
// Expired entries are found by the wheel, in whole ticks; what is expired for
// less than a tick may still be in the cache, but is returned to nobody.
//
// Threads. Thread-safe. No method takes a second lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_SHARD_H_
#define WHEELCACHE_CACHE_INTERNAL_SHARD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/budget.h"
#include "wheelcache/cache/internal/entry.h"
#include "wheelcache/cache/internal/epoch.h"
#include "wheelcache/cache/internal/index.h"
#include "wheelcache/cache/internal/interleave.h"
#include "wheelcache/cache/internal/jitter.h"
#include "wheelcache/cache/internal/key_hash.h"
#include "wheelcache/cache/internal/loads.h"
#include "wheelcache/cache/internal/recency.h"
#include "wheelcache/cache/internal/removed_list.h"
#include "wheelcache/cache/internal/shared_state.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/internal/contain.h"
#include "wheelcache/wheel/internal/prefetch.h"
#include "wheelcache/wheel/mutex.h"

namespace wheelcache {
namespace internal {

// What became of a new entry.
enum class Publication {
  kDone,           // It is in the cache.
  kSuperseded,     // It comes from a load that a Set or Del has overtaken.
  kMoreToDo,       // The lock was held for long enough: call again.
  kReclaimOthers,  // Other shards have expired entries, which go first.
  kEvictOlder,     // Another shard has an entry that is longer unused.
  kEvictOthers,    // This shard has nothing left to evict.
};

template <typename Key, typename Value, typename Hash, typename Equal>
class Shard {
 public:
  using Shared = SharedState<Key, Value>;
  using Removed = RemovedList<Key, Value>;
  using LoadPtr = std::shared_ptr<Load<Key, Value>>;

  // A new entry on its way into the cache.
  struct Write {
    EntryRef ref = 0;       // Known to nobody else; its pin is the cache's.
    Hash32 hash = 0;        // Of its key.
    int64_t ttl_nanos = 0;  // More than zero; kNever for no end.
    int64_t now_nanos = 0;
    const LoadPtr* load = nullptr;  // Where the value comes from, if a load.
  };

  // The shard's number is its cell on the DueBoard.
  Shard(Shared* shared, int number, const CacheOptions& options)
      : shared_(*shared),
        number_(number),
        index_(shared->expected_entries / shared->shards),
        recency_(&shared->uses, /*exact=*/shared->shards == 1),
        jitter_(options, static_cast<uint32_t>(number)),
        wheel_(Entries{shared}, FloorTick(options.clock->NowNanos())),
        lru_(Entries{shared}) {}

  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  int number() const { return number_; }

  // Returns the entry of `key`, expired or not, or 0. Takes no lock; the entry
  // is protected by the section, which must not be nested.
  template <typename K>
  EntryRef Find(const K& key, Hash32 hash, ReadSection* section) const;

  // Has the processor fetch what a call for this hash will look at first.
  void Prefetch(Hash32 hash) const {
    const ReadSection section;
    index_.Prefetch(hash);
  }

  // Notes that an entry which Find returned in the present section was used.
  // Writes nothing if it is young; never waits for the lock. Returns whether
  // the use is to be counted by the UseClock.
  bool Use(EntryRef ref, Hash32 hash) {
    if (recency_.IsYoung(StampOf(ref))) return false;
    if (!recency_.exact()) {
      SetStamp(ref, recency_.Now());
      return true;
    }
    if (!mu_.TryLock()) return false;
    // It may have left meanwhile; its links are then those of whoever removed
    // it.
    if (index_.Holds(hash, ref)) UseLocked(ref);
    mu_.Unlock();
    return false;
  }

  // Returns the live entry of `key`, pinned, or 0. `use` makes it the most
  // recently used.
  template <typename K>
  EntryRef FindAndPin(const K& key, Hash32 hash, const Clock& clock, bool use) {
    MutexLock lock(&mu_);
    const EntryRef ref = FindLiveLocked(key, hash, clock.NowNanos());
    if (ref == 0) return 0;
    if (use) UseLocked(ref);
    shared_.pool->Pin(ref);
    return ref;
  }

  // Makes the new entry the one of its key, evicting others as needed.
  Publication Publish(const Write& write, Claim* claim, Removed* removed);

  // Removes the entry of `key`, if there is one, for `cause`, or as expired if
  // it is. Returns whether it was live.
  template <typename K>
  bool Remove(const K& key, Hash32 hash, int64_t now_nanos, RemovalCause cause,
              Claim* claim, Removed* removed);

  // Gives the live entry of `key` a new TTL, as in Write, and makes it the most
  // recently used. Returns whether there is one. Reads the clock under the
  // lock: an entry that some reader found expired stays so.
  template <typename K>
  bool Touch(const K& key, Hash32 hash, int64_t ttl_nanos, const Clock& clock);

  // Removes expired entries, within `budget` of fired and cascaded timers.
  // Returns how much of it was used: less than all means nothing due is left.
  uint64_t Reclaim(int64_t now_nanos, uint64_t budget, Claim* claim,
                   Removed* removed) {
    MutexLock lock(&mu_);
    index_.FreeOldTables();
    return ReclaimLocked(now_nanos, budget, claim, removed);
  }

  // Evicts the least recently used until `claim` covers its need or the budget
  // or the shard is empty. Returns whether anything was evicted.
  bool Evict(Claim* claim, Removed* removed);

  // The load of `key` to wait for. If there is none, `load` becomes it, and the
  // caller has to run it and to end it, by Publish or EndLoad.
  LoadPtr JoinLoad(Hash32 hash, int64_t now_nanos, LoadPtr load,
                   EntryRef* found);
  void EndLoad(const LoadPtr& load);

  // When the shard next has something to reclaim.
  int64_t due_nanos() const {
    MutexLock lock(&mu_);
    return due_nanos_;
  }

  // To empty the shards of a cache at one instant, all of them are locked.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void Unlock() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  // Removes all entries and gives their room back, in O(1) of their number; in
  // O(n) where there is no memory for an empty index.
  void TakeAllLocked(Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // In the child of fork(), which still holds the lock that was taken before
  // it, but has none of the threads that were loading. Adds to *used what the
  // entries use.
  void ResetAfterFork(Room* used) ABSL_UNLOCK_FUNCTION(mu_) {
    loads_.ResetAfterFork();
    *used += used_;
    mu_.UnlockInChild();
  }

  // For tests: finds the first broken invariant, and adds to *used what the
  // entries use. O(entries).
  absl::Status CheckInvariants(Room* used);

 private:
  using EntryType = Entry<Key, Value>;

  // How wheel and list find an entry's links.
  struct Entries {
    using Ref = EntryRef;
    TimerLinks<Ref>& links(Ref ref) const {
      return shared->pool->At(ref).timer;
    }
    LruLinks<Ref>& lru_links(Ref ref) const {
      return shared->pool->At(ref).lru;
    }
    Stamp stamp(Ref ref) const {
      return shared->pool->At(ref).stamp.load(std::memory_order_relaxed);
    }
    // Rounded up: a timer that fires is past its deadline.
    uint64_t deadline(Ref ref) const {
      const int64_t nanos = shared->pool->At(ref).deadline();
      const int64_t tick = shared->tick_nanos;
      return static_cast<uint64_t>(nanos / tick + (nanos % tick != 0));
    }
    Shared* shared;
  };

  EntryType& At(EntryRef ref) const { return shared_.pool->At(ref); }
  Stamp StampOf(EntryRef ref) const {
    return At(ref).stamp.load(std::memory_order_relaxed);
  }
  void SetStamp(EntryRef ref, Stamp stamp) const {
    At(ref).stamp.store(stamp, std::memory_order_relaxed);
  }
  Room RoomOf(EntryRef ref) const { return {1, At(ref).charge}; }
  Hash32 HashOf(EntryRef ref) const {
    return HashKey<Hash>(At(ref).key()).for_index;
  }
  uint64_t FloorTick(int64_t nanos) const {
    return static_cast<uint64_t>(nanos / shared_.tick_nanos);
  }

  // The entry of `key`, expired or not, or 0.
  template <typename K>
  EntryRef FindLocked(const K& key, Hash32 hash) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return index_.Find(
        hash, [&](EntryRef ref) { return Equal()(At(ref).key(), key); });
  }

  template <typename K>
  EntryRef FindLiveLocked(const K& key, Hash32 hash, int64_t now_nanos) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const EntryRef ref = FindLocked(key, hash);
    return ref != 0 && !At(ref).ExpiredAt(now_nanos) ? ref : 0;
  }

  Publication MakeRoomLocked(Room need, EntryRef keep, int64_t now_nanos,
                             uint64_t budget, Claim* claim, Removed* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The entries whose links a move or a removal of this one will change: they
  // lie anywhere, and the processor fetches them side by side.
  void PrefetchNeighboursLocked(EntryRef ref) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const LruLinks<EntryRef> lru = At(ref).lru;
    if (lru.newer != 0) PrefetchLineToWrite(&At(lru.newer));
    if (lru.older != 0) PrefetchLineToWrite(&At(lru.older));
    wheel_.PrefetchNeighbours(ref);
  }
  // Has the processor fetch what the eviction of the last entry will look at,
  // if there is to be one, while the caller looks at other things.
  void PrefetchVictimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes the entry the most recently used.
  void UseLocked(EntryRef ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    SetStamp(ref, recency_.NextStamp());
    if (recency_.exact()) lru_.MoveToFront(ref);
  }
  // Puts a new entry at the front.
  void PushFrontLocked(EntryRef ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    SetStamp(ref, recency_.NextStamp());
    lru_.PushFront(ref);
    recency_.SetResolution(lru_.Resolution());
  }

  // Puts the entry in index, list and wheel, in the place of `old` if any.
  void LinkLocked(EntryRef ref, Hash32 hash, EntryRef old, Removed* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void RemoveLocked(EntryRef ref, RemovalCause cause, Claim* claim,
                    Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  EntryRef FindVictimLocked(EntryRef keep, uint64_t* budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnotherHasOlderLocked(EntryRef victim)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  uint64_t ReclaimLocked(int64_t now_nanos, uint64_t budget, Claim* claim,
                         Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  int64_t DeadlineLocked(int64_t now_nanos, int64_t ttl_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleLocked(EntryRef ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetDueLocked(std::optional<uint64_t> tick)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Shared& shared_;
  const int number_;

  // Written under mu_, read by anybody in a ReadSection.
  Index index_;
  Recency recency_;

  mutable Mutex mu_;
  Jitter jitter_ ABSL_GUARDED_BY(mu_);
  BasicTimingWheel<Entries> wheel_ ABSL_GUARDED_BY(mu_);
  LazyLruList<Entries> lru_ ABSL_GUARDED_BY(mu_);
  Loads<Key, Value, Hash, Equal> loads_ ABSL_GUARDED_BY(mu_);
  Room used_ ABSL_GUARDED_BY(mu_);

  // The entry that was prefetched to be evicted, while it is in the shard, and
  // its hash.
  struct Victim {
    EntryRef ref = 0;
    Hash32 hash = 0;
  };
  Victim victim_ ABSL_GUARDED_BY(mu_);

  int next_peer_ ABSL_GUARDED_BY(mu_) = 0;
  // The wheel's next wake-up, and the shard's cell on the DueBoard.
  int64_t due_nanos_ ABSL_GUARDED_BY(mu_) = Clock::kNever;
};

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
EntryRef Shard<Key, Value, Hash, Equal>::Find(const K& key, Hash32 hash,
                                              ReadSection* section) const {
  for (;;) {
    bool covered = true;
    const EntryRef ref = index_.Find(hash, [&](EntryRef candidate) {
      covered = section->Covers();
      return !covered || Equal()(At(candidate).key(), key);
    });
    if (ABSL_PREDICT_TRUE(covered)) return ref;
    section->Announce();
  }
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
  PrefetchVictimLocked();
  const uint64_t paid =
      ReclaimLocked(write.now_nanos, shared_.writer_budget, claim, removed);
  const uint64_t budget = shared_.maintenance_budget - paid;
  EntryRef old = FindLocked(entry.key(), write.hash);
  if (old != 0) PrefetchNeighboursLocked(old);
  if (old != 0 && At(old).ExpiredAt(write.now_nanos)) {
    RemoveLocked(old, RemovalCause::kExpired, claim, removed);
    old = 0;
  }
  Room need = RoomOf(write.ref);
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
  // Relaxed, as charge and key: the index publishes them together.
  entry.deadline_nanos.store(DeadlineLocked(write.now_nanos, write.ttl_nanos),
                             std::memory_order_relaxed);
  loads_.Supersede(entry.key());
  LinkLocked(write.ref, write.hash, old, removed);
  return Publication::kDone;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::PrefetchVictimLocked() {
  const EntryRef last = lru_.back();
  if (last == 0 || last == victim_.ref || shared_.budget.HasRoom()) return;
  victim_ = {last, HashOf(last)};
  index_.Prefetch(victim_.hash);
  PrefetchNeighboursLocked(last);
}

// Removes what is expired, and then what is least recently used but for
// `keep`, until the claim covers `need`.
template <typename Key, typename Value, typename Hash, typename Equal>
Publication Shard<Key, Value, Hash, Equal>::MakeRoomLocked(
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
    if (!lru_.empty()) PrefetchLine(&At(lru_.back()));  // For the next Set.
  }
  return Publication::kDone;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::LinkLocked(EntryRef ref, Hash32 hash,
                                                EntryRef old,
                                                Removed* removed) {
  EntryType& entry = At(ref);
  if (old == 0) {
    index_.Insert(hash, ref);
  } else {
    index_.Replace(hash, old, ref);
    Interleave("publish: between index and list");
    if (old == victim_.ref) victim_ = Victim();
    lru_.Remove(old);
    if (At(old).timer.scheduled()) wheel_.Cancel(old);
    used_ -= RoomOf(old);
    removed->Add(old, RemovalCause::kReplaced);
  }
  used_ += RoomOf(ref);
  PushFrontLocked(ref);
  if (entry.deadline() != Clock::kNever) ScheduleLocked(ref);
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Shard<Key, Value, Hash, Equal>::RemoveLocked(EntryRef ref,
                                                  RemovalCause cause,
                                                  Claim* claim,
                                                  Removed* removed) {
  EntryType& entry = At(ref);
  index_.Erase(ref == victim_.ref ? victim_.hash : HashOf(ref), ref);
  if (ref == victim_.ref) victim_ = Victim();
  Interleave("remove: between index and list");
  lru_.Remove(ref);
  if (entry.timer.scheduled()) wheel_.Cancel(ref);
  used_ -= RoomOf(ref);
  claim->Add(RoomOf(ref));
  removed->Add(ref, cause);
}

template <typename Key, typename Value, typename Hash, typename Equal>
uint64_t Shard<Key, Value, Hash, Equal>::ReclaimLocked(int64_t now_nanos,
                                                       uint64_t budget,
                                                       Claim* claim,
                                                       Removed* removed) {
  if (due_nanos_ > now_nanos) return 0;
  const uint64_t done =
      wheel_.Advance(FloorTick(now_nanos), budget, [&](EntryRef ref) {
        mu_.AssertHeld();
        RemoveLocked(ref, RemovalCause::kExpired, claim, removed);
      });
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
  uint64_t budget = shared_.maintenance_budget;
  bool evicted = false;
  while (budget > 0 && !claim->Cover(claim->need())) {
    const EntryRef victim = FindVictimLocked(/*keep=*/0, &budget);
    if (victim == 0) break;
    RemoveLocked(victim, RemovalCause::kEvicted, claim, removed);
    evicted = true;
    if (budget > 0) --budget;
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
                          victim == 0 ? recency_.Now() : StampOf(victim));
  }
  return victim;
}

// Looks at one other shard, the next in turn each time: shares of the limits
// that have drifted are mended bit by bit.
template <typename Key, typename Value, typename Hash, typename Equal>
bool Shard<Key, Value, Hash, Equal>::AnotherHasOlderLocked(EntryRef victim) {
  if (shared_.shards == 1) return false;
  next_peer_ = (next_peer_ + 1) & (shared_.shards - 1);
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
    shared_.pool->Pin(*found);
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
  if (lru_.empty()) return;
  if (!Contain([this] { index_.Clear(); })) {
    Claim claim(&shared_.budget);
    while (!lru_.empty()) {
      RemoveLocked(lru_.back(), RemovalCause::kDeleted, &claim, removed);
    }
    SetDueLocked(std::nullopt);
    return;
  }
  const EntryRef oldest = lru_.back();
  removed->AddChain(lru_.TakeAll(), oldest, RemovalCause::kDeleted);
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
void Shard<Key, Value, Hash, Equal>::ScheduleLocked(EntryRef ref) {
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
    sum += RoomOf(ref);
    if (FindLocked(entry.key(), HashOf(ref)) != ref) {
      return absl::InternalError("an entry of the list is not in the index");
    }
    if (entry.timer.scheduled() != (entry.deadline() != Clock::kNever)) {
      return absl::InternalError("an entry is wrongly in the wheel, or not");
    }
    if (entry.timer.scheduled() &&
        wheel_.NextWakeup().value() >
            std::max(wheel_.now(), Entries{&shared_}.deadline(ref))) {
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

#endif  // WHEELCACHE_CACHE_INTERNAL_SHARD_H_
