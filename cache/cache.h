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
// cache, or what SetLimits has made of them. A Set that needs room reclaims
// expired entries first, and then evicts the least recently used. Without any
// call, the memory of expired entries comes back within
// CacheOptions::reclaim_delay, and nothing wakes up while nothing is due. One
// caller loads a missing key for all; a value that was read before a write is
// never stored after it.
//
// Threads. Thread-safe. No user code (listener, weigher, loader, the function
// of Update; constructors and destructors of keys and values) runs under a
// lock, so all of it may call this cache and others. Only the hash and the
// equality of keys run under one, and must not.
//
// Errors. A miss is an empty optional or handle; only Create, loads and
// SetLimits return a Status. Exceptions of constructors, weigher, loader and
// other functions of the user reach the caller. Set, SetIf, Update, loads,
// ForEach, EraseIf and the first read of a thread throw std::bad_alloc if
// memory runs out, which ends a program without exceptions. After an exception
// no value was stored, replaced or deleted, but by an EraseIf; expired values
// may have gone, and values that a Set had evicted if another thread took their
// room. A GetOrLoad that cannot copy its result may have stored it. Callers
// that wait for a loader that throws receive kUnknown. Exceptions of the
// listener are counted and go no further. Del, DelIf, Take, Touch, Clear,
// SetLimits, handles and the destructor need no memory and do not throw, nor
// does RunMaintenance, but for stats_log. Hashes, comparisons and destructors
// must not throw. The hash of a key must not change while the key is in the
// cache: to remove or replace it then ends the program with a message.
//
// Cost. Every call is O(1) expected, ForEach and EraseIf O(entries), plus what
// it reclaims and evicts, at most CacheOptions::maintenance_budget entries at a
// time under a lock; and a Set of a new key copies up to 24 references while
// the index grows. An entry takes 40 bytes and its share of the index besides
// key and value, and 4 more where there is a weigher. A std::string is stored
// as its length and its characters, and is shown as a std::string_view; see
// cache/view.h. The entries of a cache share up to 32 GiB, not counting what
// keys and values of over 64 KiB take elsewhere.
//
// Lifetime. Destroy a cache when no call runs in it; its background work ends
// with it. Values are destroyed, listeners are not called. A Handle may outlive
// it.
//
// fork(). The child may go on using the cache.

#ifndef WHEELCACHE_CACHE_CACHE_H_
#define WHEELCACHE_CACHE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/conditional.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/hash.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/refresh_ahead.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/engine/typed_loads.h"
#include "wheelcache/cache/internal/engine/typed_refreshes.h"
#include "wheelcache/cache/load.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/cache/ticket.h"
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

    // Refreshes the value of a key; see cache/load.h. Any function of the form
    //   absl::StatusOr<Loaded<Value>>(View<Key>, View<Value> old)
    internal::ReloadHook<Key, Value, Hash, Equal> reload;

    // Runs refreshes, on any thread; if empty, the calls that begin them do. It
    // may drop a task, and must destroy those that it has not run.
    std::function<void(std::function<void()> task)> executor;
  };

  // Pins an entry; see cache/handle.h.
  using Handle = CacheHandle<Key, Value>;

  // The duty to load a key; see cache/ticket.h.
  using Ticket =
      CacheTicket<Key, Value, internal::TypedLead<Key, Value, Hash, Equal>>;

  // What the function of Update returns; see cache/conditional.h.
  using Decision = wheelcache::Decision<Value>;

  // Returns a cache, or InvalidArgument with the field, the value and the rule
  // that it breaks.
  static absl::StatusOr<std::unique_ptr<Cache>> Create(CacheOptions options,
                                                       Hooks hooks = {}) {
    absl::Status s = ValidateCacheOptions(options);
    if (s.ok() && !hooks.reload) s = internal::ValidateWithoutReload(options);
    if (!s.ok()) return s;
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

  // Returns the live value; or runs `loader`, stores what it returns, and
  // returns that. Calls for the same key that come meanwhile get that result,
  // and later writes supersede it: see cache/load.h. A call that would wait for
  // ever gets FailedPrecondition: that of a loader for its own key, and the one
  // that closes a cycle of loaders that wait for each other, on any threads and
  // in any caches of the process.
  template <typename K>
  absl::StatusOr<Handle> FindOrLoad(
      const K& key, const LoadOptions& options,
      absl::FunctionRef<absl::StatusOr<Loaded<Value>>()> loader) {
    return loads().FindOrLoad(key, options, loader);
  }

  // As FindOrLoad, without a handle and with less to say.
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::FunctionRef<absl::StatusOr<Value>()> loader) {
    return loads().GetOrLoad(key, {}, loader);
  }
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, absl::Duration ttl,
      absl::FunctionRef<absl::StatusOr<Value>()> loader) {
    return loads().GetOrLoad(key, {ttl}, loader);
  }

  // As FindOrLoad, without blocking: `done` gets the result. Where the caller
  // is the one who has to load, returns a ticket for that; see cache/ticket.h.
  template <typename K>
  Ticket BeginLoad(
      const K& key, const LoadOptions& options,
      absl::AnyInvocable<void(const absl::StatusOr<Handle>&)> done) {
    return Ticket(loads().BeginLoad(key, options, std::move(done)));
  }

  // As FindOrLoad for each key, in their order, with at most one call of
  // `loader` for all that are missing. It gets their positions in `keys`, and
  // returns a result for each. For keys that others load, it waits only then.
  std::vector<absl::StatusOr<Handle>> FindOrLoadMany(
      absl::Span<const Key> keys, const LoadOptions& options,
      absl::FunctionRef<std::vector<absl::StatusOr<Loaded<Value>>>(
          absl::Span<const size_t> missing)>
          loader) {
    return loads().FindOrLoadMany(keys, options, loader);
  }

  // Begins a refresh of the live value, whatever its age. Returns whether it
  // has: not if there is none, if it is being refreshed, if max_refreshes are,
  // or without Hooks::reload.
  template <typename K>
  bool Refresh(const K& key) {
    return loads().Refresh(key);
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

  // As Set, if `expected` pins the key's live value, or is empty and there is
  // none; otherwise changes nothing. Without a TTL the new value keeps the
  // deadline of the old one, or gets default_ttl. See cache/conditional.h.
  template <typename K = Key, typename V = Value>
  Put SetIf(K&& key, const Handle& expected, V&& value,
            std::optional<absl::Duration> ttl = std::nullopt) {
    return typed_.SetIf(std::forward<K>(key), expected, std::forward<V>(value),
                        ttl);
  }

  // Removes the key's live value if `expected` pins it. Returns whether it did.
  template <typename K>
  bool DelIf(const K& key, const Handle& expected) {
    return typed_.DelIf(key, expected);
  }

  // Removes the key's live value and returns it; of several callers, one gets
  // it. Counts as a Get and a Del.
  template <typename K>
  Handle Take(const K& key) {
    return typed_.Take(key);
  }

  // Calls `decide` with a const Handle& of the key's live value, empty if there
  // is none, and carries out the Decision that it returns; repeats that while
  // other threads are faster. Returns whether a value was stored or deleted.
  // Counts as one Get. See cache/conditional.h.
  template <typename K, typename Function>
  bool Update(const K& key, Function&& decide) {
    return typed_.Update(
        key, [&](const Handle& old) -> Decision { return decide(old); });
  }

  // Removes all values that are there at one instant during the call.
  void Clear() { engine().Clear(); }

  // Calls `function(handle)`, which returns whether to go on, with each live
  // value: once with one that lives throughout, at most once with any other.
  // Returns whether it went through all. No snapshot; counts as no use.
  template <typename Function>
  bool ForEach(Function&& function) {
    return typed_.ForEach(std::forward<Function>(function));
  }

  // As ForEach, but removes each value for which `predicate(handle)` returns
  // true, if it is still there. Returns how many it removed. Supersedes all
  // loads in flight, whose values the predicate cannot see.
  template <typename Predicate>
  int64_t EraseIf(Predicate&& predicate) {
    return typed_.EraseIf(std::forward<Predicate>(predicate));
  }

  // Changes the limits, or returns InvalidArgument. On return the new ones
  // hold; lower ones are approached step by step, by eviction as in a Set.
  absl::Status SetLimits(int64_t entries, int64_t bytes) {
    return engine().SetLimits(entries, bytes);
  }
  CacheLimits limits() const {
    const internal::Room limit = engine().limit();
    return {limit.entries, limit.bytes};
  }

  // What is in the cache, expired entries that are not yet reclaimed included.
  // O(1), and never more than limits().
  int64_t size() const { return engine().used().entries; }
  int64_t bytes() const { return engine().used().bytes; }

  CacheStats stats() const { return engine().stats(); }
  // As given to Create.
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

  // Ends the background work and refreshes for good, and waits for what runs of
  // them, unless called by that. The cache remains usable: Set and
  // RunMaintenance reclaim.
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
               std::move(hooks.on_removal)) {
    if (!hooks.reload) return;
    refreshes_ = hooks.reload.Make(&typed_, std::move(hooks.executor));
  }

  int64_t default_ttl_nanos() const { return engine().default_ttl_nanos(); }

  internal::TypedLoads<Key, Value, Hash, Equal> loads() {
    return {&typed_, refreshes_.get()};
  }
  internal::Engine& engine() { return typed_.engine(); }
  const internal::Engine& engine() const { return typed_.engine(); }

  // Null without Hooks::reload.
  std::unique_ptr<internal::RefreshAhead<Key, Value>> refreshes_;
  // The last: destructors of values may call the cache until it ends.
  internal::TypedEngine<Key, Value, Hash, Equal> typed_;
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_CACHE_H_
