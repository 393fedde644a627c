// The method definitions of Cache. Included by cache/cache.h alone.
//
// All that depends on the types of key and value is here and in the other
// headers of this folder: makes entries, compares keys, reads hits, runs the
// user's hooks. The path of a hit is Read.

#ifndef WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_
#define WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/iteration.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/cache/types/requirements.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {

template <typename Key, typename Value, typename Hash, typename Equal>
absl::StatusOr<std::unique_ptr<Cache<Key, Value, Hash, Equal>>>
Cache<Key, Value, Hash, Equal>::Create(CacheOptions options, Hooks hooks) {
  static_assert(internal::CheckedTypes<Key, Value, Hash, Equal>::kAreRight);
  absl::Status status = internal::Validate(
      options, hooks.reload || hooks.load,
      internal::EntryPool::LeastCharge(Entry::Least(), ChargesOf(hooks),
                                       internal::IdleTtlOf(options)));
  if (!status.ok()) return status;
  return std::unique_ptr<Cache>(
      new Cache(std::move(options), std::move(hooks)));
}

template <typename Key, typename Value, typename Hash, typename Equal>
Cache<Key, Value, Hash, Equal>::Cache(CacheOptions options, Hooks hooks)
    : AnyCache(std::move(options),
               &internal::kEntryOperations<Key, Value, Hash, Equal>,
               ChargesOf(hooks), TellOf(hooks, this)),
      hooks_(std::move(hooks)) {}

template <typename Key, typename Value, typename Hash, typename Equal>
internal::Engine::Tell Cache<Key, Value, Hash, Equal>::TellOf(
    const Hooks& hooks, Cache* cache) {
  if (!hooks.on_removal) return nullptr;
  return [cache](const internal::EntryHeader& header, RemovalCause cause) {
    const auto& entry = static_cast<const Entry&>(header);
    return internal::Contain(
        [&] { cache->hooks_.on_removal(entry.key(), entry.value(), cause); });
  };
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename OnHit>
bool Cache<Key, Value, Hash, Equal>::Read(const K& key, Use use,
                                          OnHit&& on_hit) const {
  static_assert(Checked<K>::kAreRight);
  const KeyHash hash = HashOf(key);
  Shard& shard = engine().ShardOf(hash);
  internal::ReadSection section(engine().copy());
  if (ABSL_PREDICT_TRUE(!section.nested())) {
    Shard::Found found = shard.FindAtHome(
        hash.for_index, section,
        [&](const internal::EntryHeader& entry)
            ABSL_ATTRIBUTE_ALWAYS_INLINE { return HasKey(entry, key); });
    if (ABSL_PREDICT_FALSE(!found.decided())) {
      found.ref = FindBeyondHome(key, shard, hash.for_index,
                                 {section.record(), found.rest});
      found.entry = &engine().pool().At(found.ref);
    }
    internal::Interleave("read: between index and deadline");
    if (found.ref != 0 && !found.entry->is_placeholder() &&
        engine().IsLive(found, use)) {
      if (use == Use::kCount) {
        engine().CountHit(*section.record());
        shard.RecordUse(found, hash.for_index);
      }
      on_hit(found.ref, static_cast<const Entry&>(*found.entry));
      return true;
    }
    if (found.ref == 0 && engine().MissIsSure()) {
      if (use == Use::kCount) engine().CountMiss();
      return false;
    }
    if (found.ref == 0 && engine().RecordSureMiss(hash.for_index, use)) {
      return false;
    }
    // Three kinds of misses are sure under the lock alone. A Clear that has
    // emptied this shard may not have emptied others: a thread that has seen
    // the one must not see the other. An entry whose time had come when the
    // clock was read may have been replaced or touched before that. And where
    // the index had the tag of an entry, a load of the same key may have taken
    // the cell.
  }
  // Also within another read of this thread, whose entry the section has to
  // protect.
  internal::Interleave("read: before the lock");
  const EntryRef ref = FindAndPin(key, use);
  if (ref == 0) {
    engine().RecordMiss(hash.for_index, use);
    return false;
  }
  const Handle handle = HandleOf(ref);
  if (use == Use::kCount) {
    engine().CountHit(*section.record());
  }
  on_hit(ref, At(ref));
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
internal::EntryRef Cache<Key, Value, Hash, Equal>::FindBeyondHome(
    const K& key, const Shard& shard, internal::Hash32 hash, Undecided where) {
  return shard.FindBeyondHome(
      hash, internal::Announcement(where.reader), where.rest,
      [&](const internal::EntryHeader& entry) { return HasKey(entry, key); });
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
internal::EntryRef Cache<Key, Value, Hash, Equal>::FindAndPin(const K& key,
                                                              Use use) const {
  const auto query = Query(key);
  return engine().ShardOf(query.hash()).FindAndPin(query, use);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
CacheHandle<Key, Value> Cache<Key, Value, Hash, Equal>::Find(const K& key) {
  Handle handle;
  const bool found = Read(key, Use::kCount, [&](EntryRef ref, const Entry&) {
    if (engine().pool().TryPin(ref)) handle = HandleOf(ref);
  });
  if (ABSL_PREDICT_FALSE(found && !handle)) {
    handle = FindUnderLock(key);
    if (!handle) engine().RecordMissForHit(HashOf(key).for_index);
  }
  return handle;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename Keys>
size_t Cache<Key, Value, Hash, Equal>::FindMany(const Keys& keys,
                                                absl::Span<Handle> handles) {
  // About as many cache misses as a core has in flight, and few enough that the
  // first lines are still there when the last ones have come.
  constexpr size_t kAtATime = 32;
  assert(std::size(keys) == handles.size());
  KeyHash hashes[kAtATime];
  size_t found = 0;
  for (size_t begin = 0; begin < std::size(keys); begin += kAtATime) {
    const size_t count = std::min(std::size(keys) - begin, kAtATime);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = HashOf(keys[begin + i]);
      engine().ShardOf(hashes[i]).PrefetchBucket(hashes[i].for_index);
    }
    {
      const internal::ReadSection section(engine().copy());
      for (size_t i = 0; i < count; ++i) {
        engine().ShardOf(hashes[i]).PrefetchEntries(hashes[i].for_index);
      }
    }
    internal::Interleave("find many: after it has prefetched");
    for (size_t i = 0; i < count; ++i) {
      Handle& handle = handles[begin + i];
      handle = Find(keys[begin + i]);
      if (handle) ++found;
    }
  }
  return found;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
std::optional<absl::Duration> Cache<Key, Value, Hash, Equal>::TimeToLive(
    const K& key) const {
  int64_t deadline = 0;
  while (Read(key, Use::kIgnore, [&](EntryRef, const Entry& entry) {
    deadline = entry.deadline();
  })) {
    if (deadline == Clock::kNever) return absl::InfiniteDuration();
    internal::Interleave("time to live: between deadline and clock");
    const absl::Duration left =
        absl::Nanoseconds(deadline) - engine().clock().Now();
    if (left > absl::ZeroDuration()) return left;
    // Looks again: the value has expired, or has a later deadline by now.
  }
  return std::nullopt;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
inline void Cache<Key, Value, Hash, Equal>::Make(K&& key, V&& value,
                                                 Shard::Write* write) const {
  static_assert(
      Checked<std::remove_cv_t<std::remove_reference_t<K>>>::kAreRight);
  static_assert(internal::kMakes<Key, K>,
                "this does not convert to the cache's Key by itself: make a "
                "Key of it first");
  static_assert(internal::kMakes<Value, V>,
                "this does not convert to the cache's Value by itself: make a "
                "Value of it first");
  write->hash = HashOf(key);
  engine().ShardOf(write->hash).PrefetchForStore(write->hash.for_index);
  internal::Footprint footprint;
  write->ref =
      internal::MakeEntry<Key, Value>(&engine().pool(), std::forward<K>(key),
                                      std::forward<V>(value), &footprint);
  write->SetWeight(engine().pool().MemoryOf(footprint));
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
bool Cache<Key, Value, Hash, Equal>::Set(K&& key, V&& value,
                                         std::optional<absl::Duration> ttl) {
  Shard::Write write;
  Make(std::forward<K>(key), std::forward<V>(value), &write);
  write.ttl_nanos =
      ttl ? Clock::NanosAfter(0, *ttl) : engine().default_ttl_nanos();
  return Store(&write) == Put::kStored;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
Put Cache<Key, Value, Hash, Equal>::SetIf(K&& key, const Handle& expected,
                                          V&& value,
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
    write.ttl_nanos = expected ? Clock::kNever : engine().default_ttl_nanos();
  }
  Make(std::forward<K>(key), std::forward<V>(value), &write);
  return Store(&write);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
Put Cache<Key, Value, Hash, Equal>::SetIf(K&& key, const Handle& expected,
                                          V&& value, Deadline deadline) {
  Shard::Condition condition;
  if (expected) {
    if (!IsOwn(expected)) return Put::kLost;
    condition.entry = expected.ref_;
  }
  Shard::Write write;
  write.condition = &condition;
  const internal::EntryPool& pool = engine().pool();
  const int64_t nanos = Clock::NanosAfter(0, deadline.reading);
  const int64_t now = engine().clock().NowNanos();
  int64_t end = nanos;
  int64_t used = now;
  if (pool.idle().on()) {
    const int64_t unused = Clock::NanosAfter(0, deadline.if_unused);
    end = std::min(end, unused);
    if (unused < nanos) used = std::min(used, pool.idle().UseBefore(unused));
  }
  write.ttl_nanos = end > now ? Clock::kNever : 0;
  Make(std::forward<K>(key), std::forward<V>(value), &write);
  // A shard draws none where there is one already.
  pool.SetDeadline(&engine().pool().At(write.ref), nanos, used);
  return Store(&write);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename Function>
bool Cache<Key, Value, Hash, Equal>::Update(const K& key, Function&& decide) {
  using Kind = typename Decision::Kind;
  for (Handle old = Find(key);; old = FindUnderLock(key)) {
    Decision decision = decide(old);
    if (decision.kind_ == Kind::kKeep) return false;
    internal::Interleave("update: between decision and write");
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
Put Cache<Key, Value, Hash, Equal>::Store(Shard::Write* write) {
  absl::Cleanup unpin = [&] { engine().pool().Unpin(write->ref); };
  if (hooks_.weigher && write->ttl_nanos > 0) {
    const Entry& entry = At(write->ref);
    write->SetWeight(hooks_.weigher(entry.key(), entry.value()));
  }
  const Put put = engine().Store(write);
  if (put == Put::kStored) std::move(unpin).Cancel();
  return put;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename Function>
bool Cache<Key, Value, Hash, Equal>::ForEach(Function&& function) {
  internal::Iteration iteration = engine().Iterate();
  while (const EntryRef ref = iteration.Next()) {
    const Handle handle = HandleOf(ref);
    // Time has passed since it was pinned, in calls of the function.
    const Shard::Found found{ref, &engine().pool().At(ref), true, {}};
    if (!engine().IsLive(found, Use::kIgnore)) {
      const auto query = Query(handle.key());
      if (!engine().ShardOf(query.hash()).Holds(query, ref)) continue;
    }
    bool go_on;
    if constexpr (std::is_invocable_v<Function&, const Handle&, uint32_t>) {
      go_on = function(handle, iteration.RankOf(ref));
    } else {
      go_on = function(handle);
    }
    if (!go_on) return false;
  }
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename Predicate>
int64_t Cache<Key, Value, Hash, Equal>::EraseIf(Predicate&& predicate) {
  engine().SupersedeLoads();
  int64_t erased = 0;
  ForEach([&](const Handle& handle) {
    if (predicate(handle)) erased += DelIf(handle.key(), handle) ? 1 : 0;
    return true;
  });
  return erased;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_
