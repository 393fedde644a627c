// The part of a cache that depends on the types of key and value: makes entries
// of them, compares keys, reads hits, runs the user's hooks. Loads are
// TypedLoads' (cache/internal/engine/typed_loads.h), all else is Engine's.
//
// The methods do what those of Cache say (cache/cache.h); the path of a hit is
// Read.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/time/time.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/iteration.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// A key of any type that compares with the cache's; it must outlive the query.
template <typename Key, typename Value, typename Equal, typename K>
class TypedKeyQuery final : public KeyQuery {
 public:
  TypedKeyQuery(const K& key, KeyHash hash) : KeyQuery(hash), key_(key) {}

  bool Matches(const EntryHeader& entry) const override {
    return Equal()(static_cast<const Entry<Key, Value>&>(entry).key(), key_);
  }

 private:
  const K& key_;
};

template <typename Key, typename Value, typename Hash, typename Equal>
class TypedEngine {
 public:
  using EntryType = Entry<Key, Value>;
  using Handle = CacheHandle<Key, Value>;
  using Weigher = std::function<uint64_t(View<Key>, View<Value>)>;
  using Listener = std::function<void(View<Key>, View<Value>, RemovalCause)>;

  TypedEngine(CacheOptions options, Weigher weigher, Listener listener)
      : weigher_(std::move(weigher)),
        engine_(std::move(options), &kEntryOperations<Key, Value, Hash, Equal>,
                weigher_ ? Charges::kStored : Charges::kFromSizes,
                TellOf(std::move(listener))) {}

  // What does not depend on the types.
  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }

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
    std::optional<Value> value;
    Read(key, use, [&](EntryRef, const EntryType& entry) {
      value.emplace(entry.value());
    });
    return value;
  }

  template <typename K, typename Function>
  bool Visit(const K& key, Function&& visit) const {
    return Read(key, Use::kCount, [&](EntryRef, const EntryType& entry) {
      std::forward<Function>(visit)(entry.value());
    });
  }

  template <typename K>
  bool Contains(const K& key) const {
    return Read(key, Use::kIgnore, [](EntryRef, const EntryType&) {});
  }

  template <typename K>
  Handle Find(const K& key, Use use = Use::kCount) const {
    Handle handle;
    const bool found = Read(key, use, [&](EntryRef ref, const EntryType&) {
      if (engine_.pool().TryPin(ref)) handle = HandleOf(ref);
    });
    if (ABSL_PREDICT_FALSE(found && !handle)) handle = FindUnderLock(key);
    return handle;
  }

  template <typename K>
  std::optional<absl::Duration> TimeToLive(const K& key) const;

  template <typename K, typename V>
  bool Set(K&& key, V&& value, std::optional<absl::Duration> ttl);

  template <typename K, typename V>
  Put SetIf(K&& key, const Handle& expected, V&& value,
            std::optional<absl::Duration> ttl);

  template <typename K>
  bool DelIf(const K& key, const Handle& expected) {
    return expected && IsOwn(expected) &&
           engine().RemoveIf(Query(key), expected.ref_, RemovalCause::kDeleted);
  }

  template <typename K>
  Handle Take(const K& key) {
    const EntryRef ref = engine().Take(Query(key));
    return ref == 0 ? Handle() : HandleOf(ref);
  }

  template <typename K>
  bool Update(const K& key,
              absl::FunctionRef<Decision<Value>(const Handle&)> decide);

  template <typename K>
  bool Touch(const K& key, absl::Duration ttl) {
    if (ttl <= absl::ZeroDuration()) return Del(key);
    return engine().Touch(Query(key), Clock::NanosAfter(0, ttl));
  }

  template <typename K>
  bool Del(const K& key) {
    return engine().Remove(Query(key), RemovalCause::kDeleted);
  }

  template <typename Function>
  bool ForEach(Function&& function) {
    Iteration iteration = engine().Iterate();
    while (const EntryRef ref = iteration.Next()) {
      const Handle handle = HandleOf(ref);
      // Time has passed since it was pinned, in calls of the function.
      if (engine_.HasExpired(At(ref))) continue;
      if (!function(handle)) return false;
    }
    return true;
  }

  template <typename Predicate>
  int64_t EraseIf(Predicate&& predicate) {
    engine().SupersedeLoads();
    int64_t erased = 0;
    ForEach([&](const Handle& handle) {
      if (predicate(handle)) erased += DelIf(handle.key(), handle) ? 1 : 0;
      return true;
    });
    return erased;
  }

  // For the calls that are made of these (cache/internal/engine/typed_loads.h).

  template <typename K>
  static auto Query(const K& key) {
    return TypedKeyQuery<Key, Value, Equal, K>(key, HashKey<Hash>(key));
  }

  // Stores an entry of the weight that is its footprint's, or what the weigher
  // says; or gives up the cache's pin.
  Put Store(Shard::Write* write);

  // A handle of a new placeholder, which has the cache's pin besides.
  template <typename K>
  Handle NewPlaceholder(const K& key, Load::Leader leader) const {
    EntryPool& pool = engine_.pool();
    const EntryRef ref = MakePlaceholder<Key, Value>(
        &pool, key,
        std::make_unique<Load>(&pool, engine_.load_gates(),
                               engine_.clock().NowNanos(), leader));
    pool.Pin(ref);
    return HandleOf(ref);
  }
  // REQUIRES: the handle is one of a placeholder.
  static Load& LoadOf(const Handle& handle) {
    return static_cast<Load&>(*handle.pool_->LoadOf(handle.ref_));
  }
  // Whether the key has a placeholder that keeps its value from being
  // refreshed. Takes no lock, and may say no within a read of this thread.
  template <typename K>
  bool IsKeptFromRefresh(const K& key) const;

  // Takes over a pin.
  Handle HandleOf(EntryRef ref) const {
    return Handle(&engine_.pool(), ref, &engine_.clock());
  }

  // The entry that a handle pins, and its pool; and another handle of it.
  static EntryRef RefOf(const Handle& handle) { return handle.ref_; }
  static KeyHash HashOf(const Handle& handle) {
    return HashKey<Hash>(handle.key());
  }
  static EntryPool& PoolOf(const Handle& handle) { return *handle.pool_; }
  static const EntryType& EntryOf(const Handle& handle) {
    return handle.entry();
  }
  static Handle Share(const Handle& handle) {
    return Share(handle, handle.ref_);
  }
  // A handle of another entry of its cache, which is pinned.
  static Handle Share(const Handle& handle, EntryRef other) {
    handle.pool_->Pin(other);
    return Handle(handle.pool_, other, handle.clock_);
  }

 private:
  static Engine::Tell TellOf(Listener listener) {
    if (!listener) return nullptr;
    return [listener = std::move(listener)](const EntryHeader& header,
                                            RemovalCause cause) {
      const auto& entry = static_cast<const EntryType&>(header);
      return Contain([&] { listener(entry.key(), entry.value(), cause); });
    };
  }

  const EntryType& At(EntryRef ref) const {
    return static_cast<const EntryType&>(engine_.pool().At(ref));
  }

  template <typename K>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static bool HasKey(const EntryHeader& entry,
                                                  const K& key) {
    return Equal()(static_cast<const EntryType&>(entry).key(), key);
  }

  // Where a look-up without a lock stands that FindAtHome did not decide.
  // Passed in two registers.
  struct Undecided {
    ThreadRecord* reader;
    Index::Rest rest;
  };

  // Out of line, to keep Read short.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE static EntryRef FindBeyondHome(const K& key,
                                                         const Shard& shard,
                                                         Hash32 hash,
                                                         Undecided where) {
    return shard.FindBeyondHome(
        hash, Announcement(where.reader), where.rest,
        [&](const EntryHeader& entry) { return HasKey(entry, key); });
  }
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE EntryRef FindAndPin(const K& key, Use use) const {
    const auto query = Query(key);
    return engine_.ShardOf(query.hash()).FindAndPin(query, use);
  }

  // As Find, but counts as no use and in no statistics. Out of line, as it is
  // rare: where an entry was moved, or a race was lost.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE Handle FindUnderLock(const K& key) const {
    const EntryRef ref = FindAndPin(key, Use::kIgnore);
    return ref == 0 ? Handle() : HandleOf(ref);
  }

  // Whether a handle that is not empty pins an entry of this cache.
  bool IsOwn(const Handle& handle) const {
    const bool own = handle.pool_ == &engine_.pool();
    assert(own && "a handle of another cache");
    return own;
  }

  // Makes an entry that is to be stored.
  template <typename K, typename V>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Make(K&& key, V&& value,
                                         Shard::Write* write) const;

  const Weigher weigher_;
  Engine engine_;  // The last: destructors of values may call the cache until
                   // it ends.
};

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename OnHit>
bool TypedEngine<Key, Value, Hash, Equal>::Read(const K& key, Use use,
                                                OnHit&& on_hit) const {
  const KeyHash hash = HashKey<Hash>(key);
  Shard& shard = engine_.ShardOf(hash);
  ReadSection section(engine_.copy());
  if (ABSL_PREDICT_TRUE(!section.nested())) {
    Shard::Found found = shard.FindAtHome(
        hash.for_index, section,
        [&](const EntryHeader& entry)
            ABSL_ATTRIBUTE_ALWAYS_INLINE { return HasKey(entry, key); });
    if (ABSL_PREDICT_FALSE(!found.decided())) {
      found.ref = FindBeyondHome(key, shard, hash.for_index,
                                 {section.record(), found.rest});
      found.entry = &engine_.pool().At(found.ref);
    }
    Interleave("read: between index and deadline");
    if (found.ref != 0 && engine_.IsLive(*found.entry)) {
      if (use == Use::kCount) {
        engine_.CountHit(*section.record());
        shard.RecordUse(found, hash.for_index);
      }
      on_hit(found.ref, static_cast<const EntryType&>(*found.entry));
      return true;
    }
    if (found.ref == 0 && engine_.MissIsSure()) {
      if (use == Use::kCount) engine_.CountMiss();
      return false;
    }
    if (found.ref == 0 && engine_.RecordSureMiss(hash.for_index, use)) {
      return false;
    }
    // Two kinds of misses are sure under the lock alone. A Clear that has
    // emptied this shard may not have emptied others: a thread that has seen
    // the one must not see the other. And an entry whose time had come when the
    // clock was read may have been replaced or touched before that.
  }
  // Also within another read of this thread, whose entry the section has to
  // protect.
  Interleave("read: before the lock");
  const EntryRef ref = FindAndPin(key, use);
  if (ref == 0) {
    engine_.RecordMiss(hash.for_index, use);
    return false;
  }
  const Handle handle = HandleOf(ref);
  if (use == Use::kCount) {
    engine_.CountHit(*section.record());
  }
  on_hit(ref, At(ref));
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool TypedEngine<Key, Value, Hash, Equal>::IsKeptFromRefresh(
    const K& key) const {
  const KeyHash hash = HashKey<Hash>(key);
  const Shard& shard = engine_.ShardOf(hash);
  const ReadSection section(engine_.copy());
  if (section.nested()) return false;
  const EntryRef placeholder =
      FindBeyondHome(key, shard, PlaceholderHash(hash.for_index),
                     {section.record(), Index::Rest()});
  return placeholder != 0 && shard.KeepsFromRefresh(placeholder);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
std::optional<absl::Duration> TypedEngine<Key, Value, Hash, Equal>::TimeToLive(
    const K& key) const {
  int64_t deadline = 0;
  while (Read(key, Use::kIgnore, [&](EntryRef, const EntryType& entry) {
    deadline = entry.deadline();
  })) {
    if (deadline == Clock::kNever) return absl::InfiniteDuration();
    Interleave("time to live: between deadline and clock");
    const absl::Duration left =
        absl::Nanoseconds(deadline) - engine_.clock().Now();
    if (left > absl::ZeroDuration()) return left;
    // Looks again: the value has expired, or has a later deadline by now.
  }
  return std::nullopt;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
inline void TypedEngine<Key, Value, Hash, Equal>::Make(
    K&& key, V&& value, Shard::Write* write) const {
  write->hash = HashKey<Hash>(key);
  engine_.ShardOf(write->hash).PrefetchForStore(write->hash.for_index);
  Footprint footprint;
  write->ref = MakeEntry<Key, Value>(&engine_.pool(), std::forward<K>(key),
                                     std::forward<V>(value), &footprint);
  write->SetWeight(EntryPool::MemoryOf(footprint));
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
bool TypedEngine<Key, Value, Hash, Equal>::Set(
    K&& key, V&& value, std::optional<absl::Duration> ttl) {
  Shard::Write write;
  Make(std::forward<K>(key), std::forward<V>(value), &write);
  write.ttl_nanos =
      ttl ? Clock::NanosAfter(0, *ttl) : engine_.default_ttl_nanos();
  return Store(&write) == Put::kStored;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
Put TypedEngine<Key, Value, Hash, Equal>::SetIf(
    K&& key, const Handle& expected, V&& value,
    std::optional<absl::Duration> ttl) {
  Shard::Condition condition;
  if (expected) {
    if (!IsOwn(expected)) return Put::kLost;
    condition.entry = expected.ref_;
    condition.keeps_deadline = !ttl.has_value();
  }
  Shard::Write write;
  write.condition = &condition;
  if (ttl.has_value()) {
    write.ttl_nanos = Clock::NanosAfter(0, *ttl);
  } else {
    write.ttl_nanos = expected ? Clock::kNever : engine_.default_ttl_nanos();
  }
  Make(std::forward<K>(key), std::forward<V>(value), &write);
  return Store(&write);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool TypedEngine<Key, Value, Hash, Equal>::Update(
    const K& key, absl::FunctionRef<Decision<Value>(const Handle&)> decide) {
  using Kind = typename Decision<Value>::Kind;
  for (Handle old = Find(key);; old = FindUnderLock(key)) {
    Decision<Value> decision = decide(old);
    if (decision.kind_ == Kind::kKeep) return false;
    Interleave("update: between decision and write");
    if (decision.kind_ == Kind::kDelete) {
      if (!old) return false;
      if (DelIf(key, old)) return true;
    } else {
      const Put put =
          SetIf(key, old, *std::move(decision.value_), decision.ttl_);
      if (put != Put::kLost) return put == Put::kStored;
    }
  }
}

template <typename Key, typename Value, typename Hash, typename Equal>
Put TypedEngine<Key, Value, Hash, Equal>::Store(Shard::Write* write) {
  struct Unpin {
    ~Unpin() {
      if (ref != 0) pool->Unpin(ref);
    }
    EntryPool* pool;
    EntryRef ref;
  } unpin{&engine_.pool(), write->ref};
  if (weigher_ && write->ttl_nanos > 0) {
    const EntryType& entry = At(write->ref);
    write->SetWeight(weigher_(entry.key(), entry.value()));
  }
  const Put put = engine_.Store(write);
  if (put == Put::kStored) unpin.ref = 0;
  return put;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_
