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

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/refresh_ahead.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/engine/typed_lead.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/loads/refresh_board.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

template <typename Key, typename Value, typename Hash, typename Equal>
class TypedRefreshes final : public RefreshAhead<Key, Value> {
 public:
  using Engine = TypedEngine<Key, Value, Hash, Equal>;
  using Handle = CacheHandle<Key, Value>;
  using Result = absl::StatusOr<Loaded<Value>>;
  using Reload = typename RefreshAhead<Key, Value>::Function;
  using Executor = typename RefreshAhead<Key, Value>::Executor;

  TypedRefreshes(Engine* engine, Reload reload, Executor executor)
      : engine_(*engine),
        reload_(std::move(reload)),
        executor_(std::move(executor)),
        after_nanos_(Clock::NanosAfter(0, options().refresh_after)),
        retry_nanos_(Clock::NanosAfter(0, options().retry_after)) {
    engine_.engine().load_home()->board =
        std::make_unique<RefreshBoard>(options().max_refreshes);
  }

  Handle RefreshIfStale(Handle old) override {
    if (!IsStale(engine_.EntryOf(old))) return old;
    engine_.engine().CountEvent(Count::kStaleHits);
    return Begin(std::move(old), RefreshBoard::Patience::kWaits).handle;
  }

  bool RefreshNow(Handle old) override {
    return Begin(std::move(old), RefreshBoard::Patience::kWaitsNot).began;
  }

 private:
  using Lead = TypedLead<Key, Value, Hash, Equal>;
  using LoadType = TypedLoad<Key, Value, Equal>;

  // A refresh that is queued. What it has not done when it is dropped, nobody
  // does.
  struct Task {
    Task(Lead task_lead, Handle old_value, RefreshBoard::Claim task_claim)
        : home(task_lead.home()),
          lead(std::move(task_lead)),
          old(std::move(old_value)),
          claim(std::move(task_claim)) {}

    const std::shared_ptr<LoadHome> home;  // Of the claim.
    Lead lead;
    const Handle old;
    RefreshBoard::Claim claim;
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
  Begun Begin(Handle old, RefreshBoard::Patience patience);

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
TypedRefreshes<Key, Value, Hash, Equal>::Begin(
    Handle old, RefreshBoard::Patience patience) {
  const auto& home = engine_.engine().load_home();
  const int64_t now_nanos = clock().NowNanos();
  const KeyHash hash = HashKey<Hash>(old.key());
  RefreshBoard::Claim claim = home->board->TryClaim(
      hash.for_index, now_nanos, Clock::NanosAfter(now_nanos, retry_nanos_),
      patience);
  if (!claim || home->refreshes.closed()) return {std::move(old), false};
  const auto load = std::make_shared<LoadType>(
      Key(old.key()), hash,
      typename LoadType::Setting{home->pool, now_nanos, Load::Leader::kTicket});
  Interleave("refresh: between claim and queue");
  if (!engine_.engine().ShardOf(hash).QueueRefresh(Engine::Query(load->key()),
                                                   load, Engine::RefOf(old))) {
    claim.Release();
    return {std::move(old), false};
  }
  const auto task =
      std::make_shared<Task>(Lead(&engine_, load, LoadOptions()),
                             engine_.Share(old), std::move(claim));
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
  Lead lead = std::move(task->lead);
  if (lead.empty()) return {};
  const auto& home = task->home;
  const auto load = lead.load();
  Interleave("refresh: before it starts");
  const Gate::Visit visit(&home->refreshes);
  if (!visit.admitted()) return {};
  Engine& engine = refreshes->engine_;
  if (!engine.engine().ShardOf(load->key_hash()).StartRefresh(load)) {
    task->claim.Release();
    return {};
  }
  load->LeadFromThisThread();
  engine.engine().CountEvent(Count::kRefreshes);
  Interleave("refresh: before reload");
  std::optional<Result> result;  // Values need not be assignable.
  Contain([&] {
    result.emplace(refreshes->reload_(task->old.key(), task->old.value()));
  });
  if (!result.has_value()) result.emplace(Load::Thrown());
  const int64_t retry_nanos =
      Clock::NanosAfter(refreshes->clock().NowNanos(), refreshes->retry_nanos_);
  Interleave("refresh: after reload");
  const bool loaded = result->ok();
  bool stored = false;
  // Even if that throws, the load ends. Then the cache may, too.
  const bool ended = Contain([&] { stored = lead.Finish(*std::move(result)); });
  if (stored) {
    task->claim.Release();
  } else {
    task->claim.RetryAt(retry_nanos);
  }
  if (!loaded || !ended) return {Handle(), true};
  return {*Lead::ResultOf(*load, *home), true};
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_REFRESHES_H_
