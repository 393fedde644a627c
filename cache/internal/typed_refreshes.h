// Refreshes values before they expire, while readers go on with the old ones;
// what that promises is in cache/load.h.
//
// A refresh is a load (cache/internal/loads/load.h) that begins while the old
// value lives, so what supersedes a load supersedes it. It is queued until
// somebody runs it; a miss that comes first takes its place.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_TYPED_REFRESHES_H_
#define WHEELCACHE_CACHE_INTERNAL_TYPED_REFRESHES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/typed_lead.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

template <typename Cache>
class TypedRefreshes {
 public:
  using Key = typename Cache::KeyType;
  using Value = typename Cache::ValueType;
  using Handle = typename Cache::Handle;

  explicit TypedRefreshes(Cache* cache) : cache_(*cache) {}

  // Returns the value that the handle pins; or, if the cache has a hook for it
  // and the value is old enough and nobody else does, refreshes it or has the
  // executor do so, and returns the new one or the old one.
  Handle RefreshIfStale(Handle old) {
    if (!cache_.may_refresh() || !IsStale(old.entry())) return old;
    cache_.engine().CountEvent(Count::kStaleHits);
    // Most find that, and have written nothing so far.
    if (IsKeptFromRefresh(old.key())) return old;
    return Begin(std::move(old), /*at_once=*/false).handle;
  }

  // Begins to refresh the live value of the key, however young it is and
  // whatever has failed before. Returns whether it has.
  template <typename K>
  bool Refresh(const K& key) {
    if (!cache_.may_refresh()) return false;
    Handle old = cache_.FindUnderLock(key);
    return old && Begin(std::move(old), /*at_once=*/true).began;
  }

 private:
  using Lead = TypedLead<Cache>;
  using Result = absl::StatusOr<Loaded<Value>>;

  // A refresh that is queued. What it has not done when it is dropped, nobody
  // does.
  struct Task {
    std::shared_ptr<void> slot;  // One of those that may run at a time.
    Lead lead;
    const Handle old;
  };

  bool IsStale(const EntryHeader& entry) const {
    const int64_t now = clock().CoarseNowNanos();
    const int64_t age = AgeNanos(entry.created(), now);
    if (age >= Clock::NanosAfter(0, options().refresh_after)) return true;
    const int64_t deadline = cache_.engine().pool().HardDeadlineOf(entry);
    if (options().refresh_at >= 1 || deadline == Clock::kNever) return false;
    const auto past = static_cast<double>(age);
    const double left =
        static_cast<double>(deadline) - static_cast<double>(now);
    return past >= options().refresh_at * (past + left);
  }

  // Whether the key has a placeholder that keeps its value from being
  // refreshed. Takes no lock, and may say no within a read of this thread.
  bool IsKeptFromRefresh(View<Key> key) const;

  struct Begun {
    Handle handle;
    bool began = false;
  };
  Begun Begin(Handle old, bool at_once);

  // Returns null if too many refreshes run, or are queued.
  std::shared_ptr<void> TakeSlot() {
    const std::shared_ptr<LoadGates>& gates = cache_.engine().load_gates();
    std::atomic<int>& taken = gates->refreshes_begun;
    if (taken.fetch_add(1, std::memory_order_relaxed) >=
        options().max_refreshes) {
      taken.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    return std::shared_ptr<void>(&taken, [gates](void*) {
      gates->refreshes_begun.fetch_sub(1, std::memory_order_relaxed);
    });
  }

  // Runs a task, unless that was done before. Returns the new value, or an
  // empty handle, and whether it has called the hook. The cache may have ended.
  static Begun Run(Cache* cache, Task* task);

  const CacheOptions& options() const { return cache_.engine().options(); }
  Clock& clock() const { return cache_.engine().clock(); }

  Cache& cache_;
};

template <typename Cache>
bool TypedRefreshes<Cache>::IsKeptFromRefresh(View<Key> key) const {
  const KeyHash hash = Cache::HashOf(key);
  const Shard& shard = cache_.engine().ShardOf(hash);
  const ReadSection section(cache_.engine().copy());
  if (section.nested()) return false;
  Interleave("refresh: before the look for another");
  const EntryRef placeholder =
      Cache::FindBeyondHome(key, shard, PlaceholderHash(hash.for_index),
                            {section.record(), Index::Rest()});
  // A new value of the key may have taken its cell.
  return placeholder != 0 &&
         cache_.engine().pool().At(placeholder).is_placeholder() &&
         shard.KeepsFromRefresh(placeholder);
}

template <typename Cache>
typename TypedRefreshes<Cache>::Begun TypedRefreshes<Cache>::Begin(
    Handle old, bool at_once) {
  std::shared_ptr<void> slot = TakeSlot();
  if (slot == nullptr || cache_.engine().load_gates()->refreshes.closed()) {
    return {std::move(old), false};
  }
  const View<Key> key = old.key();
  Handle mine = Lead::NewPlaceholder(cache_, key, Load::Leader::kTicket);
  Interleave("refresh: between claim and queue");
  Shard::NewLoad load;
  load.placeholder = mine.ref_;
  load.refreshes = old.ref_;
  load.at_once = at_once;
  if (cache_.engine().BeginLoad(Cache::Query(key), load) == 0) {
    return {std::move(old), false};
  }
  // First: it ends the load even where there is no memory for the task.
  Lead lead(&cache_, std::move(mine), LoadOptions(),
            Clock::NanosAfter(0, options().retry_after));
  const auto& executor = cache_.hooks_.executor;
  const std::shared_ptr<Task> task(
      new Task{std::move(slot), std::move(lead), old.Share()});
  if (executor == nullptr) {
    Begun begun = Run(&cache_, task.get());
    if (!begun.handle) begun.handle = std::move(old);
    return begun;
  }
  const bool taken = Contain(
      [&] { executor([cache = &cache_, task] { Run(cache, task.get()); }); });
  return {std::move(old), taken};
}

template <typename Cache>
typename TypedRefreshes<Cache>::Begun TypedRefreshes<Cache>::Run(Cache* cache,
                                                                 Task* task) {
  // In this order: the slot is free when the load has ended.
  const std::shared_ptr<void> slot = std::move(task->slot);
  Lead lead = std::move(task->lead);
  if (lead.empty()) return {};
  const Handle placeholder = lead.placeholder().Share();
  Load& load = Lead::LoadOf(placeholder);
  Interleave("refresh: before it starts");
  const Gate::Visit visit(&load.gates().refreshes);
  if (!visit.admitted()) return {};
  Engine& engine = cache->engine();
  const KeyHash hash = Cache::HashOf(placeholder.key());
  if (!engine.ShardOf(hash).StartRefresh(placeholder.ref_, hash.for_index)) {
    return {};
  }
  load.LeadFromThisThread();
  engine.CountEvent(Count::kRefreshes);
  Interleave("refresh: before reload");
  std::optional<Result> result;  // Values need not be assignable.
  Contain([&] {
    const Handle& old = task->old;
    const auto& hooks = cache->hooks_;
    result.emplace(hooks.reload ? hooks.reload(old.key(), old.value())
                                : hooks.load(old.key()));
  });
  if (!result.has_value()) result.emplace(Load::Thrown());
  Interleave("refresh: after reload");
  const bool loaded = result->ok();
  // Even if that throws, the load ends. Then the cache may, too.
  const bool ended = Contain([&] { lead.Finish(*std::move(result)); });
  if (!loaded || !ended) return {Handle(), true};
  return {*Lead::ResultOf(placeholder), true};
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_TYPED_REFRESHES_H_
