// wheelcache: an in-process cache with a TTL for each key.
//
//   wheelcache::CacheOptions options;
//   options.max_entries = 100'000;
//   options.default_ttl = absl::Minutes(5);
//   auto cache = wheelcache::Cache<std::string, User>::Create(options);
//   if (!cache.ok()) return cache.status();
//
//   (*cache)->Set("alice", LoadUser("alice"));
//   (*cache)->Set("bob", LoadUser("bob"), absl::Seconds(30));
//   if (std::optional<User> user = (*cache)->Get("alice")) Greet(*user);
//   (*cache)->Del("bob");
//
// Guarantees. A value is not returned at its deadline or later. Never do more
// than max_entries entries or max_bytes bytes live in the cache. A Set that
// needs room takes that of expired entries first, of the least recently used
// after that. The memory of expired entries comes back without anybody's call,
// within CacheOptions::reclaim_delay, and nothing wakes up while nothing is
// due.
//
// Threads. Thread-safe. No user code (listener, weigher, loader; constructor
// and destructor of keys and values) runs under a lock, so all of it may call
// this cache and others; only the hash and the equality of keys must not.
//
// Errors. A miss is an empty optional or handle; only Create and GetOrLoad
// return a Status. A call lets through what the constructors, the weigher, the
// loader or the visitor that it runs throw; and Set, GetOrLoad and the first
// read of a thread throw std::bad_alloc where memory runs out, which ends a
// program without exceptions. Then no value was stored, replaced or deleted;
// expired ones may have gone, and if another thread took the room that a Set
// had evicted for, what it evicted. Only a GetOrLoad that cannot copy its
// result for those who asked may have stored it. Who waits for a load that
// throws gets an Unknown Status. Exceptions of the listener end here and are
// counted. Del, Touch, Clear, handles and the destructor need no memory and do
// not throw, nor does RunMaintenance but for stats_log. Hashes, comparisons and
// destructors must not throw. While a key is in the cache, its hash must stay
// the same: to remove or replace one that its hash does not lead to ends the
// program, with a message.
//
// Cost. Every call is O(1) expected, plus what it reclaims and evicts, of which
// it does at most CacheOptions::maintenance_budget at a time under a lock; and
// a Set of a new key copies up to 24 references while the index grows. An entry
// takes 40 bytes and its share of an index beside key and value, and 4 more
// where a weigher is given. A std::string lies in it as its length and its
// characters, and is shown as a std::string_view; see cache/view.h. All entries
// of a cache share memory of up to 32 GiB, without what keys and values of over
// 16 KiB take elsewhere.
//
// Life. Destroy a cache when no call runs in it; its background work ends with
// it. Values are destroyed, listeners not called. A Handle outlives it.
//
// fork(). The child may go on using the cache.

#ifndef WHEELCACHE_CACHE_CACHE_H_
#define WHEELCACHE_CACHE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/shard_array.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/engine/stats_logger.h"
#include "wheelcache/cache/internal/entry/age.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/reaper.h"

namespace wheelcache {

template <typename Key, typename Value, typename Hash = DefaultHash<Key>,
          typename Equal = DefaultEqual<Key>>
class Cache final {
 public:
  // The user's code that a cache calls; see Threads above. Each may be empty.
  struct Hooks {
    // Returns the bytes that key and value take; see cache/weigh.h.
    std::function<uint64_t(View<Key>, View<Value>)> weigher;

    // Is told of each entry that has left; see cache/removal.h. An exception
    // ends here, and is counted.
    std::function<void(View<Key>, View<Value>, RemovalCause)> on_removal;
  };

  // Pins an entry; see cache/handle.h.
  using Handle = CacheHandle<Key, Value>;

  // Returns a cache, or InvalidArgument with the field, the value and the rule
  // that it breaks.
  static absl::StatusOr<std::unique_ptr<Cache>> Create(CacheOptions options,
                                                       Hooks hooks = {});

  ~Cache();

  // Stores a value under a key, in the place of the one it had. Returns
  // whether it is in the cache. It is not, and neither is the old one, if the
  // TTL is zero or less, or if the entry is larger than max_bytes or 4 GiB.
  template <typename K = Key, typename V = Value>
  bool Set(K&& key, V&& value) {
    return Set(std::forward<K>(key), std::forward<V>(value),
               options_.default_ttl);
  }
  template <typename K = Key, typename V = Value>
  bool Set(K&& key, V&& value, absl::Duration ttl);

  // Returns a copy of the live value, which becomes the most recently used.
  template <typename K>
  std::optional<Value> Get(const K& key) {
    std::optional<Value> value = Copy(key, Recency::kUse);
    CountRead(value.has_value());
    return value;
  }

  // As Get, without a copy: pins the value.
  template <typename K>
  Handle Find(const K& key);

  // As Get, without a copy or a pin: calls `visit` with the value and returns
  // true, or returns false. For short functions: while one runs, what leaves
  // the cache is not destroyed.
  template <typename K, typename Function>
  bool Visit(const K& key, Function&& visit) {
    const bool hit =
        Read(key, Recency::kUse, [&](EntryRef, const EntryType& entry) {
          std::forward<Function>(visit)(entry.value());
        });
    CountRead(hit);
    return hit;
  }

  // As Get, but counts as no use and in no statistics.
  template <typename K>
  std::optional<Value> Peek(const K& key) const {
    return Copy(key, Recency::kKeep);
  }

  // Returns whether the key has a live value. Counts as no use.
  template <typename K>
  bool Contains(const K& key) const {
    return Read(key, Recency::kKeep, [](EntryRef, const EntryType&) {});
  }

  // Returns how long the value will live, infinite if it does not expire, or
  // nothing if there is none. Counts as no use.
  template <typename K>
  std::optional<absl::Duration> TimeToLive(const K& key) const {
    int64_t deadline = 0;
    while (Read(key, Recency::kKeep, [&](EntryRef, const EntryType& entry) {
      deadline = entry.deadline();
    })) {
      if (deadline == Clock::kNever) return absl::InfiniteDuration();
      internal::Interleave("time to live: between deadline and clock");
      const absl::Duration left = absl::Nanoseconds(deadline) - clock_.Now();
      if (left > absl::ZeroDuration()) return left;
      // Looks again: it was a later deadline's turn, or the value has expired.
    }
    return std::nullopt;
  }

  // Returns the live value; or calls `loader`, stores what it returns, and
  // returns that. Calls for the same key that come meanwhile wait and get the
  // same result, which if it is an error is not stored. A Set, Del or Clear
  // that comes while the loader runs wins: the result is not stored.
  // A loader that asks for its own key gets FailedPrecondition.
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::FunctionRef<absl::StatusOr<Value>()> loader) {
    return GetOrLoad(key, options_.default_ttl, loader);
  }
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::Duration ttl,
      absl::FunctionRef<absl::StatusOr<Value>()> loader);

  // Gives the live value a new TTL from now on, and makes it the most recently
  // used. Returns whether there is one. A TTL of zero or less deletes it.
  template <typename K>
  bool Touch(const K& key, absl::Duration ttl);

  // Removes the key's value. Returns whether it had a live one.
  template <typename K>
  bool Del(const K& key) {
    return Remove(key, RemovalCause::kDeleted);
  }

  // Removes all values that are there at one instant during the call.
  void Clear() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // Of a number of locks.

  // What is in the cache, expired entries that are yet to be reclaimed
  // included. Cheap, and never more than the limits.
  int64_t size() const { return shared_.budget.used().entries; }
  int64_t bytes() const { return shared_.budget.used().bytes; }

  CacheStats stats() const;
  const CacheOptions& options() const { return options_; }

  // Reclaims what is due, for those who run without a reaper: at most `budget`
  // entries removed and timers moved. Returns how many it was; less than
  // `budget` means that nothing due is left.
  int64_t RunMaintenance(int64_t budget = std::numeric_limits<int64_t>::max());

  // When RunMaintenance next has something to do, as a reading of the clock;
  // infinite if it has not. Includes what readers may still hold back, at which
  // it is to look now and then.
  absl::Duration NextDeadline() const;

  // Ends the background work, for good, and waits for what runs of it, unless
  // called by that. The cache stays of use: Set and RunMaintenance reclaim.
  void Stop() {
    if (options_.reaper != nullptr) options_.reaper->Unregister(&client_);
  }

  // Whether the reaper serves this cache, or why it could not be had.
  const absl::Status& reaper_status() const { return reaper_status_; }

  // For tests: finds the first broken invariant. Nobody else may be in the
  // cache. O(entries).
  absl::Status CheckInvariants();

 private:
  using ShardType = internal::Shard<Key, Value, Hash, Equal>;
  using Removed = typename ShardType::Removed;
  using Shards = internal::ShardArray<ShardType>;
  using LoadPtr = typename ShardType::LoadPtr;
  using Claim = internal::Claim;
  using EntryRef = internal::EntryRef;
  using EntryType = internal::Entry<Key, Value>;

  // The reaper's view of the cache.
  class Client final : public Reaper::Client {
   public:
    explicit Client(Cache* cache) : cache_(*cache) {}
    int64_t RunDue(int64_t now_nanos) override {
      return cache_.RunDue(now_nanos);
    }

   private:
    Cache& cache_;
  };

  // Where a key belongs.
  struct Place {
    ShardType& shard;
    internal::Hash32 hash;
  };

  // Ends a load in every case, a loader's exception included.
  class LoadScope;

  // What a call removes; disposed of in every case.
  class Removals;

  Cache(CacheOptions options, Hooks hooks);

  template <typename K>
  ABSL_ATTRIBUTE_ALWAYS_INLINE Place PlaceOf(const K& key) const;

  enum class Recency { kUse, kKeep };

  // Calls `on_hit(ref, entry)` with the live entry of the key, and protects the
  // entry meanwhile. Returns whether there is one. Takes no lock, unless in a
  // cache of one shard, where the entry has to become the most recently used:
  // then not if that would block; or within another read of the thread, or
  // during a Clear.
  template <typename K, typename OnHit>
  bool Read(const K& key, Recency recency, OnHit&& on_hit) const;

  // In the line of Read, as all that a hit runs: see docs/decisions.md.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool IsLive(const EntryType& entry) const;

  template <typename K>
  std::optional<Value> Copy(const K& key, Recency recency) const {
    std::optional<Value> value;
    Read(key, recency, [&](EntryRef, const EntryType& entry) {
      value.emplace(entry.value());
    });
    return value;
  }

  void CountRead(bool hit) {
    counters_.Add(hit ? internal::Count::kHits : internal::Count::kMisses);
  }

  // Has the count of uses go on, a stride at a time.
  void CountUse() const {
    constexpr uint32_t kStride = internal::UseClock::kStride;
    if (counters_.Add(internal::Count::kStamped) % kStride == 0) {
      shared_.uses.Advance(kStride);
    }
  }

  template <typename K>
  bool Remove(const K& key, RemovalCause cause);

  // Stores an entry that was made, or destroys it.
  bool Store(EntryRef ref, Place place, absl::Duration ttl,
             const LoadPtr* load);
  // Returns whether the entry is in the cache; then `own` is no longer the
  // caller's.
  bool Publish(const typename ShardType::Write& write, ShardType& home,
               EntryRef* own);
  // Always in the line of the one caller, which each Set runs through.
  ABSL_ATTRIBUTE_ALWAYS_INLINE std::optional<uint32_t> Weigh(EntryRef ref);

  void ReclaimAll(int64_t now_nanos, Removals* removals);
  ShardType& OldestBut(const ShardType& home) const;
  void EvictFromOthers(const ShardType& home, Removals* removals);

  // Tells the listener of what was removed, and destroys it. No lock is held.
  void Dispose(Removed* removed);

  int64_t RunDue(int64_t now_nanos);
  // When somebody should look at what waits in limbo.
  int64_t LimboDue(int64_t now_nanos) const {
    return Clock::NanosAfter(now_nanos, limbo_delay_nanos_);
  }
  void WakeReaperFor(const ShardType& shard, int64_t now_nanos);

  friend class internal::ForkRegistration;
  void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  static int64_t ToNanos(absl::Duration ttl) {
    return Clock::NanosAfter(0, ttl);
  }

  const CacheOptions options_;
  const Hooks hooks_;
  Clock& clock_;
  const int64_t coarse_lag_nanos_;
  const int64_t reclaim_delay_nanos_;
  const int64_t limbo_delay_nanos_;

  // When RunMaintenance is to look at limbo again. Relaxed: a hint.
  std::atomic<int64_t> next_flush_nanos_{0};

  mutable internal::SharedState<Key, Value> shared_;
  const uint32_t shard_mask_;
  Shards shards_;  // As many as a power of two.
  mutable internal::Counters counters_;
  internal::StatsLogger logger_;

  Client client_{this};
  absl::Status reaper_status_;
  internal::ForkRegistration fork_registration_{this};
};

}  // namespace wheelcache

#include "wheelcache/cache/internal/cache_impl.h"
#include "wheelcache/cache/internal/cache_upkeep_impl.h"

#endif  // WHEELCACHE_CACHE_CACHE_H_
