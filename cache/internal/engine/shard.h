// An independently locked part of a cache: the place where the index, the order
// of removal and the loads in flight are kept in agreement.
//
// Invariant, whenever the lock is free: an entry of this shard is in the index
// and in the order; its charge is part of used_, which the cache's Budget has
// given, as it has credit_. One entry that was replaced may still be in the
// order; see RemovalOrder.
//
// Loads. The placeholder of a load (cache/internal/loads/load.h) is in the
// index as well. It takes no room and is in no order, with one exception: one
// that has failed and is remembered is an entry, of which nobody is told.
//
// What is removed goes to the caller's Departures, to be disposed of without a
// lock. No method reclaims, evicts and moves within the list more than
// SharedState::maintenance_budget entries under the lock; where that did not
// suffice, it says so and is called again.
//
// Expired entries are found by the wheel, in whole ticks; one that has expired
// for less than a tick may still be in the cache, but is returned to nobody.
//
// Threads. Thread-safe. No method takes the lock of a second shard, and none
// runs user code under its own, but for the hash and the equality of keys.
// Under it the index takes that of TableMemory.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_record.h"
#include "wheelcache/cache/internal/engine/jitter.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/removal_order.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

class Departures;

// What became of an entry that was to be stored.
enum class StoreOutcome {
  kStored,         // It is in the cache.
  kSuperseded,     // It comes from a load that a Set or Del has overtaken.
  kLost,           // Its condition does not hold.
  kMoreToDo,       // The lock was held for long enough: call again.
  kCallIn,         // The credits of all shards are wanted, before it evicts.
  kReclaimOthers,  // Other shards have expired entries, which go first.
  kEvictOlder,     // Another shard is to: see AnotherShardHasOlder.
  kEvictOthers,    // This shard has nothing left to evict.
};

// Whether a read counts: in the statistics, and as a use of the entry, which
// makes it the most recently used.
enum class Use { kCount, kIgnore };

class WHEELCACHE_EXPORT Shard {
 public:
  // What a conditional write expects of its key.
  struct Condition {
    EntryRef entry = 0;           // Its live entry, pinned; null for none.
    bool keeps_deadline = false;  // The new entry gets that of the old one.
  };

  // A new entry on its way into the cache.
  struct Write {
    EntryRef ref = 0;    // Known to the caller alone; its pin is the cache's.
    KeyHash hash;        // Of its key.
    Room room = {1, 0};  // That it takes.
    int64_t ttl_nanos = 0;  // kNever for no end.
    int64_t now_nanos = 0;
    // The placeholder of the load that the value comes from; or `ref` itself,
    // if it has failed and is to be remembered.
    EntryRef load = 0;
    const Condition* condition = nullptr;  // Of a conditional write.

    void SetWeight(uint64_t bytes) { room.bytes = static_cast<int64_t>(bytes); }
  };

  // What a look-up without a lock has found: an entry, if `ref` is not null.
  struct Found {
    EntryRef ref;
    EntryHeader* entry;

    // Whether this is the answer; if not, FindBeyondHome has it.
    bool decided() const { return covered && rest.empty(); }
    bool covered;  // By the section.
    Index::Rest rest;
  };

  // The shard's number is its cell on the DueBoard.
  Shard(SharedState* shared, int number, const CacheOptions& options);

  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  int number() const { return number_; }

  // Returns the entry with this hash for which `match(entry)` holds, expired or
  // not. Takes no lock; the entry is protected by the section, which must not
  // be nested. Inlined into each read.
  template <typename Match>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Found FindAtHome(Hash32 hash,
                                                const ReadSection& section,
                                                Match&& match) const;

  // For a batch of reads: prefetches the bucket of a hash, and then, in a
  // section, the entries that it has for the hash. Take no lock.
  void PrefetchBucket(Hash32 hash) const { index_.Prefetch(hash); }
  void PrefetchEntries(Hash32 hash) const;

  // Goes on where FindAtHome ended undecided, with a `match` that does the
  // same.
  template <typename Match>
  EntryRef FindBeyondHome(Hash32 hash, Announcement announcement,
                          Index::Rest rest, Match&& match) const;

  // Records that an entry which was found in the present section was used.
  // Writes nothing if it is young; never waits for the lock. Inlined into each
  // hit.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RecordUse(const Found& found, Hash32 hash) {
    std::atomic<Stamp>& stamp = found.entry->stamp;
    const Stamp before = stamp.load(std::memory_order_relaxed);
    const Stamp now = recency_.Now(kOnlyList);
    if (before == now) return;
    if (ABSL_PREDICT_FALSE(!recency_.plain())) {
      if (before == recency_.Now(kMain)) return;
      RecordUseSlowly(found, hash);
      return;
    }
    // The list takes it up when the entry is at its end.
    stamp.store(now, std::memory_order_relaxed);
    uses_.Count(hash);
  }

  // Returns the live entry of the key, pinned, or null.
  EntryRef FindAndPin(const KeyQuery& key, Use use);

  // Asks for the cache lines that a Set with this hash will touch first. Takes
  // no lock.
  void PrefetchForStore(Hash32 hash) const;

  // Makes a new entry the one of its key, evicting others as needed.
  // REQUIRES: its TTL is more than zero.
  StoreOutcome TryStore(const Write& write, Departures* departures);

  // Removes the entry of the key, if there is one, for `cause`, or as expired
  // if it is. Returns whether it was live.
  bool Remove(const KeyQuery& key, RemovalCause cause, Departures* departures);

  // Whether the live entry of the key is `expected`, which is pinned, or null
  // for none. This and what follows read the clock under the lock: an entry
  // that some reader found expired stays so.
  bool Holds(const KeyQuery& key, EntryRef expected);

  // Removes the live entry of the key for `cause` if it is `expected`, as in
  // Holds. Returns whether it was; true, too, if none was expected nor there.
  bool RemoveIf(const KeyQuery& key, EntryRef expected, RemovalCause cause,
                Departures* departures);

  // Removes the live entry of the key as deleted. Returns it, pinned, or null.
  // Counts as a hit or miss.
  EntryRef Take(const KeyQuery& key, Departures* departures);

  // How many generations ago an entry of the shard was used last, plus
  // kMainRank if it is in a main list: the greater, the earlier it has to be
  // stored anew for the same order. Takes no lock; a hint.
  static constexpr uint32_t kMainRank = 1 << 30;
  uint32_t RankOf(const EntryHeader& entry) const;

  // Whether there is no entry, nor a load in flight.
  bool empty() const {
    MutexLock lock(&mu_);
    return index_.size() == 0;
  }

  // Calls `look(index)` under the lock, for a few buckets at a time.
  void Look(absl::FunctionRef<void(const Index&)> look) const {
    MutexLock lock(&mu_);
    look(index_);
  }

  // Supersedes all loads that began before, and forgets failures. O(1): what
  // was added in another era does not count.
  void SupersedeLoads() {
    MutexLock lock(&mu_);
    era_.store(era_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  }

  // Changes the number of entries that the index is made for, and the room that
  // the shard is expected to have.
  void Reserve(uint64_t entries, Room share) {
    MutexLock lock(&mu_);
    index_.Reserve(entries);
    order_.SetShare(share);
  }

  // Gives the live entry of the key a new TTL, as in Write, and makes it the
  // most recently used. Returns whether there is one.
  bool Touch(const KeyQuery& key, int64_t ttl_nanos);

  // Removes expired entries, within `budget` of fired and cascaded timers.
  // Returns how much of it was used: less than all means that nothing due is
  // left.
  uint64_t Reclaim(int64_t now_nanos, uint64_t budget, Departures* departures);

  // Lets the other shards know how old the least recently used entry is.
  void PublishOldest(Departures* departures);

  // Evicts the least recently used until the claim covers its need or the
  // budget or the shard is empty; if it is scan-resistant and has peers, one
  // entry. The claim gets the shard's credit, too. Returns whether it got
  // anything, or covers its need.
  bool Evict(Departures* departures);

  // Hands the shard's credit over to the claim.
  void CallIn(Claim* claim) {
    MutexLock lock(&mu_);
    claim->CallIn(&credit_);
  }

  // The room that the entries take. Takes no lock.
  Room used() const { return used_.Get(); }

  // Evicts the least recently used until `bytes` have left, or the budget or
  // the shard is empty. Returns the bytes that have left.
  int64_t EvictBytes(int64_t bytes, Departures* departures);

  // Moves entries out of condemned memory: those that the index has from
  // *bucket on. Advances *bucket, to the largest number if nothing is left.
  // Returns the number of entries moved, one more for each 512 bytes of a
  // larger one: up to a bucket's more than the budget.
  uint64_t MoveCondemned(size_t* bucket, uint64_t budget,
                         Departures* departures);

  // A load that is to begin.
  struct NewLoad {
    static constexpr int64_t kNoEntry = -1;
    EntryRef placeholder = 0;
    int64_t max_age_nanos = Clock::kNever;  // An older entry does not count.
    EntryRef refreshes = 0;  // The pinned entry that it refreshes, or null.
    bool at_once = false;    // Does not wait for the retry of a refresh.
  };

  // Begins a load, if the key has none: then its placeholder comes into the
  // index, which takes over a pin, and the caller leads it, and ends it by
  // TryStore or EndLoad. A refresh is queued. Returns the placeholder; or,
  // pinned, that of the load to wait for, or else the live entry. Null for a
  // refresh that does not begin: there is a load, or the entry was removed.
  EntryRef BeginLoad(const KeyQuery& key, const NewLoad& load,
                     Departures* departures);

  // A queued refresh begins to run, and others may join it. Returns false if it
  // was superseded, or if a load has taken its place.
  bool StartRefresh(EntryRef placeholder, Hash32 of_key);

  // How a load has ended that was not stored.
  struct EndedLoad {
    EntryRef placeholder;
    KeyHash of_key;
    int64_t remember_nanos;  // How long it answers callers that come later.
    int64_t retry_nanos;     // How long the next refresh of the value waits.
  };
  // Removes the placeholder, unless it keeps the next refresh waiting.
  void EndLoad(const EndedLoad& ended, Departures* departures);

  // Whether a placeholder that was found without the lock keeps the value of
  // its key from being refreshed.
  bool KeepsFromRefresh(EntryRef placeholder) const {
    return !IsOver(placeholder, clock_.NowNanos());
  }

  // When the shard next has something to reclaim.
  int64_t due_nanos() const {
    MutexLock lock(&mu_);
    return order_.due_nanos();
  }

  // To empty the shards of a cache at one instant, all of them are locked.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void Unlock() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  // Removes all entries and gives their room back, in O(1) of their number; in
  // O(n) where there is no memory for an empty index.
  void TakeAllLocked(Departures* departures) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Where in their lives entries were evicted. To be read without the lock.
  const EvictionRecord& eviction_record() const { return eviction_record_; }

  // For tests: finds the first broken invariant, and adds to *taken what the
  // shard has taken from the budget. O(entries).
  absl::Status CheckInvariants(Room* taken);

 private:
  EntryHeader& At(EntryRef ref) const { return pool_.At(ref); }
  Room RoomOf(EntryRef ref) const { return {1, pool_.Charge(ref)}; }

  // RecordUse of a marked entry, in exact mode, or with two lists. Out of line,
  // to keep that short.
  ABSL_ATTRIBUTE_NOINLINE void RecordUseSlowly(const Found& found, Hash32 hash);
  // Returns whether the lock was free.
  bool TryMoveToFront(EntryRef ref, Hash32 hash);

  // Makes sure that the index has a cell for one more. May throw.
  void ReserveCellLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    index_.Reserve([this](EntryRef ref) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return CellHashOf(ref);
    });
  }
  // The hash under which an entry is in the index.
  Hash32 CellHashOf(EntryRef ref) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Hash32 of_key = order_.HashOf(ref);
    return At(ref).is_placeholder() ? PlaceholderHash(of_key) : of_key;
  }
  template <typename Query>
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef FindLocked(const Query& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EntryRef FindLiveLocked(const KeyQuery& key, int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // One call of TryStore.
  struct Step {
    const Write& write;
    Departures* departures;
    uint64_t budget;   // What it may still reclaim, evict and move.
    Room need;         // Beyond that of `old`.
    EntryRef old = 0;  // The entry that it replaces.
    int64_t old_charge = 0;
    bool old_is_plain = false;  // See EntryPool::IsPlain.
  };
  // Whether the condition of the write holds, given the entry of its key, live
  // or expired. Out of line, to keep TryStore short.
  ABSL_ATTRIBUTE_NOINLINE bool MeetsConditionLocked(const Write& write,
                                                    EntryRef old,
                                                    int64_t now_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ABSL_ATTRIBUTE_ALWAYS_INLINE StoreOutcome MakeRoomLocked(Step* step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void LinkLocked(const Step& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void RemoveLocked(EntryRef ref, RemovalCause cause, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (LeavesAsLoadLocked(ref, departures)) return;
    RemoveEntryLocked(ref, cause, departures);
  }
  void RemoveEntryLocked(EntryRef ref, RemovalCause cause,
                         Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void EvictLocked(EntryRef victim,
                                                EvictionRecord::Time now,
                                                Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (LeavesAsLoadLocked(victim, departures)) return;
    eviction_record_.Add(At(victim), now);
    RemoveEntryLocked(victim, RemovalCause::kEvicted, departures);
  }
  // What most Sets find, that nothing is due, is inlined.
  uint64_t ReclaimLocked(int64_t now_nanos, uint64_t budget,
                         Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (order_.due_nanos() > now_nanos) return 0;
    return ReclaimDueLocked(now_nanos, budget, departures);
  }
  uint64_t ReclaimDueLocked(int64_t now_nanos, uint64_t budget,
                            Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MoveLocked(EntryRef ref, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets the index shrink, if it has become too large, as far as `budget`
  // entries to copy allow. Returns how much of that was used.
  uint64_t ShrinkIndexLocked(uint64_t budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t DeadlineLocked(int64_t now_nanos, int64_t ttl_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keep the room that a removal, and a Set, has left over, as far as the shard
  // may. Most Sets leave none.
  void KeepCreditLocked(Claim* claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (claim->empty()) return;
    claim->LeaveTo(&credit_, shared_.budget.most_credit());
  }
  void KeepRestLocked(Claim* claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (claim->empty()) return;
    claim->LeaveTo(&credit_, shared_.budget.most_rest());
  }

  // Placeholders: shard_loads.cc.

  Load& LoadAt(EntryRef placeholder) const {
    return static_cast<Load&>(*pool_.LoadOf(placeholder));
  }
  bool IsOfThisEra(EntryRef placeholder) const {
    return LoadAt(placeholder).in_shard.era.load(std::memory_order_relaxed) ==
           era_.load(std::memory_order_relaxed);
  }
  // Whether it counts no longer.
  bool IsOver(EntryRef placeholder, int64_t now_nanos) const {
    return At(placeholder).ExpiredAt(now_nanos) || !IsOfThisEra(placeholder);
  }
  bool IsCurrentLocked(EntryRef placeholder, Hash32 of_key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  EntryRef FindPlaceholderLocked(const KeyQuery& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemovePlaceholderLocked(EntryRef placeholder, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EnterRingLocked(EntryRef placeholder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveRingLocked(EntryRef placeholder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Supersedes the load of the key, or forgets its failure.
  void SupersedeLocked(const KeyQuery& key, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (ABSL_PREDICT_FALSE(placeholders_ != 0)) ForgetLocked(key, departures);
  }
  void ForgetLocked(const KeyQuery& key, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Before an entry is removed. Returns whether it was a placeholder, and is
  // removed by this.
  bool LeavesAsLoadLocked(EntryRef ref, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ABSL_PREDICT_FALSE(placeholders_ != 0) &&
           LeavesAmongLoadsLocked(ref, departures);
  }
  bool LeavesAmongLoadsLocked(EntryRef ref, Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ABSL_ATTRIBUTE_NOINLINE StoreOutcome RememberLocked(const Write& write,
                                                      Departures* departures)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  SharedState& shared_;
  EntryPool& pool_;  // Of shared_.
  const Clock& clock_;
  EvictionRecord& eviction_record_;  // Written under mu_.
  const int number_;
  // Written under mu_, by few: of placeholders, those that are failures and so
  // in the order; and how often all were superseded.
  int32_t failures_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<uint32_t> era_{0};

  // Written under mu_, read by any thread in a ReadSection.
  Index index_;
  Recency recency_;

  // From here on, what only the holder of the lock looks at, away from what
  // readers do. PrefetchForStore prefetches these lines, all of it on x86-64.
  static constexpr size_t kWriterLines = 8;
  alignas(ABSL_CACHELINE_SIZE) mutable Mutex mu_;
  Jitter jitter_ ABSL_GUARDED_BY(mu_);
  // The number of those in the index, and the newest of those that are no
  // failures: a ring, in which the oldest is the newer one of the newest.
  int32_t placeholders_ ABSL_GUARDED_BY(mu_) = 0;
  EntryRef newest_load_ ABSL_GUARDED_BY(mu_) = 0;
  AtomicRoom used_;                          // Changed under mu_.
  UseCount uses_;                            // Hits count here, too.
  Room credit_ ABSL_GUARDED_BY(mu_);         // See Budget.
  int64_t untold_ ABSL_GUARDED_BY(mu_) = 0;  // See Advisor.
  RemovalOrder order_ ABSL_GUARDED_BY(mu_);
};

template <typename Match>
inline Shard::Found Shard::FindAtHome(Hash32 hash, const ReadSection& section,
                                      Match&& match) const {
  EntryHeader* entry = nullptr;
  bool covered = true;
  Index::Rest rest;
  const EntryRef ref = index_.FindAtHome(
      hash, &rest, [&](EntryRef candidate) ABSL_ATTRIBUTE_ALWAYS_INLINE {
        covered = section.Covers();
        entry = &At(candidate);
        return !covered || match(*entry);
      });
  return {ref, entry, covered, rest};
}

template <typename Match>
EntryRef Shard::FindBeyondHome(Hash32 hash, Announcement announcement,
                               Index::Rest rest, Match&& match) const {
  bool covered = true;
  const auto covered_match = [&](EntryRef candidate) {
    covered = announcement.Covers();
    return !covered || match(At(candidate));
  };
  if (!rest.empty()) {
    const EntryRef ref = Index::FindBeyondHome(rest, hash, covered_match);
    if (covered) return ref;
  }
  for (;;) {
    announcement.Announce();
    covered = true;
    const EntryRef ref = index_.Find(hash, covered_match);
    if (covered) return ref;
  }
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_SHARD_H_
