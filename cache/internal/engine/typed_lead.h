// The duty to load one key (cache/load.h), of the caller whose load it is: one
// that runs a loader, has a ticket, or refreshes.
//
// The load ends in every case: with a value, an error, or as given up. First
// the value is stored and the load removed from its shard, then the callers
// that wait get the result.
//
// Threads. Belongs to one thread at a time.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LEAD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LEAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/engine/typed_engine.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Movable. Ends the load as cancelled, if that was not done before. May outlive
// the cache: then it stores nothing, and the callers that wait get the result
// all the same.
template <typename Key, typename Value, typename Hash, typename Equal>
class TypedLead {
 public:
  using Engine = TypedEngine<Key, Value, Hash, Equal>;
  using LoadType = TypedLoad<Key, Value, Equal>;
  using LoadTypePtr = std::shared_ptr<LoadType>;
  using Handle = CacheHandle<Key, Value>;
  using Result = absl::StatusOr<Loaded<Value>>;
  using Loader = absl::FunctionRef<Result()>;

  TypedLead() = default;
  TypedLead(Engine* engine, LoadTypePtr load, const LoadOptions& options)
      : engine_(engine),
        home_(engine->engine().load_home()),
        load_(std::move(load)),
        options_(options) {}
  TypedLead(TypedLead&& other) noexcept = default;
  TypedLead& operator=(TypedLead&& other) noexcept {
    TypedLead old(std::move(other));
    std::swap(engine_, old.engine_);
    std::swap(home_, old.home_);
    std::swap(load_, old.load_);
    std::swap(options_, old.options_);
    return *this;
  }
  ~TypedLead() {
    if (!empty()) Finish(Load::GivenUp());
  }

  bool empty() const { return load_ == nullptr; }
  const Key& key() const { return load_->key(); }  // REQUIRES: not empty.

  const LoadTypePtr& load() const { return load_; }
  const std::shared_ptr<LoadHome>& home() const { return home_; }

  // Has `done` told of the end.
  void WhenDone(Load::Done done) { load_->WhenDone(std::move(done)); }

  // Ends the load. Returns whether the value is in the cache.
  bool Finish(Result result);

  // The same, and returns what those get who wait.
  absl::StatusOr<Handle> FinishAndGet(Result result) {
    // Another caller may lead on.
    if (absl::IsCancelled(result.status())) {
      absl::Status status = result.status();
      Finish(std::move(result));
      return status;
    }
    const LoadTypePtr load = load_;
    Finish(std::move(result));
    return ResultOf(*load, *home_);
  }

  // The same with the result of a loader.
  absl::StatusOr<Handle> Run(Loader loader) {
    const FailOnException fail(absl::MakeSpan(this, 1));
    return FinishAndGet(loader());
  }

  // What a load that has ended gives to each caller.
  static absl::StatusOr<Handle> ResultOf(const Load& load,
                                         const LoadHome& home) {
    if (load.ref() == 0) return load.status();
    home.pool->Pin(load.ref());
    return Engine::NewHandle(home.pool, load.ref(), home.clock);
  }

  // Ends what an exception has left unfinished.
  class FailOnException {
   public:
    explicit FailOnException(absl::Span<TypedLead> leads) : leads_(leads) {}
    FailOnException(const FailOnException&) = delete;
    FailOnException& operator=(const FailOnException&) = delete;
    ~FailOnException() {
      for (TypedLead& lead : leads_) {
        if (!lead.empty()) lead.FailForGood();
      }
    }

   private:
    const absl::Span<TypedLead> leads_;
  };

 private:
  struct Ending;
  struct Removal;

  void FailForGood() {
    options_.error_ttl = absl::ZeroDuration();
    Finish(Load::Thrown());
  }
  void Cancel(const LoadTypePtr& load, const absl::Status& status);
  bool Store(const LoadTypePtr& load, Loaded<Value>* loaded,
             const Gate::Visit& visit, EntryRef* ref);
  int64_t TtlNanos(const Loaded<Value>& loaded) const {
    if (loaded.ttl.has_value()) return Clock::NanosAfter(0, *loaded.ttl);
    if (options_.ttl.has_value()) return Clock::NanosAfter(0, *options_.ttl);
    return engine_->engine().default_ttl_nanos();
  }

  Engine* engine_ = nullptr;  // For visitors of the gate.
  std::shared_ptr<LoadHome> home_;
  LoadTypePtr load_;
  LoadOptions options_;
};

// Ends a load last, in every case.
template <typename Key, typename Value, typename Hash, typename Equal>
struct TypedLead<Key, Value, Hash, Equal>::Ending {
  explicit Ending(LoadPtr ended) : load(std::move(ended)) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() { load->End(std::move(status), ref); }

  const LoadPtr load;
  absl::Status status = Load::Thrown();
  EntryRef ref = 0;
};

// Before that, removes it from the cache, if that still lives.
template <typename Key, typename Value, typename Hash, typename Equal>
struct TypedLead<Key, Value, Hash, Equal>::Removal {
  Removal(Engine* cache, const LoadTypePtr& removed)
      : engine(cache), load(removed) {}
  Removal(const Removal&) = delete;
  Removal& operator=(const Removal&) = delete;
  ~Removal() {
    Shard& shard = engine->engine().ShardOf(load->key_hash());
    // Not a refresh that nobody has run.
    if (!load->is_queued()) engine->engine().CountLoad(*load, failed);
    if (remember_nanos > 0) {
      shard.EndLoad(load, Clock::NanosAfter(engine->engine().clock().NowNanos(),
                                            remember_nanos));
    } else {
      shard.EndLoad(load);
    }
  }

  Engine* const engine;
  const LoadTypePtr& load;
  int64_t remember_nanos = 0;
  bool failed = true;
};

template <typename Key, typename Value, typename Hash, typename Equal>
bool TypedLead<Key, Value, Hash, Equal>::Finish(Result result) {
  const LoadTypePtr load = std::move(load_);
  load_ = nullptr;
  if (absl::IsCancelled(result.status())) {
    Cancel(load, result.status());
    return false;
  }
  // In this order: what is called at the end may destroy the cache.
  Ending ending(load);
  const Gate::Visit visit(&home_->gate);
  std::optional<Removal> removal;
  if (visit.admitted()) removal.emplace(engine_, load);
  if (!result.ok()) {
    ending.status = result.status();
    if (removal.has_value()) {
      removal->remember_nanos = Clock::NanosAfter(0, options_.error_ttl);
    }
    return false;
  }
  const bool stored = Store(load, &*result, visit, &ending.ref);
  if (removal.has_value()) removal->failed = false;
  return stored;
}

// Makes an entry of the value, of which *ref gets a pin, and stores it, if the
// cache still lives. Returns whether it is in the cache.
template <typename Key, typename Value, typename Hash, typename Equal>
bool TypedLead<Key, Value, Hash, Equal>::Store(const LoadTypePtr& load,
                                               Loaded<Value>* loaded,
                                               const Gate::Visit& visit,
                                               EntryRef* ref) {
  EntryPool* const pool = home_->pool;
  struct Pin {
    ~Pin() {
      if (ref != 0) pool->UnpinOutside(ref);
    }
    EntryPool* pool;
    EntryRef ref;
  };
  Footprint footprint;
  Pin pin{pool, MakeEntry<Key, Value>(pool, load->key(),
                                      std::move(loaded->value), &footprint)};
  pool->Pin(pin.ref);
  EntryHeader& entry = pool->At(pin.ref);
  entry.SetCreated(CreationTimeAt(load->begin_nanos()));
  pool->SetNoCharge(pin.ref);
  bool stored = false;
  if (visit.admitted()) {
    const LoadPtr untyped = load;
    Shard::Write write;
    write.ref = pin.ref;
    write.hash = load->key_hash();
    write.ttl_nanos = TtlNanos(*loaded);
    write.load = &untyped;
    write.SetWeight(EntryPool::MemoryOf(footprint));
    stored = engine_->Store(&write) == Put::kStored;
  } else {
    pool->Unpin(pin.ref);
  }
  if (!stored) {
    // Not published. Its handles show that it has expired: it may not be kept.
    entry.deadline_nanos.store(load->begin_nanos(), std::memory_order_relaxed);
  }
  *ref = std::exchange(pin.ref, 0);
  return stored;
}

template <typename Key, typename Value, typename Hash, typename Equal>
void TypedLead<Key, Value, Hash, Equal>::Cancel(const LoadTypePtr& load,
                                                const absl::Status& status) {
  std::vector<Load::Done> done;
  if (!load->EndOrHandOver(status, &done)) return;
  Interleave("load: cancelled");
  {
    const Gate::Visit visit(&home_->gate);
    if (visit.admitted()) const Removal removal(engine_, load);
  }
  load->Tell(&done);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_TYPED_LEAD_H_
