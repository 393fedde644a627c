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
// Guarantees. A value is never returned at its deadline or later, nor once it
// was not used for idle_ttl, if that is set. At no instant do more than
// max_entries entries or max_bytes accounted bytes live in the cache. A Set
// that needs room reclaims expired entries, then evicts the least recently
// used. The memory of expired entries comes back by itself. One caller loads a
// missing key for all; no value is stored that was read before a write.
//
// Threads. Thread-safe. No user code runs under a lock, so all of it may call
// caches; but for the hash and the equality of keys, which must not.
//
// Errors. A miss is an empty optional or handle; only Create, loads and
// SetLimits return a Status. A call that throws, because user code does or
// memory runs out, has stored, replaced and deleted nothing, but for EraseIf,
// and for loads that throw after they have stored.
//
// Cost. Every call is O(1) expected, ForEach and EraseIf O(entries), plus what
// it reclaims and evicts, at most maintenance_budget entries at a time under a
// lock. An entry takes 40 bytes, 8 more with idle_ttl, and its share of the
// index besides key and value. Strings are shown as a std::string_view; see
// cache/view.h.
//
// Lifetime. Destroy a cache when no call runs in it. A Handle may outlive it.
// The child of a fork() may go on using it if no other thread was in a call;
// see docs/guarantees.md. Limits, statistics and maintenance are in the base of
// all caches, cache/any_cache.h.

#ifndef WHEELCACHE_CACHE_CACHE_H_
#define WHEELCACHE_CACHE_CACHE_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/any_cache.h"
#include "wheelcache/cache/hooks.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/internal/typed_lead.h"
#include "wheelcache/cache/internal/typed_loads.h"
#include "wheelcache/cache/internal/typed_refreshes.h"
#include "wheelcache/cache/ticket.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/hash.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/cache/types/requirements.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

template <typename Key, typename Value, typename Hash = DefaultHash<Key>,
          typename Equal = DefaultEqual<Key>>
class Cache final : public AnyCache {
 public:
  // See cache/hooks.h, cache/handle.h, cache/ticket.h and cache/conditional.h.
  using Hooks = CacheHooks<Key, Value>;
  using Handle = CacheHandle<Key, Value>;
  using Ticket = CacheTicket<Key, Value, internal::TypedLead<Cache>>;
  using Decision = wheelcache::Decision<Value>;
  using LoadResult = absl::StatusOr<Loaded<Value>>;

  // Returns a cache, or InvalidArgument: which field breaks which rule.
  static absl::StatusOr<std::unique_ptr<Cache>> Create(CacheOptions options,
                                                       Hooks hooks = {});

  ~Cache() { engine().Close(); }

  // Stores a value under a key, in the place of the one it had; without a TTL,
  // with default_ttl. Returns whether it is in the cache. It is not, nor is the
  // old one, if the TTL is zero or less, or if it exceeds max_bytes or 4 GiB.
  // Key and value are made by implicit conversion; a pointer makes no bool.
  template <typename K = Key, typename V = Value>
  bool Set(K&& key, V&& value, std::optional<absl::Duration> ttl = {});

  // Returns a copy of the live value, which becomes the most recently used.
  template <typename K>
  std::optional<Value> Get(const K& key) {
    return Copy(key, Use::kCount);
  }

  // As Get, but pins the value instead of copying it.
  template <typename K>
  Handle Find(const K& key);

  // As Find for each of `keys`, in their order, into the handles; returns how
  // many have a live value. The cache misses of the CPU overlap, so that many
  // keys of a large cache take clearly less time. The keys are a vector, an
  // array or a span of what Find takes. REQUIRES: as many handles as keys.
  template <typename Keys = absl::Span<const Key>>
  size_t FindMany(const Keys& keys, absl::Span<Handle> handles);

  // As Get, but calls `visit` with the value in place. For short functions:
  // while one runs, what leaves the cache is not destroyed.
  template <typename K, typename Function>
  bool Visit(const K& key, Function&& visit) {
    static_assert(std::is_invocable_v<Function, View<Value>>,
                  "the value is shown to `visit` as a const Value&, or a "
                  "std::string as a std::string_view, which it has to take");
    return Read(key, Use::kCount, [&](EntryRef, const Entry& entry) {
      std::forward<Function>(visit)(entry.value());
    });
  }

  // As Get, but counts as no use and in no statistics.
  template <typename K>
  std::optional<Value> Peek(const K& key) const {
    return Copy(key, Use::kIgnore);
  }

  // Returns whether the key has a live value. Counts as no use.
  template <typename K>
  bool Contains(const K& key) const {
    return Read(key, Use::kIgnore, [](EntryRef, const Entry&) {});
  }

  // Returns how long the live value will live, unless it is used: then idle_ttl
  // begins anew. Counts as no use.
  template <typename K>
  std::optional<absl::Duration> TimeToLive(const K& key) const;

  // Returns the live value; or runs `loader`, stores what it returns, and
  // returns that. Calls for the same key that come meanwhile get that result,
  // and later writes supersede it: see cache/load.h.
  template <typename K>
  absl::StatusOr<Handle> FindOrLoad(const K& key, const LoadOptions& options,
                                    Loader<Value> loader) {
    return Loads(this).FindOrLoad(key, options, ForAnyKey(loader));
  }

  // As FindOrLoad by Hooks::load. FailedPrecondition if there is none.
  template <typename K>
  absl::StatusOr<Handle> FindOrLoad(const K& key,
                                    const LoadOptions& options = {}) {
    if (hooks_.load == nullptr) return engine().NoLoader();
    return Loads(this).FindOrLoad(key, options, hooks_.load);
  }

  // As FindOrLoad, without a handle and with less to say.
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(const K& key, Loader<Value> loader) {
    return Loads(this).GetOrLoad(key, {}, ForAnyKey(loader));
  }
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(const K& key, absl::Duration ttl,
                                  Loader<Value> loader) {
    return Loads(this).GetOrLoad(key, {ttl}, ForAnyKey(loader));
  }
  template <typename K>
  absl::StatusOr<Value> GetOrLoad(const K& key) {
    if (hooks_.load == nullptr) return engine().NoLoader();
    return Loads(this).GetOrLoad(key, {}, hooks_.load);
  }

  // As FindOrLoad, without blocking: `done` gets the result. Where the caller
  // is the one who has to load, returns a ticket for that; and where it waits
  // for one that is given up, `lead` may get that. See cache/ticket.h. Without
  // Hooks::executor it runs refreshes itself.
  template <typename K>
  Ticket BeginLoad(const K& key, const LoadOptions& options,
                   LoadDone<Handle> done, TakeTicket<Ticket> lead = nullptr) {
    return Loads(this).BeginLoad(key, options, std::move(done),
                                 std::move(lead));
  }

  // As FindOrLoad for each key, in their order, with at most one call of
  // `loader` for all that are missing; then waits for those that others load.
  // Refreshes nothing.
  std::vector<absl::StatusOr<Handle>> FindOrLoadMany(
      absl::Span<const Key> keys, const LoadOptions& options,
      BatchLoader<Value> loader) {
    return Loads(this).FindOrLoadMany(keys, options, loader);
  }

  // Begins to refresh the live value by the hooks. Returns whether it has.
  template <typename K>
  bool Refresh(const K& key) {
    return Refreshes(this).Refresh(key);
  }

  // As Refresh for each of `keys`. Returns how many refreshes have begun: those
  // beyond CacheOptions::max_refreshes at a time have not.
  template <typename Keys = absl::Span<const Key>>
  size_t RefreshMany(const Keys& keys) {
    size_t begun = 0;
    for (const auto& key : keys) begun += Refresh(key) ? 1 : 0;
    return begun;
  }

  // Gives the live value a new TTL from now on, and makes it the most recently
  // used. Returns whether there is one. A TTL of zero or less deletes it.
  template <typename K>
  bool Touch(const K& key, absl::Duration ttl) {
    if (ttl <= absl::ZeroDuration()) return Del(key);
    return engine().Touch(Query(key), Clock::NanosAfter(0, ttl));
  }

  // Removes the key's value. Returns whether it had a live one.
  template <typename K>
  bool Del(const K& key) {
    return engine().Remove(Query(key), RemovalCause::kDeleted);
  }

  // As Set, if `expected` pins the key's live value, or is empty and there is
  // none. Without a TTL the new value keeps the deadline of the old one, or
  // gets default_ttl. See cache/conditional.h.
  template <typename K = Key, typename V = Value>
  Put SetIf(K&& key, const Handle& expected, V&& value,
            std::optional<absl::Duration> ttl = {});

  // As SetIf, with a deadline that no jitter varies.
  template <typename K = Key, typename V = Value>
  Put SetIf(K&& key, const Handle& expected, V&& value, Deadline deadline);

  // Removes the key's live value if `expected` pins it. Returns whether it did.
  template <typename K>
  bool DelIf(const K& key, const Handle& expected) {
    return expected && IsOwn(expected) &&
           engine().RemoveIf(Query(key), expected.ref_, RemovalCause::kDeleted);
  }

  // Removes the key's live value and returns it. Counts as a Get and a Del.
  template <typename K>
  Handle Take(const K& key) {
    return HandleOf(engine().Take(Query(key)));
  }

  // Calls `decide` with a const Handle& of the key's live value, empty if there
  // is none, and carries out the Decision that it returns; see
  // cache/conditional.h. Returns whether a value was stored or deleted;
  // false, too, where a new value is refused, as in Set, and the old one
  // deleted.
  template <typename K, typename Function>
  bool Update(const K& key, Function&& decide);

  // Calls `function(handle)`, which returns whether to go on, with each live
  // value: once with one that lives throughout, at most once with any other.
  // Returns whether it went through all. No snapshot; counts as no use.
  // A `function(handle, uint32_t rank)` is told how long the value was not
  // used: values that are Set in the order of falling ranks are evicted in
  // about the order in which these would have been.
  template <typename Function>
  bool ForEach(Function&& function);

  // As ForEach, but removes each value for which `predicate(handle)` is true.
  // Returns how many it removed. Supersedes all loads in flight.
  template <typename Predicate>
  int64_t EraseIf(Predicate&& predicate);

 private:
  using KeyType = Key;
  using ValueType = Value;
  using Entry = internal::Entry<Key, Value>;
  using EntryRef = internal::EntryRef;
  using KeyHash = internal::KeyHash;
  using Shard = internal::Shard;
  using Use = internal::Use;
  template <typename K>
  using Checked = internal::CheckedLookUp<Key, Value, Hash, Equal, K>;
  using Loads = internal::TypedLoads<Cache>;
  using Refreshes = internal::TypedRefreshes<Cache>;

  friend Loads;
  friend Refreshes;
  friend internal::TypedLead<Cache>;

  Cache(CacheOptions options, Hooks hooks);
  static internal::Charges ChargesOf(const Hooks& hooks) {
    return hooks.weigher ? internal::Charges::kStored
                         : internal::Charges::kFromSizes;
  }
  static internal::Engine::Tell TellOf(const Hooks& hooks, Cache* cache);

  // Calls `on_hit(ref, entry)` with the live entry of the key, and protects the
  // entry meanwhile. Returns whether there is one. Counts as a hit or miss, and
  // as a use of the entry, or not. Takes no lock, with these exceptions: the
  // entry that it finds has expired; a Clear is under way; this is within
  // another read of the thread. And in a cache of one shard it tries the lock,
  // to make the entry the most recently used, and never waits for it.
  template <typename K, typename OnHit>
  bool Read(const K& key, Use use, OnHit&& on_hit) const;

  template <typename K>
  std::optional<Value> Copy(const K& key, Use use) const {
    static_assert(std::is_copy_constructible_v<Value>,
                  "Get and Peek copy the value, which this type does not "
                  "allow: use Find, which pins it, or Visit");
    std::optional<Value> value;
    Read(key, use,
         [&](EntryRef, const Entry& entry) { value.emplace(entry.value()); });
    return value;
  }

  // Where a look-up without a lock stands that FindAtHome did not decide.
  // Passed in two registers.
  struct Undecided {
    internal::ThreadRecord* reader;
    internal::Index::Rest rest;
  };
  // Out of line, to keep Read short.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE static EntryRef FindBeyondHome(const K& key,
                                                         const Shard& shard,
                                                         internal::Hash32 hash,
                                                         Undecided where);
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE EntryRef FindAndPin(const K& key, Use use) const;

  // As Find, but counts as no use and in no statistics. Out of line, as it is
  // rare: where an entry was moved, or a race was lost.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE Handle FindUnderLock(const K& key) const {
    return HandleOf(FindAndPin(key, Use::kIgnore));
  }

  // Makes an entry that is to be stored.
  template <typename K, typename V>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Make(K&& key, V&& value,
                                         Shard::Write* write) const;
  // Stores an entry of the weight that is its footprint's, or what the weigher
  // says; or gives up the cache's pin.
  Put Store(Shard::Write* write);

  // Whether a hook can refresh a value.
  bool may_refresh() const { return hooks_.reload || hooks_.load; }
  static auto ForAnyKey(Loader<Value> loader) {
    return [loader](View<Key>) { return loader(); };
  }

  const Entry& At(EntryRef ref) const {
    return static_cast<const Entry&>(engine().pool().At(ref));
  }
  // Takes over a pin, if there is an entry.
  Handle HandleOf(EntryRef ref) const {
    if (ref == 0) return Handle();
    return Handle(&engine().pool(), ref, &engine().clock());
  }
  // Whether a handle that is not empty pins an entry of this cache.
  bool IsOwn(const Handle& handle) const {
    const bool own = handle.pool_ == &engine().pool();
    assert(own && "a handle of another cache");
    return own;
  }

  template <typename K>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static KeyHash HashOf(const K& key) {
    return internal::HashKey<Hash>(key);
  }
  template <typename K>
  static auto Query(const K& key) {
    static_assert(Checked<K>::kAreRight);
    return internal::TypedKeyQuery<Key, Value, Equal, K>(key, HashOf(key));
  }
  template <typename K>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static bool HasKey(
      const internal::EntryHeader& entry, const K& key) {
    return Equal()(static_cast<const Entry&>(entry).key(), key);
  }

  const Hooks hooks_;
};

}  // namespace wheelcache

#include "wheelcache/cache/internal/cache_impl.h"

#endif  // WHEELCACHE_CACHE_CACHE_H_
