// The part of a cache that depends on the types of key and value: makes entries
// of them, compares keys, reads hits, runs the user's hooks and loaders. All
// else is Engine's.
//
// The methods do what those of Cache say (cache/cache.h); the path of a hit is
// Read.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wheelcache/cache/handle.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/key_query.h"
#include "wheelcache/cache/internal/engine/load.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/typed_load.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/threads/library_copy.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/cache/removal.h"
#include "wheelcache/cache/view.h"
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
  bool Matches(const Load& load) const override {
    using LoadType = TypedLoad<Key, Value, Equal>;
    return Equal()(static_cast<const LoadType&>(load).key(), key_);
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
                TellOf(std::move(listener))) {
    CheckCopy(engine_.copy());
  }
  ~TypedEngine() { CheckCopy(engine_.copy()); }

  // What does not depend on the types. Whoever may change the cache has to
  // belong to the copy of the library that has made it.
  Engine& engine() {
    CheckCopy(engine_.copy());
    return engine_;
  }
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

  template <typename K>
  Handle Find(const K& key) const {
    Handle handle;
    const bool found =
        Read(key, Use::kCount, [&](EntryRef ref, const EntryType&) {
          if (engine_.pool().TryPin(ref)) handle = HandleOf(ref);
        });
    if (ABSL_PREDICT_FALSE(found && !handle)) handle = FindMoved(key);
    return handle;
  }

  template <typename K>
  std::optional<absl::Duration> TimeToLive(const K& key) const;

  template <typename K, typename V>
  bool Set(K&& key, V&& value, int64_t ttl_nanos);

  template <typename K>
  absl::StatusOr<Value> GetOrLoad(
      const K& key, int64_t ttl_nanos,
      absl::FunctionRef<absl::StatusOr<Value>()> loader);

  template <typename K>
  bool Touch(const K& key, absl::Duration ttl) {
    if (ttl <= absl::ZeroDuration()) return Del(key);
    return engine().Touch(Query(key), Clock::NanosAfter(0, ttl));
  }

  template <typename K>
  bool Del(const K& key) {
    return engine().Remove(Query(key), RemovalCause::kDeleted);
  }

 private:
  using LoadType = TypedLoad<Key, Value, Equal>;

  // Ends a load in every case, a loader's exception included.
  class LoadScope;

  template <typename K>
  static auto Query(const K& key) {
    return TypedKeyQuery<Key, Value, Equal, K>(key, HashKey<Hash>(key));
  }

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
  Handle HandleOf(EntryRef ref) const {  // Takes over a pin.
    return Handle(&engine_.pool(), ref, &engine_.clock());
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

  // Out of line, as it is rare.
  template <typename K>
  ABSL_ATTRIBUTE_NOINLINE Handle FindMoved(const K& key) const {
    const EntryRef ref = FindAndPin(key, Use::kIgnore);
    return ref == 0 ? Handle() : HandleOf(ref);
  }

  // Stores an entry, or destroys it. Returns whether it is in the cache.
  bool Store(Shard::Write* write);

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
        engine_.CountHit(*section.record(),
                         shard.NoteUse(found, hash.for_index));
      }
      on_hit(found.ref, static_cast<const EntryType&>(*found.entry));
      return true;
    }
    if (found.ref == 0 && engine_.MissIsSure()) {
      if (use == Use::kCount) engine_.CountMiss();
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
    if (use == Use::kCount) engine_.CountMiss();
    return false;
  }
  const Handle handle = HandleOf(ref);
  if (use == Use::kCount) {
    engine_.CountHit(*section.record(), /*stamped=*/false);
  }
  on_hit(ref, At(ref));
  return true;
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
bool TypedEngine<Key, Value, Hash, Equal>::Set(K&& key, V&& value,
                                               int64_t ttl_nanos) {
  CheckCopy(engine_.copy());
  const KeyHash hash = HashKey<Hash>(key);
  engine_.ShardOf(hash).PrepareStore(hash.for_index);
  Shard::Write write;
  write.ref = MakeEntry<Key, Value>(&engine_.pool(), std::forward<K>(key),
                                    std::forward<V>(value));
  write.hash = hash;
  write.ttl_nanos = ttl_nanos;
  return Store(&write);
}

template <typename Key, typename Value, typename Hash, typename Equal>
bool TypedEngine<Key, Value, Hash, Equal>::Store(Shard::Write* write) {
  struct Unpin {
    ~Unpin() {
      if (ref != 0) pool->Unpin(ref);
    }
    EntryPool* pool;
    EntryRef ref;
  } unpin{&engine_.pool(), write->ref};
  const EntryType& entry = At(write->ref);
  if (!weigher_) {
    write->SetWeight(EntryPool::MemoryOf(entry.footprint()));
  } else if (write->ttl_nanos > 0) {
    write->SetWeight(weigher_(entry.key(), entry.value()));
  }
  if (!engine_.Store(write)) return false;
  unpin.ref = 0;
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
class TypedEngine<Key, Value, Hash, Equal>::LoadScope {
 public:
  LoadScope(const Engine* engine, Shard* shard, std::shared_ptr<LoadType> load)
      : engine_(*engine), shard_(*shard), load_(std::move(load)) {
    engine_.CountEvent(Count::kLoads);
  }
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;
  ~LoadScope() {
    if (finished_) return;
    engine_.CountEvent(Count::kLoadErrors);
    shard_.EndLoad(load_);
    load_->End();
  }

  void Finish(absl::StatusOr<Value> result) {
    if (!result.ok()) engine_.CountEvent(Count::kLoadErrors);
    shard_.EndLoad(load_);
    load_->Finish(std::move(result));
    finished_ = true;
  }

 private:
  const Engine& engine_;
  Shard& shard_;
  const std::shared_ptr<LoadType> load_;
  bool finished_ = false;
};

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
absl::StatusOr<Value> TypedEngine<Key, Value, Hash, Equal>::GetOrLoad(
    const K& key, int64_t ttl_nanos,
    absl::FunctionRef<absl::StatusOr<Value>()> loader) {
  std::optional<Value> value = Copy(key, Use::kCount);
  if (value.has_value()) return *std::move(value);
  const KeyHash hash = HashKey<Hash>(key);
  Shard& shard = engine_.ShardOf(hash);
  const auto mine = std::make_shared<LoadType>(Key(key), hash.for_index);
  EntryRef found = 0;
  const LoadPtr joined = shard.JoinLoad(
      TypedKeyQuery<Key, Value, Equal, Key>(mine->key(), hash), mine, &found);
  if (found != 0) return Value(*HandleOf(found));
  if (joined != mine) {
    engine_.CountEvent(Count::kLoadWaits);
    return static_cast<LoadType&>(*joined).Wait();
  }
  LoadScope scope(&engine_, &shard, mine);
  absl::StatusOr<Value> result = loader();
  if (result.ok()) {
    Shard::Write write;
    write.ref = MakeEntry<Key, Value>(&engine_.pool(), mine->key(), *result);
    write.hash = hash;
    write.ttl_nanos = ttl_nanos;
    write.load = &joined;
    Store(&write);
  }
  scope.Finish(result);
  return result;
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_ENGINE_H_
