// The definitions of what a Cache does when it is called, and of its beginning
// and end; cache/cache.h shows the declarations, and alone includes this. What
// it does beside that is in cache_upkeep_impl.h.

#ifndef WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_
#define WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_

#include "wheelcache/cache/cache.h"

namespace wheelcache {

template <typename Key, typename Value, typename Hash, typename Equal>
absl::StatusOr<std::unique_ptr<Cache<Key, Value, Hash, Equal>>>
Cache<Key, Value, Hash, Equal>::Create(CacheOptions options, Hooks hooks) {
  if (auto status = ValidateCacheOptions(options); !status.ok()) return status;
  return absl::WrapUnique(new Cache(std::move(options), std::move(hooks)));
}

template <typename Key, typename Value, typename Hash, typename Equal>
Cache<Key, Value, Hash, Equal>::Cache(CacheOptions options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      clock_(*options_.clock),
      coarse_lag_nanos_(clock_.coarse_lag_nanos()),
      reclaim_delay_nanos_(Clock::NanosAfter(0, options_.reclaim_delay)),
      // It is up to the readers when a wait in limbo ends: asks now and then.
      limbo_delay_nanos_(Clock::NanosAfter(
          0, std::max(options_.reclaim_delay, absl::Milliseconds(10)))),
      shared_(options_, internal::ShardCount(options_),
              hooks_.weigher ? internal::Charges::kStored
                             : internal::Charges::kFromSizes,
              /*has_listener=*/hooks_.on_removal != nullptr,
              Shards::Bytes(internal::ShardCount(options_))),
      shard_mask_(static_cast<uint32_t>(shared_.shards) - 1),
      shards_(shared_.tables.ahead(), shared_.shards,
              [this](size_t i) {
                return ShardType(&shared_, static_cast<int>(i), options_);
              }),
      logger_(options_, clock_.NowNanos()) {
  if (options_.reaper != nullptr) {
    reaper_status_ = options_.reaper->Register(&client_);
    options_.reaper->WakeAt(&client_, logger_.due_nanos());
  }
}

template <typename Key, typename Value, typename Hash, typename Equal>
Cache<Key, Value, Hash, Equal>::~Cache() {
  Stop();
  // While the cache is whole, for destructors of values may call it; and again
  // for what they have Set.
  do {
    {
      Removed removed(shared_.pool.get(), &shared_.limbo);
      for (auto& shard : shards_) {
        shard.Lock();
        shard.TakeAllLocked(&removed);
        shard.Unlock();
      }
    }
    shared_.limbo.DestroyAll();
  } while (size() > 0 || !shared_.limbo.empty());
}

// What a call removes, and the room that it has in hand. At the end of the
// call, and be it an exception for want of memory, gives the room back, tells
// the listener, and has the reaper come for what is due in `shard`, if that is
// given. Nothing of this throws.
template <typename Key, typename Value, typename Hash, typename Equal>
class Cache<Key, Value, Hash, Equal>::Removals {
 public:
  explicit Removals(Cache* cache, const ShardType* shard = nullptr,
                    int64_t now_nanos = 0)
      : removed(cache->shared_.pool.get(), &cache->shared_.limbo),
        claim(&cache->shared_.budget),
        cache_(*cache),
        shard_(shard),
        now_nanos_(now_nanos) {}
  Removals(const Removals&) = delete;
  Removals& operator=(const Removals&) = delete;
  ~Removals() {
    // First: a listener that calls Set must find the room that is left.
    claim.GiveBack();
    cache_.Dispose(&removed);
    if (shard_ != nullptr) cache_.WakeReaperFor(*shard_, now_nanos_);
  }

  Removed removed;
  Claim claim;

 private:
  Cache& cache_;
  const ShardType* const shard_;
  const int64_t now_nanos_;
};

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
inline auto Cache<Key, Value, Hash, Equal>::PlaceOf(const K& key) const
    -> Place {
  const internal::KeyHash hash = internal::HashKey<Hash>(key);
  return {shards_[hash.for_shard & shard_mask_], hash.for_index};
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename OnHit>
bool Cache<Key, Value, Hash, Equal>::Read(const K& key, Recency recency,
                                          OnHit&& on_hit) const {
  const Place place = PlaceOf(key);
  internal::ReadSection section;
  if (ABSL_PREDICT_TRUE(!section.nested())) {
    const auto found = place.shard.Find(key, place.hash, &section);
    internal::Interleave("read: between index and deadline");
    if (found.ref != 0 && IsLive(*found.entry)) {
      if (recency == Recency::kUse && place.shard.Use(found, place.hash)) {
        CountUse();
      }
      on_hit(found.ref, *found.entry);
      return true;
    }
    if (found.ref == 0 &&
        ABSL_PREDICT_TRUE(!shared_.clearing.load(std::memory_order_acquire))) {
      return false;
    }
    // Two kinds of misses are sure under the lock alone. A Clear that this
    // shard has behind it may have others before it: nobody who has seen the
    // one may see the other. And an entry whose time had come at the look at
    // the clock may have been replaced or touched before it had.
  }
  // Here, too, within another read of this thread, whose entry the section has
  // to protect.
  internal::Interleave("read: before the lock");
  const EntryRef ref =
      place.shard.FindAndPin(key, place.hash, clock_, recency == Recency::kUse);
  if (ref == 0) return false;
  const Handle handle(shared_.pool.get(), ref, &clock_);
  on_hit(ref, shared_.pool->At(ref));
  return true;
}

// The coarse clock decides unless the deadline is within its lag.
template <typename Key, typename Value, typename Hash, typename Equal>
inline bool Cache<Key, Value, Hash, Equal>::IsLive(
    const EntryType& entry) const {
  const int64_t deadline = entry.deadline();
  if (deadline == Clock::kNever) return true;
  internal::Interleave("read: between deadline and clock");
  const int64_t coarse = clock_.CoarseNowNanos();
  if (deadline - coarse > coarse_lag_nanos_) return true;
  return deadline > coarse && deadline > clock_.NowNanos();
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
auto Cache<Key, Value, Hash, Equal>::Find(const K& key) -> Handle {
  Handle handle;
  CountRead(Read(key, Recency::kUse, [&](EntryRef ref, const EntryType&) {
    shared_.pool->Pin(ref);
    handle = Handle(shared_.pool.get(), ref, &clock_);
  }));
  return handle;
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K, typename V>
bool Cache<Key, Value, Hash, Equal>::Set(K&& key, V&& value,
                                         absl::Duration ttl) {
  const Place place = PlaceOf(key);
  place.shard.Prefetch(place.hash);
  const EntryRef ref =
      shared_.pool->New(std::forward<K>(key), std::forward<V>(value));
  return Store(ref, place, ttl, /*load=*/nullptr);
}

template <typename Key, typename Value, typename Hash, typename Equal>
bool Cache<Key, Value, Hash, Equal>::Store(EntryRef ref, Place place,
                                           absl::Duration ttl,
                                           const LoadPtr* load) {
  // Destroys the entry if it does not get into the cache.
  struct Unpin {
    ~Unpin() {
      if (ref != 0) pool->Unpin(ref);
    }
    internal::EntryPool<Key, Value>* pool;
    EntryRef ref;
  } unpin{shared_.pool.get(), ref};
  const bool lives = ttl > absl::ZeroDuration();
  const std::optional<uint32_t> charge = lives ? Weigh(ref) : std::nullopt;
  if (!charge.has_value()) {
    const View<Key> key = shared_.pool->At(ref).key();
    if (load == nullptr) {
      Remove(key, lives ? RemovalCause::kReplaced : RemovalCause::kDeleted);
    }
    return false;
  }
  typename ShardType::Write write;
  write.ref = ref;
  write.hash = place.hash;
  write.room = {1, *charge};
  write.ttl_nanos = ToNanos(ttl);
  write.now_nanos = clock_.NowNanos();
  write.load = load;
  shared_.pool->At(ref).created = internal::CreationTimeAt(write.now_nanos);
  return Publish(write, place.shard, &unpin.ref);
}

// Returns the charge of an entry, or nothing if no cache with these limits can
// hold it.
template <typename Key, typename Value, typename Hash, typename Equal>
inline std::optional<uint32_t> Cache<Key, Value, Hash, Equal>::Weigh(
    EntryRef ref) {
  const auto& entry = shared_.pool->At(ref);
  const uint64_t weight = hooks_.weigher
                              ? hooks_.weigher(entry.key(), entry.value())
                              : entry.Memory();
  const uint64_t overhead = hooks_.weigher ? kEntryOverhead : 0;
  const uint64_t most =
      std::min(static_cast<uint64_t>(shared_.budget.limit().bytes),
               uint64_t{std::numeric_limits<uint32_t>::max()});
  if (most < overhead || weight > most - overhead) return std::nullopt;
  const auto charge = static_cast<uint32_t>(weight + overhead);
  if (hooks_.weigher) shared_.pool->SetCharge(ref, charge);
  return charge;
}

template <typename Key, typename Value, typename Hash, typename Equal>
bool Cache<Key, Value, Hash, Equal>::Publish(
    const typename ShardType::Write& write, ShardType& home, EntryRef* own) {
  Removals removals(this, &home, write.now_nanos);
  internal::Publication outcome;
  do {
    outcome = home.Publish(write, &removals.claim, &removals.removed);
    if (outcome == internal::Publication::kReclaimOthers) {
      ReclaimAll(write.now_nanos, &removals);
    } else if (outcome == internal::Publication::kEvictOlder) {
      OldestBut(home).Evict(&removals.claim, &removals.removed);
    } else if (outcome == internal::Publication::kEvictOthers) {
      EvictFromOthers(home, &removals);
    }
  } while (outcome != internal::Publication::kDone &&
           outcome != internal::Publication::kSuperseded);
  if (outcome != internal::Publication::kDone) return false;
  *own = 0;
  counters_.Add(internal::Count::kSets);
  return true;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::ReclaimAll(int64_t now_nanos,
                                                Removals* removals) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (shared_.due.Get(static_cast<int>(i)) > now_nanos) continue;
    shards_[i].Reclaim(now_nanos, shared_.maintenance_budget, &removals->claim,
                       &removals->removed);
  }
}

// The shard, other than `home`, whose last entry is longest unused.
template <typename Key, typename Value, typename Hash, typename Equal>
auto Cache<Key, Value, Hash, Equal>::OldestBut(const ShardType& home) const
    -> ShardType& {
  int oldest = home.number() ^ 1;
  for (int i = 0; i < shared_.shards; ++i) {
    if (i != home.number() &&
        internal::IsOlderBy(shared_.uses.tail(i), shared_.uses.tail(oldest),
                            0)) {
      oldest = i;
    }
  }
  return shards_[oldest];
}

// Where `home` is empty and has no room. The victims come from the shards that
// follow it in turn.
template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::EvictFromOthers(const ShardType& home,
                                                     Removals* removals) {
  const size_t first = static_cast<size_t>(home.number()) + 1;
  for (size_t i = 0; i < shards_.size(); ++i) {
    ShardType& shard = shards_[(first + i) & (shards_.size() - 1)];
    if (&shard != &home && shard.Evict(&removals->claim, &removals->removed)) {
      return;
    }
  }
  // All that is left is in the claims of other Sets. One of two that wait for
  // each other's room has to let go.
  removals->claim.GiveBack();
  std::this_thread::yield();
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::Dispose(Removed* removed) {
  removed->Dispose([this](EntryRef ref, RemovalCause cause) {
    // The counters are in the order of the causes.
    counters_.Add(static_cast<internal::Count>(
        static_cast<int>(internal::Count::kExpired) + static_cast<int>(cause)));
    if (!hooks_.on_removal) return;
    const auto& entry = shared_.pool->At(ref);
    if (!internal::Contain(
            [&] { hooks_.on_removal(entry.key(), entry.value(), cause); })) {
      counters_.Add(internal::Count::kListenerExceptions);
    }
  });
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool Cache<Key, Value, Hash, Equal>::Remove(const K& key, RemovalCause cause) {
  const Place place = PlaceOf(key);
  const int64_t now_nanos = clock_.NowNanos();
  Removals removals(this, &place.shard, now_nanos);
  return place.shard.Remove(key, place.hash, now_nanos, cause, &removals.claim,
                            &removals.removed);
}

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
bool Cache<Key, Value, Hash, Equal>::Touch(const K& key, absl::Duration ttl) {
  if (ttl <= absl::ZeroDuration()) return Remove(key, RemovalCause::kDeleted);
  const Place place = PlaceOf(key);
  const bool live = place.shard.Touch(key, place.hash, ToNanos(ttl), clock_);
  if (live) WakeReaperFor(place.shard, clock_.NowNanos());
  return live;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void Cache<Key, Value, Hash, Equal>::Clear() {
  Removals removals(this, &shards_[0], clock_.NowNanos());
  for (auto& shard : shards_) shard.Lock();
  shared_.clearing.store(true, std::memory_order_relaxed);
  for (auto& shard : shards_) shard.TakeAllLocked(&removals.removed);
  shared_.clearing.store(false, std::memory_order_release);
  for (auto& shard : shards_) shard.Unlock();
}

template <typename Key, typename Value, typename Hash, typename Equal>
class Cache<Key, Value, Hash, Equal>::LoadScope {
 public:
  LoadScope(ShardType* shard, LoadPtr load)
      : shard_(*shard), load_(std::move(load)) {}
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;
  ~LoadScope() {
    if (finished_) return;
    shard_.EndLoad(load_);
    load_->Fail();
  }

  void Finish(absl::StatusOr<Value> result) {
    shard_.EndLoad(load_);
    load_->Finish(std::move(result));
    finished_ = true;
  }

 private:
  ShardType& shard_;
  const LoadPtr load_;
  bool finished_ = false;
};

template <typename Key, typename Value, typename Hash, typename Equal>
template <typename K>
absl::StatusOr<Value> Cache<Key, Value, Hash, Equal>::GetOrLoad(
    const K& key, absl::Duration ttl,
    absl::FunctionRef<absl::StatusOr<Value>()> loader) {
  if (std::optional<Value> value = Get(key)) return *std::move(value);
  const Place place = PlaceOf(key);
  const auto mine = std::make_shared<internal::Load<Key, Value>>(Key(key));
  EntryRef found = 0;
  const LoadPtr load =
      place.shard.JoinLoad(place.hash, clock_.NowNanos(), mine, &found);
  if (found != 0) return Value(*Handle(shared_.pool.get(), found, &clock_));
  if (load != mine) return load->Wait();
  LoadScope scope(&place.shard, mine);
  absl::StatusOr<Value> result = loader();
  if (result.ok()) {
    const EntryRef ref = shared_.pool->New(mine->key(), *result);
    Store(ref, place, ttl, &mine);
  }
  scope.Finish(result);
  return result;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_CACHE_IMPL_H_
