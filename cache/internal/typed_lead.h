// The duty to load one key (cache/load.h), of the caller whose load it is: one
// that runs a loader, has a ticket, or refreshes.
//
// The load ends in every case: with a value, an error, or as given up. First
// the value is stored and the load removed from its shard, then the callers
// that wait get the result.
//
// Threads. Belongs to one thread at a time.

#ifndef WHEELCACHE_CACHE_INTERNAL_TYPED_LEAD_H_
#define WHEELCACHE_CACHE_INTERNAL_TYPED_LEAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/types/conditional.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/requirements.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// Movable. Ends the load as cancelled, if that was not done before. May outlive
// the cache: then it stores nothing, and the callers that wait get the result
// all the same.
template <typename Cache>
class TypedLead {
 public:
  using Key = typename Cache::KeyType;
  using Value = typename Cache::ValueType;
  using Handle = typename Cache::Handle;
  using Result = absl::StatusOr<Loaded<Value>>;
  using Loader = absl::FunctionRef<Result(View<Key>)>;

  TypedLead() = default;
  // The placeholder of a load; if it is a refresh, the next one waits for
  // `retry_nanos` where this one fails.
  TypedLead(Cache* cache, Handle placeholder, const LoadOptions& options,
            int64_t retry_nanos = 0)
      : cache_(cache),
        placeholder_(std::move(placeholder)),
        options_(options),
        retry_nanos_(retry_nanos) {}
  TypedLead(TypedLead&& other) noexcept = default;
  TypedLead& operator=(TypedLead&& other) noexcept {
    TypedLead old(std::move(other));
    std::swap(cache_, old.cache_);
    std::swap(placeholder_, old.placeholder_);
    std::swap(options_, old.options_);
    std::swap(retry_nanos_, old.retry_nanos_);
    return *this;
  }
  ~TypedLead() {
    if (!empty()) Finish(Load::GivenUp());
  }

  // REQUIRES of all that follow, but for the end: not empty.
  bool empty() const { return !placeholder_; }
  View<Key> key() const { return placeholder_.key(); }

  // Pins the load; see ResultOf.
  const Handle& placeholder() const { return placeholder_; }

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
    const Handle placeholder = placeholder_.Share();
    Finish(std::move(result));
    return ResultOf(placeholder);
  }

  // The same with the result of a loader.
  absl::StatusOr<Handle> Run(Loader loader) {
    const FailOnException fail(absl::MakeSpan(this, 1));
    return FinishAndGet(loader(key()));
  }

  // A handle of a new placeholder, which has the cache's pin besides.
  template <typename K>
  static Handle NewPlaceholder(const Cache& cache, const K& key,
                               Load::Leader leader) {
    static_assert(kMakes<Key, const K&>,
                  "this does not convert to the cache's Key by itself: make a "
                  "Key of it first");
    const Engine& engine = cache.engine();
    const EntryRef ref = MakePlaceholder<Key, Value>(
        &engine.pool(), key,
        std::make_unique<Load>(&engine.pool(), engine.load_gates(),
                               engine.clock().NowNanos(), leader));
    engine.pool().Pin(ref);
    return cache.HandleOf(ref);
  }
  static Load& LoadOf(const Handle& placeholder) {
    return static_cast<Load&>(*placeholder.pool_->LoadOf(placeholder.ref_));
  }

  // What a load that has ended gives to each caller.
  static absl::StatusOr<Handle> ResultOf(const Handle& placeholder) {
    const Load& load = LoadOf(placeholder);
    if (load.ref() == 0) return load.status();
    return placeholder.Share(load.ref());
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

  void FailForGood() {
    options_.error_ttl = absl::ZeroDuration();
    Finish(Load::Thrown());
  }
  void Cancel(const Handle& placeholder, const absl::Status& status);
  bool Store(const Handle& placeholder, Loaded<Value>* loaded, Ending* ending);
  int64_t TtlNanos(const Loaded<Value>& loaded) const {
    if (loaded.ttl.has_value()) return Clock::NanosAfter(0, *loaded.ttl);
    if (options_.ttl.has_value()) return Clock::NanosAfter(0, *options_.ttl);
    return cache_->engine().default_ttl_nanos();
  }

  Cache* cache_ = nullptr;  // For visitors of the gate.
  Handle placeholder_;
  LoadOptions options_;
  int64_t retry_nanos_ = 0;
};

// Ends a load in every case: removes it from the cache, if that still lives,
// and gives those who wait the result.
template <typename Cache>
struct TypedLead<Cache>::Ending {
  Ending(const TypedLead* ending_lead, const Handle& placeholder)
      : lead(*ending_lead),
        load(LoadOf(placeholder)),
        ended{placeholder.ref_, Cache::HashOf(placeholder.key()),
              /*remember_nanos=*/0, lead.retry_nanos_},
        visit(std::in_place, &load.gates().whole) {}
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    if (visit->admitted()) {
      auto& engine = lead.cache_->engine();
      // Not a refresh that nobody has run.
      if (load.in_shard.state != Load::InShard::kQueued) {
        engine.CountLoad(load, failed);
      }
      engine.EndLoad(ended);
    }
    visit.reset();
    // Last: what is called may destroy the cache.
    if (!has_ended) load.End(std::move(status), ref);
  }

  const TypedLead& lead;
  Load& load;
  Shard::EndedLoad ended;
  std::optional<Gate::Visit> visit;
  bool has_ended = false;
  bool failed = true;
  absl::Status status = Load::Thrown();
  EntryRef ref = 0;
};

template <typename Cache>
bool TypedLead<Cache>::Finish(Result result) {
  const Handle placeholder = std::move(placeholder_);
  if (absl::IsCancelled(result.status())) {
    Cancel(placeholder, result.status());
    return false;
  }
  Ending ending(this, placeholder);
  if (!result.ok()) {
    ending.status = result.status();
    ending.ended.remember_nanos = Clock::NanosAfter(0, options_.error_ttl);
    return false;
  }
  const bool stored = Store(placeholder, &*result, &ending);
  ending.failed = false;
  return stored;
}

// Makes an entry of the value, of which *ending gets a pin, and stores it, if
// the cache still lives. Returns whether it is in the cache.
template <typename Cache>
bool TypedLead<Cache>::Store(const Handle& placeholder, Loaded<Value>* loaded,
                             Ending* ending) {
  EntryPool* const pool = placeholder.pool_;
  const int64_t begin_nanos = ending->load.begin_nanos();
  Footprint footprint;
  const EntryRef ref = MakeEntry<Key, Value>(
      pool, placeholder.key(), std::move(loaded->value), &footprint);
  pool->Pin(ref);
  absl::Cleanup unpin = [pool, ref] { pool->UnpinOutside(ref); };
  EntryHeader& entry = pool->At(ref);
  entry.SetCreated(CreationTimeAt(begin_nanos));
  pool->SetNoCharge(ref);
  bool stored = false;
  if (ending->visit->admitted()) {
    Shard::Write write;
    write.ref = ref;
    write.hash = ending->ended.of_key;
    write.ttl_nanos = TtlNanos(*loaded);
    write.load = ending->ended.placeholder;
    write.SetWeight(pool->MemoryOf(footprint));
    stored = cache_->Store(&write) == Put::kStored;
  } else {
    pool->Unpin(ref);
  }
  if (!stored) {
    // Not published. Its handles show that it has expired: it may not be kept.
    pool->SetDeadline(&entry, begin_nanos, begin_nanos);
  }
  std::move(unpin).Cancel();
  ending->ref = ref;
  return stored;
}

template <typename Cache>
void TypedLead<Cache>::Cancel(const Handle& placeholder,
                              const absl::Status& status) {
  LoadOf(placeholder).Cancel(status, [&] {
    Ending ending(this, placeholder);
    ending.has_ended = true;
  });
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_TYPED_LEAD_H_
