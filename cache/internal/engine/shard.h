// An independently locked part of a cache: the place where index, wheel and
// LRU list are kept in agreement.
//
// Invariant, whenever the lock is free: an entry of this shard is in the index
// and in the list; it is in the wheel exactly if its deadline is finite; its
// charge is part of used_, which the cache's Budget has given. One entry that
// was replaced may still be in list and wheel; see replaced_.
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

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/jitter.h"
#include "wheelcache/cache/internal/engine/loads.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/removed_list.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/base/prefetch.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"

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
    Room room;              // That it takes.
    int64_t ttl_nanos = 0;  // More than zero; kNever for no end.
    int64_t now_nanos = 0;
    const LoadPtr* load = nullptr;  // Where the value comes from, if a load.
  };

  // The shard's number is its cell on the DueBoard.
  Shard(Shared* shared, int number, const CacheOptions& options)
      : shared_(*shared),
        pool_(*shared->pool),
        number_(number),
        index_(&shared->tables, shared->expected_entries / shared->shards),
        recency_(&shared->uses, /*exact=*/shared->shards == 1),
        jitter_(options, static_cast<uint32_t>(number)),
        lru_(Entries{&pool_, shared->tick_nanos}),
        wheel_(Entries{&pool_, shared->tick_nanos},
               FloorTick(options.clock->NowNanos())) {}

  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  int number() const { return number_; }

  // Returns the entry of `key`, expired or not, or null. Takes no lock; the
  // entry is protected by the section, which must not be nested. Always in the
  // line of the one caller, which a hit spends most of its time in.
  struct Found {
    EntryRef ref = 0;
    Entry<Key, Value>* entry = nullptr;  // The same, to spare another At().
  };
  template <typename K>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Found Find(const K& key, Hash32 hash,
                                          ReadSection* section) const;

  // Has the processor fetch what a Set for this hash will look at first.
  void Prefetch(Hash32 hash) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    PrefetchToWrite(&mu_, &wheel_);
    wheel_.Prefetch();
    recency_.Prefetch();
    const ReadSection section;
    index_.Prefetch(hash);
  }

  // Notes that an entry which Find returned in the present section was used.
  // Writes nothing if it is young; never waits for the lock. Returns whether
  // the use is to be counted by the UseClock. In the line of a hit, as Find.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Use(const Found& found, Hash32 hash) {
    const Stamp now = recency_.Now();
    std::atomic<Stamp>& stamp = found.entry->stamp;
    if (recency_.IsYoung(stamp.load(std::memory_order_relaxed), now)) {
      return false;
    }
    if (recency_.exact() && TryMoveToFront(found.ref, hash)) return false;
    // The list takes it up when the entry is at its end.
    stamp.store(now, std::memory_order_relaxed);
    return true;
  }

  // Returns the live entry of `key`, pinned, or 0. `use` makes it the most
  // recently used.
  template <typename K>
  EntryRef FindAndPin(const K& key, Hash32 hash, const Clock& clock, bool use) {
    MutexLock lock(&mu_);
    const EntryRef ref = FindLiveLocked(key, hash, clock.NowNanos());
    if (ref == 0) return 0;
    if (use) UseLocked(ref);
    pool_.Pin(ref);
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
    FinishReplacementLocked(removed);
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
    TimerLinks<Ref>& links(Ref ref) const { return pool->At(ref).timer; }
    LruLinks<Ref>& lru_links(Ref ref) const { return pool->At(ref).lru; }
    Stamp stamp(Ref ref) const {
      return pool->At(ref).stamp.load(std::memory_order_relaxed);
    }
    // Rounded up: a timer that fires is past its deadline.
    uint64_t deadline(Ref ref) const {
      const int64_t nanos = pool->At(ref).deadline();
      return static_cast<uint64_t>(nanos / tick_nanos +
                                   (nanos % tick_nanos != 0));
    }
    EntryPool<Key, Value>* pool;
    int64_t tick_nanos;
  };

  EntryType& At(EntryRef ref) const { return pool_.At(ref); }
  Stamp StampOf(EntryRef ref) const {
    return At(ref).stamp.load(std::memory_order_relaxed);
  }
  void SetStamp(EntryRef ref, Stamp stamp) const {
    At(ref).stamp.store(stamp, std::memory_order_relaxed);
  }
  Room RoomOf(EntryRef ref) const { return {1, pool_.Charge(ref)}; }
  Hash32 HashOf(EntryRef ref) const {
    return HashKey<Hash>(At(ref).key()).for_index;
  }
  uint64_t FloorTick(int64_t nanos) const {
    return static_cast<uint64_t>(nanos / shared_.tick_nanos);
  }

  // As Find, which has looked where a look-up begins: goes on in the rest or,
  // if that is empty, begins again, for what was found is not covered. Out of
  // the line of Find, which it would make longer.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE Found FindInRest(const K& key, Hash32 hash,
                                           ReadSection* section,
                                           Index::Rest rest) const;

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

  // Always in the line of the one caller, as LinkLocked: GCC does that by
  // itself with what is called once, but not with a template's.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Publication MakeRoomLocked(
      Room need, EntryRef keep, int64_t now_nanos, uint64_t budget,
      Claim* claim, Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The entries whose links a move or a removal of one will change: they lie
  // anywhere, and the processor fetches them side by side.
  struct Neighbours {
    LruLinks<EntryRef> lru;
    TimerLinks<EntryRef> timer;
  };
  Neighbours NeighboursOf(EntryRef ref) const {
    return {At(ref).lru, At(ref).timer};
  }
  void PrefetchLocked(const Neighbours& neighbours) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto [newer, older] = neighbours.lru;
    if (newer != 0) PrefetchLineToWrite(&At(newer));
    if (older != 0) PrefetchLineToWrite(&At(older));
    wheel_.PrefetchNeighbours(neighbours.timer);
  }
  // Has the processor fetch what the eviction of the last entry will look at,
  // if there is to be one. Called after each eviction, it lets the next Set
  // find all of that: the entry itself was fetched as the neighbour of the one
  // before.
  void PrefetchVictimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What was fetched for the next Set is where the thread ran that asked for
  // it. Called first by a Set of `ref`, it has that fetched again if this is
  // another one, and what that one wrote: the front of the list, and the slot.
  void PrefetchAfterAnotherThreadLocked(EntryRef ref)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns whether the lock was free. Out of the line of Use, which it would
  // make longer.
  ABSL_ATTRIBUTE_NOINLINE bool TryMoveToFront(EntryRef ref, Hash32 hash) {
    if (!mu_.TryLock()) return false;
    // It may have left meanwhile; its links are then those of whoever removed
    // it.
    if (index_.Holds(hash, ref)) UseLocked(ref);
    mu_.Unlock();
    return true;
  }

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
  ABSL_ATTRIBUTE_ALWAYS_INLINE void LinkLocked(EntryRef ref, Hash32 hash,
                                               EntryRef old, Removed* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void RemoveLocked(EntryRef ref, RemovalCause cause, Claim* claim,
                    Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes an entry that the index no longer has out of list and wheel.
  void UnlinkLocked(EntryRef ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same for replaced_. To be called before anything looks at the end of
  // the list, or has timers fire.
  void FinishReplacementLocked(Removed* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  EntryRef FindVictimLocked(EntryRef keep, uint64_t* budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnotherHasOlderLocked(EntryRef victim)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // As Reclaim. What most Sets find, that nothing is due, is found without a
  // call.
  uint64_t ReclaimLocked(int64_t now_nanos, uint64_t budget, Claim* claim,
                         Removed* removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (due_nanos_ > now_nanos) return 0;
    return ReclaimDueLocked(now_nanos, budget, claim, removed);
  }
  uint64_t ReclaimDueLocked(int64_t now_nanos, uint64_t budget, Claim* claim,
                            Removed* removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  int64_t DeadlineLocked(int64_t now_nanos, int64_t ttl_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleLocked(EntryRef ref) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetDueLocked(std::optional<uint64_t> tick)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Shared& shared_;
  EntryPool<Key, Value>& pool_;  // Of shared_.
  const int number_;

  // Written under mu_, read by anybody in a ReadSection.
  Index index_;
  Recency recency_;

  // From here on, what only the holder of the lock looks at, away from what
  // readers do. What each Set needs comes first: Prefetch fetches it together.
  alignas(ABSL_CACHELINE_SIZE) mutable Mutex mu_;
  Jitter jitter_ ABSL_GUARDED_BY(mu_);
  LazyLruList<Entries> lru_ ABSL_GUARDED_BY(mu_);
  Loads<Key, Value, Hash, Equal> loads_ ABSL_GUARDED_BY(mu_);
  Room used_ ABSL_GUARDED_BY(mu_);

  // The entry that was prefetched to be evicted, while it is in the shard, its
  // hash, and the neighbours that it had.
  struct Victim {
    EntryRef ref = 0;
    Hash32 hash = 0;
    Neighbours neighbours;
  };
  Victim victim_ ABSL_GUARDED_BY(mu_);

  // The entry that was replaced last, while it is still in list and wheel, or
  // 0. The entries beside it are on their way from memory; the next Set has
  // them without waiting. It keeps its block meanwhile, so this is done with
  // small ones alone; and only where nobody notices, for there is no listener
  // to tell, and nothing but the block to free.
  EntryRef replaced_ ABSL_GUARDED_BY(mu_) = 0;
  Neighbours beside_replaced_ ABSL_GUARDED_BY(mu_);  // When it was replaced.
  static constexpr size_t kMostReplacedBytes = 512;

  // The ThreadIndex() of who last had something fetched for the next Set.
  size_t last_writer_ ABSL_GUARDED_BY(mu_) = 0;
  int next_peer_ ABSL_GUARDED_BY(mu_) = 0;
  // The wheel's next wake-up, and the shard's cell on the DueBoard.
  int64_t due_nanos_ ABSL_GUARDED_BY(mu_) = Clock::kNever;
  BasicTimingWheel<Entries> wheel_ ABSL_GUARDED_BY(mu_);
};

}  // namespace internal
}  // namespace wheelcache

#include "wheelcache/cache/internal/engine/shard_impl.h"

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_
