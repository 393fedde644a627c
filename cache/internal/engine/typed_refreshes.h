// Refreshes values before they expire, while readers go on with the old ones;
// what that promises is in cache/load.h.
//
// A refresh is a load (cache/internal/loads/load.h) that begins while the old
// value lives, so what supersedes a load supersedes it. It is queued until
// somebody runs it; a miss that comes first takes its place.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_REFRESHES_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_REFRESHES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/engine/typed_lead.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

template <typename Key, typename Value, typename Hash, typename Equal>
class TypedRefreshes {
 public:
  using Engine = TypedEngine<Key, Value, Hash, Equal>;
  using Handle = CacheHandle<Key, Value>;
  using Result = absl::StatusOr<Loaded<Value>>;
  using Reload =
      std::function<absl::StatusOr<Loaded<Value>>(View<Key>, View<Value> old)>;
  using Executor = std::function<void(std::function<void()> task)>;

  TypedRefreshes(Engine* engine, Reload reload, Executor executor)
      : engine_(*engine),
        reload_(std::move(reload)),
        executor_(std::move(executor)),
        after_nanos_(Clock::NanosAfter(0, options().refresh_after)),
        retry_nanos_(Clock::NanosAfter(0, options().retry_after)) {}

  // Refreshes the value that the handle pins, or has the executor do so, if it
  // is old enough and nobody else does. Returns the new value, or the old one.
  Handle RefreshIfStale(Handle old) {
    if (!IsStale(engine_.EntryOf(old))) return old;
    engine_.engine().CountEvent(Count::kStaleHits);
    // Most find that, and have written nothing so far.
    if (engine_.IsKeptFromRefresh(old.key())) return old;
    return Begin(std::move(old), /*at_once=*/false).handle;
  }

  // The same, however young it is and whatever has failed before. Returns
  // whether a refresh has begun.
  bool RefreshNow(Handle old) {
    return Begin(std::move(old), /*at_once=*/true).began;
  }

 private:
  using Lead = TypedLead<Key, Value, Hash, Equal>;

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
    if (age >= after_nanos_) return true;
    const int64_t deadline = entry.deadline();
    if (options().refresh_at >= 1 || deadline == Clock::kNever) return false;
    const auto past = static_cast<double>(age);
    const double left =
        static_cast<double>(deadline) - static_cast<double>(now);
    return past >= options().refresh_at * (past + left);
  }

  struct Begun {
    Handle handle;
    bool began = false;
  };
  Begun Begin(Handle old, bool at_once);

  // Returns null if too many refreshes run, or are queued.
  std::shared_ptr<void> TakeSlot() {
    const std::shared_ptr<LoadGates>& gates = engine_.engine().load_gates();
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
  // empty handle, and whether it has called reload. `refreshes` may have ended.
  static Begun Run(TypedRefreshes* refreshes, Task* task);

  const CacheOptions& options() const { return engine_.engine().options(); }
  Clock& clock() const { return engine_.engine().clock(); }

  Engine& engine_;
  const Reload reload_;
  const Executor executor_;  // Empty: the caller itself.
  const int64_t after_nanos_;
  const int64_t retry_nanos_;
};

template <typename Key, typename Value, typename Hash, typename Equal>
typename TypedRefreshes<Key, Value, Hash, Equal>::Begun
TypedRefreshes<Key, Value, Hash, Equal>::Begin(Handle old, bool at_once) {
  std::shared_ptr<void> slot = TakeSlot();
  if (slot == nullptr || engine_.engine().load_gates()->refreshes.closed()) {
    return {std::move(old), false};
  }
  Handle mine = engine_.NewPlaceholder(old.key(), Load::Leader::kTicket);
  Interleave("refresh: between claim and queue");
  Shard::NewLoad load;
  load.placeholder = Engine::RefOf(mine);
  load.refreshes = Engine::RefOf(old);
  load.at_once = at_once;
  const View<Key> key = old.key();
  if (engine_.engine().BeginLoad(Engine::Query(key), load) == 0) {
    return {std::move(old), false};
  }
  // First: it ends the load even where there is no memory for the task.
  Lead lead(&engine_, std::move(mine), LoadOptions(), retry_nanos_);
  const std::shared_ptr<Task> task(
      new Task{std::move(slot), std::move(lead), Engine::Share(old)});
  if (executor_ == nullptr) {
    Begun begun = Run(this, task.get());
    if (!begun.handle) begun.handle = std::move(old);
    return begun;
  }
  const bool taken =
      Contain([&] { executor_([this, task] { Run(this, task.get()); }); });
  return {std::move(old), taken};
}

template <typename Key, typename Value, typename Hash, typename Equal>
typename TypedRefreshes<Key, Value, Hash, Equal>::Begun
TypedRefreshes<Key, Value, Hash, Equal>::Run(TypedRefreshes* refreshes,
                                             Task* task) {
  // In this order: the slot is free when the load has ended.
  const std::shared_ptr<void> slot = std::move(task->slot);
  Lead lead = std::move(task->lead);
  if (lead.empty()) return {};
  const Handle placeholder = Engine::Share(lead.placeholder());
  Load& load = Engine::LoadOf(placeholder);
  Interleave("refresh: before it starts");
  const Gate::Visit visit(&load.gates().refreshes);
  if (!visit.admitted()) return {};
  internal::Engine& engine = refreshes->engine_.engine();
  const KeyHash hash = Engine::HashOf(placeholder);
  if (!engine.ShardOf(hash).StartRefresh(Engine::RefOf(placeholder),
                                         hash.for_index)) {
    return {};
  }
  load.LeadFromThisThread();
  engine.CountEvent(Count::kRefreshes);
  Interleave("refresh: before reload");
  std::optional<Result> result;  // Values need not be assignable.
  Contain([&] {
    result.emplace(refreshes->reload_(task->old.key(), task->old.value()));
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

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_REFRESHES_H_
