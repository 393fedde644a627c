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
// Guarantees. A value is never returned at its deadline or later. At no instant
// do more than max_entries entries or max_bytes accounted bytes live in the
// cache. A Set that needs room reclaims expired entries first, and then evicts
// the least recently used. Without any call, the memory of expired entries
// comes back within CacheOptions::reclaim_delay, and nothing wakes up while
// nothing is due.
//
// Threads. Thread-safe. No user code (listener, weigher, loader; constructors
// and destructors of keys and values) runs under a lock, so all of it may call
// this cache and others. Only the hash and the equality of keys run under one,
// and must not.
//
// Errors. A miss is an empty optional or handle; only Create and GetOrLoad
// return a Status. Exceptions of constructors, weigher, loader and visitor
// reach the caller. Set, GetOrLoad and the first read of a thread throw
// std::bad_alloc if memory runs out, which ends a program without exceptions.
// After an exception no value was stored, replaced or deleted; expired values
// may have gone, and values that a Set had evicted if another thread took their
// room. A GetOrLoad that cannot copy its result for the waiting callers may
// have stored it. Callers that wait for a loader that throws receive kUnknown.
// Exceptions of the listener are counted and go no further. Del, Touch, Clear,
// handles and the destructor need no memory and do not throw, nor does
// RunMaintenance, but for stats_log. Hashes, comparisons and destructors must
// not throw. The hash of a key must not change while the key is in the cache:
// to remove or replace it then ends the program with a message.
//
// Cost. Every call is O(1) expected, plus what it reclaims and evicts, at most
// CacheOptions::maintenance_budget entries at a time under a lock; and a Set of
// a new key copies up to 24 references while the index grows. An entry takes 40
// bytes and its share of the index besides key and value, and 4 more where
// there is a weigher. A std::string is stored as its length and its characters,
// and is shown as a std::string_view; see cache/view.h. The entries of a cache
// share up to 32 GiB, not counting what keys and values of over 64 KiB take
// elsewhere.
//
// Lifetime. Destroy a cache when no call runs in it; its background work ends
// with it. Values are destroyed, listeners are not called. A Handle may outlive
// it.
//
// fork(). The child may go on using the cache.

#ifndef WHEELCACHE_CACHE_CACHE_H_
#define WHEELCACHE_CACHE_CACHE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/view.h"
#include "wheelcache/cache/weigh.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

namespace internal {
class CachePeer;
}  // namespace internal

template <typename Key, typename Value, typename Hash = DefaultHash<Key>,
          typename Equal = DefaultEqual<Key>>
class Cache final {
 public:
  // The user's code that a cache calls; see Threads above. Each may be empty.
  struct Hooks {
    // Returns the bytes that key and value take; see cache/weigh.h.
    std::function<uint64_t(View<Key>, View<Value>)> weigher;

    // Is told of each entry that has left; see cache/removal.h.
    std::function<void(View<Key>, View<Value>, RemovalCause)> on_removal;
  };

  // Pins an entry; see cache/handle.h.
  using Handle = CacheHandle<Key, Value>;

  // Returns a cache, or InvalidArgument with the field, the value and the rule
  // that it breaks.
  static absl::StatusOr<std::unique_ptr<Cache>> Create(CacheOptions options,
                                                       Hooks hooks = {}) {
    if (auto s = ValidateCacheOptions(options); !s.ok()) return s;
    return absl::WrapUnique(new Cache(std::move(options), std::move(hooks)));
  }

  // Stores a value under a key, in the place of the one it had. Returns whether
  // it is in the cache. It is not, and neither is the old one, if the TTL is
  // zero or less, or if the entry is larger than max_bytes or 4 GiB.
  template <typename K = Key, typename V = Value>
  bool Set(K&& key, V&& value) {
    return typed_.Set(std::forward<K>(key), std::forward<V>(value),
                      default_ttl_nanos());
  }
  template <typename K = Key, typename V = Value>
  bool Set(K&& key, V&& value, absl::Duration ttl) {
    return typed_.Set(std::forward<K>(key), std::forward<V>(value),
                      Clock::NanosAfter(0, ttl));
  }

  // Returns a copy of the live value, which becomes the most recently used.
  template <typename K>
  std::optional<Value> Get(const K& key) {
    return typed_.Copy(key, internal::Use::kCount);
  }

  // As Get, but pins the value instead of copying it.
  template <typename K>
  Handle Find(const K& key) {
    return typed_.Find(key);
  }

  // As Get, but calls `visit` with the value and returns true, or returns
  // false. Neither copies nor pins. For short functions: while one runs, what
  // leaves the cache is not destroyed.
  template <typename K, typename Function>
  bool Visit(const K& key, Function&& visit) {
    return typed_.Read(key, internal::Use::kCount,
                       [&](internal::EntryRef, const auto& entry) {
                         std::forward<Function>(visit)(entry.value());
                       });
  }

  // As Get, but counts as no use and in no statistics.
  template <typename K>
  std::optional<Value> Peek(const K& key) const {
    return typed_.Copy(key, internal::Use::kIgnore);
  }

  // Returns whether the key has a live value. Counts as no use.
  template <typename K>
  bool Contains(const K& key) const {
    return typed_.Read(key, internal::Use::kIgnore,
                       [](internal::EntryRef, const auto&) {});
  }

  // Returns how long the value will live, infinite if it does not expire, or
  // nothing if there is none. Counts as no use.
  template <typename K>
  std::optional<absl::Duration> TimeToLive(const K& key) const {
    return typed_.TimeToLive(key);
  }

  // Returns the live value; or calls `loader`, stores what it returns, and
  // returns that. Calls for the same key that come meanwhile wait for that
  // result (single-flight). An error is returned and not stored. A Set, Del or
  // Clear that comes while the loader runs supersedes it: its result is not
  // stored. A call that would wait for ever gets FailedPrecondition: that of a
  // loader for its own key, and the one that closes a cycle of loaders that
  // wait for each other, on any threads and in any caches of the process.
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::FunctionRef<absl::StatusOr<Value>()> loader) {
    return typed_.GetOrLoad(key, default_ttl_nanos(), loader);
  }
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::Duration ttl,
      absl::FunctionRef<absl::StatusOr<Value>()> loader) {
    return typed_.GetOrLoad(key, Clock::NanosAfter(0, ttl), loader);
  }

  // Gives the live value a new TTL from now on, and makes it the most recently
  // used. Returns whether there is one. A TTL of zero or less deletes it.
  template <typename K>
  bool Touch(const K& key, absl::Duration ttl) {
    return typed_.Touch(key, ttl);
  }

  // Removes the key's value. Returns whether it had a live one.
  template <typename K>
  bool Del(const K& key) {
    return typed_.Del(key);
  }

  // Removes all values that are there at one instant during the call.
  void Clear() { engine().Clear(); }

  // What is in the cache, expired entries that are not yet reclaimed included.
  // O(1), and never more than the limits.
  int64_t size() const { return engine().used().entries; }
  int64_t bytes() const { return engine().used().bytes; }

  CacheStats stats() const { return engine().stats(); }
  const CacheOptions& options() const { return engine().options(); }

  // Reclaims what is due, for programs that run without a reaper: removes and
  // moves at most `budget` timers. Returns how many; less than `budget` means
  // that nothing due is left.
  int64_t RunMaintenance(int64_t budget = std::numeric_limits<int64_t>::max()) {
    return engine().RunMaintenance(budget);
  }

  // Returns when RunMaintenance next has something to do, as a reading of the
  // clock; infinite if it has nothing. That includes entries that readers may
  // still hold back, for which it is to look now and then.
  absl::Duration NextDeadline() const { return engine().NextDeadline(); }

  // Ends the background work for good, and waits for what runs of it, unless
  // called by that. The cache remains usable: Set and RunMaintenance reclaim.
  void Stop() { engine().Stop(); }

  // Whether the reaper serves this cache, or why it could not be had.
  const absl::Status& reaper_status() const { return engine().reaper_status(); }

  // For tests: finds the first broken invariant. No other thread may be in the
  // cache. O(entries).
  absl::Status CheckInvariants() { return engine().CheckInvariants(); }

 private:
  friend class internal::CachePeer;  // For tests.

  Cache(CacheOptions options, Hooks hooks)
      : typed_(std::move(options), std::move(hooks.weigher),
               std::move(hooks.on_removal)) {}

  int64_t default_ttl_nanos() const { return engine().default_ttl_nanos(); }

  internal::Engine& engine() { return typed_.engine(); }
  const internal::Engine& engine() const { return typed_.engine(); }

  internal::TypedEngine<Key, Value, Hash, Equal> typed_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_CACHE_H_
