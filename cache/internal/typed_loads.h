// The calls of a cache that load: FindOrLoad, BeginLoad, FindOrLoadMany and
// GetOrLoad. What they promise is in cache/load.h and cache/ticket.h.
//
// Each call that misses makes a Load and has the shard join it to the one in
// flight, if there is one.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_TYPED_LOADS_H_
#define WHEELCACHE_CACHE_INTERNAL_TYPED_LOADS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/internal/engine/counters.h"
#include "wheelcache/cache/internal/engine/engine.h"
#include "wheelcache/cache/internal/engine/shard.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/internal/loads/gate.h"
#include "wheelcache/cache/internal/loads/limited_waits.h"
#include "wheelcache/cache/internal/loads/load.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/typed_lead.h"
#include "wheelcache/cache/internal/typed_refreshes.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/view.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {

// What a caller knows of its key before it loads it.
enum class LookUp {
  kNone,     // Nothing: a load begins with a look-up, which counts as a read.
  kMissed,   // It found nothing. What is stored by now will do.
  kRefused,  // It found what does not do, nor does what is stored by now.
};

template <typename Cache>
class TypedLoads {
 public:
  using Key = typename Cache::KeyType;
  using Value = typename Cache::ValueType;
  using Handle = typename Cache::Handle;
  using Ticket = typename Cache::Ticket;
  using Lead = TypedLead<Cache>;
  using Result = absl::StatusOr<Loaded<Value>>;
  using Loader = typename Lead::Loader;
  using BatchLoader = wheelcache::BatchLoader<Value>;
  using Done = LoadDone<Handle>;

  explicit TypedLoads(Cache* cache, LookUp look_up = LookUp::kNone)
      : cache_(*cache), look_up_(look_up) {}

  template <typename K>
  absl::StatusOr<Handle> FindOrLoad(const K& key, const LoadOptions& options,
                                    Loader loader) {
    if (Handle handle = FindAndRefresh(key, options)) return handle;
    return LoadMissing(key, options, DeadlineOf(options), loader);
  }

  template <typename K>
  absl::StatusOr<Value> GetOrLoad(const K& key, const LoadOptions& options,
                                  Loader loader);

  template <typename K>
  Ticket BeginLoad(const K& key, const LoadOptions& options, Done done,
                   TakeTicket<Ticket> take_ticket);

  // What a caller finds that does not block: the load that it leads, or the
  // placeholder of another caller's, or else what it gets.
  struct Asked {
    Lead lead;
    Handle other;
    absl::StatusOr<Handle> result;
  };
  template <typename K>
  Asked Ask(const K& key, const LoadOptions& options);
  // The same for one who was about to wait for a load that has ended.
  template <typename K>
  Asked AskAgain(const K& key, const LoadOptions& options, const Handle& ended);

  // Has `done` told of the end of another caller's load, or `take` given the
  // duty to load: a Ticket, or a Lead. Returns the number of the callbacks, or
  // 0 if it has ended before: then the caller, whose callbacks are gone, asks
  // again.
  template <typename Duty>
  uint64_t WaitFor(const Handle& placeholder, const LoadOptions& options,
                   Done done, TakeTicket<Duty> take);

  std::vector<absl::StatusOr<Handle>> FindOrLoadMany(absl::Span<const Key> keys,
                                                     const LoadOptions& options,
                                                     BatchLoader loader);

 private:
  // What a caller finds who misses: the load that it leads, or the placeholder
  // of another caller's, or, after all, a handle.
  struct Joined {
    Lead lead;
    Handle other;
    Handle handle;
  };
  template <typename K>
  Joined Join(const K& key, const LoadOptions& options, Load::Leader leader);

  // The live value of the key, if it is young enough. Counts as a read, unless
  // the caller has looked.
  template <typename K>
  Handle FindYoung(const K& key, const LoadOptions& options) const;

  // The same, refreshed if it is stale.
  template <typename K>
  Handle FindAndRefresh(const K& key, const LoadOptions& options) const {
    Handle handle = FindYoung(key, options);
    if (!handle) return handle;
    return TypedRefreshes<Cache>(&cache_).RefreshIfStale(std::move(handle));
  }

  // Waits for others until the deadline.
  template <typename K>
  absl::StatusOr<Handle> LoadMissing(const K& key, const LoadOptions& options,
                                     int64_t deadline_nanos, Loader loader);

  // Waits for a load that another caller leads, or leads it in its place.
  // Returns false if nobody leads it any more, and the key is to be looked up
  // anew.
  struct Waiting {
    const Handle& placeholder;
    int64_t deadline_nanos;
    const LoadOptions& options;
  };
  bool Await(const Waiting& waiting, Loader loader,
             absl::StatusOr<Handle>* result);
  int64_t DeadlineOf(const LoadOptions& options) const {
    return options.wait == absl::InfiniteDuration()
               ? Clock::kNever
               : clock().NanosAfter(options.wait);
  }

  // Runs the loader for the keys at these positions, and ends their loads.
  void LoadBatch(absl::Span<Lead> leads, absl::Span<const size_t> positions,
                 BatchLoader loader,
                 absl::Span<absl::StatusOr<Handle>> results);
  static Result LoadOne(size_t position, BatchLoader loader);

  // Has a caller that does not block told of the end of a load.
  static Load::Callbacks Telling(const Handle& placeholder, Done done) {
    Load::Callbacks callbacks;
    callbacks.done = [done = std::move(done), pin = placeholder.Share()](
                         const absl::Status* instead) mutable {
      if (instead != nullptr) return done(*instead);
      done(Lead::ResultOf(pin));
    };
    return callbacks;
  }
  // Limits the wait by the options, of the one with this number. Returns its
  // ID, if it has a limit.
  LimitedWaits::Id Limit(const Handle& placeholder, uint64_t number,
                         const LoadOptions& options,
                         Load::Callbacks* callbacks) {
    callbacks->deadline_nanos = DeadlineOf(options);
    if (callbacks->deadline_nanos == Clock::kNever) return {};
    const LimitedWaits::Id wait = cache_.engine().LimitWait(
        callbacks->deadline_nanos, {placeholder.ref_, number});
    callbacks->done =
        [done = std::move(callbacks->done), cache = &cache_, wait,
         pin = placeholder.Share()](const absl::Status* instead) mutable {
          {
            const Gate::Visit visit(&Lead::LoadOf(pin).gates().whole);
            if (visit.admitted()) cache->engine().EndWait(wait);
          }
          done(instead);
        };
    return wait;
  }
  // What callers get of a load that has ended; nothing if it was cancelled:
  // then those who come later start another.
  std::optional<absl::StatusOr<Handle>> ResultOf(const Handle& ended) {
    const Load& load = Lead::LoadOf(ended);
    if (load.ref() != 0 || !absl::IsCancelled(load.status())) {
      return Lead::ResultOf(ended);
    }
    cache_.engine().EndLoad({ended.ref_, Cache::HashOf(ended.key()), 0, 0});
    return std::nullopt;
  }
  Clock& clock() const { return cache_.engine().clock(); }

  Cache& cache_;
  const LookUp look_up_;
};

template <typename Cache>
template <typename K>
typename Cache::Handle TypedLoads<Cache>::FindYoung(
    const K& key, const LoadOptions& options) const {
  if (look_up_ != LookUp::kNone) return {};
  if (options.max_age == absl::InfiniteDuration()) return cache_.Find(key);
  const int64_t most = Clock::NanosAfter(0, options.max_age);
  bool young = false;
  const bool live =
      cache_.Read(key, Use::kIgnore, [&](EntryRef, const auto& entry) {
        young = AgeNanos(entry.created(), clock().NowNanos()) <= most;
      });
  if (young) return cache_.Find(key);
  const auto hash = Cache::HashOf(key).for_index;
  if (live) {
    cache_.engine().RecordRefusal(hash);
  } else {
    cache_.engine().RecordMiss(hash, Use::kCount);
  }
  return {};
}

template <typename Cache>
template <typename K>
typename TypedLoads<Cache>::Joined TypedLoads<Cache>::Join(
    const K& key, const LoadOptions& options, Load::Leader leader) {
  Handle mine = Lead::NewPlaceholder(cache_, key, leader);
  Interleave("load: before it joins");
  Shard::NewLoad load;
  load.placeholder = mine.ref_;
  load.max_age_nanos = look_up_ == LookUp::kRefused
                           ? Shard::NewLoad::kNoEntry
                           : Clock::NanosAfter(0, options.max_age);
  const EntryRef found = cache_.engine().BeginLoad(Cache::Query(key), load);
  Joined joined;
  if (found == load.placeholder) {
    joined.lead = Lead(&cache_, std::move(mine), options);
    return joined;
  }
  Handle handle = cache_.HandleOf(found);
  const bool is_load = handle.entry().is_placeholder();
  (is_load ? joined.other : joined.handle) = std::move(handle);
  return joined;
}

template <typename Cache>
template <typename K>
absl::StatusOr<typename Cache::Handle> TypedLoads<Cache>::LoadMissing(
    const K& key, const LoadOptions& options, int64_t deadline_nanos,
    Loader loader) {
  for (;;) {
    Joined joined = Join(key, options, Load::Leader::kThisThread);
    if (joined.handle) return std::move(joined.handle);
    if (!joined.lead.empty()) return joined.lead.Run(loader);
    absl::StatusOr<Handle> result;
    if (Await({joined.other, deadline_nanos, options}, loader, &result)) {
      return result;
    }
  }
}

template <typename Cache>
bool TypedLoads<Cache>::Await(const Waiting& waiting, Loader loader,
                              absl::StatusOr<Handle>* result) {
  Load& load = Lead::LoadOf(waiting.placeholder);
  cache_.engine().CountEvent(Count::kLoadWaits);
  switch (load.Wait(&clock(), waiting.deadline_nanos)) {
    case Load::Waited::kForResult:
      if (auto given = ResultOf(waiting.placeholder)) {
        *result = *std::move(given);
        return true;
      }
      return false;
    case Load::Waited::kToLead:
      *result = Lead(&cache_, waiting.placeholder.Share(), waiting.options)
                    .Run(loader);
      return true;
    case Load::Waited::kInVain:
      *result = Load::WaitedTooLong();
      return true;
    case Load::Waited::kNotAtAll:
      break;
  }
  *result = absl::FailedPreconditionError(
      "the load of this key waits for the caller: its loader asked for its own "
      "key, or loaders asked for each other's");
  return true;
}

template <typename Cache>
template <typename K>
absl::StatusOr<typename Cache::ValueType> TypedLoads<Cache>::GetOrLoad(
    const K& key, const LoadOptions& options, Loader loader) {
  static_assert(std::is_copy_constructible_v<Value>,
                "GetOrLoad copies the value, which this type does not allow: "
                "use FindOrLoad, which pins it");
  if (cache_.may_refresh()) {
    if (Handle handle = FindAndRefresh(key, options)) return Value(*handle);
  } else if (std::optional<Value> value = cache_.Get(key)) {
    return *std::move(value);
  }
  absl::StatusOr<Handle> handle =
      LoadMissing(key, options, DeadlineOf(options), loader);
  if (!handle.ok()) return std::move(handle).status();
  return Value(**handle);
}

template <typename Cache>
template <typename K>
typename TypedLoads<Cache>::Asked TypedLoads<Cache>::Ask(
    const K& key, const LoadOptions& options) {
  Asked asked;
  asked.result = FindAndRefresh(key, options);
  while (asked.result.ok() && !*asked.result) {
    Joined joined = Join(key, options, Load::Leader::kTicket);
    if (joined.handle) {
      asked.result = std::move(joined.handle);
      break;
    }
    if (!joined.other) {
      asked.lead = std::move(joined.lead);
      break;
    }
    if (!Lead::LoadOf(joined.other).has_ended()) {
      if (options.wait <= absl::ZeroDuration()) {
        asked.result = Load::WaitedTooLong();
      } else {
        asked.other = std::move(joined.other);
      }
      break;
    }
    if (auto given = ResultOf(joined.other)) {
      cache_.engine().CountEvent(Count::kLoadWaits);
      asked.result = *std::move(given);
    }
  }
  return asked;
}

template <typename Cache>
template <typename K>
typename TypedLoads<Cache>::Asked TypedLoads<Cache>::AskAgain(
    const K& key, const LoadOptions& options, const Handle& ended) {
  std::optional<absl::StatusOr<Handle>> given = ResultOf(ended);
  if (!given.has_value()) {
    // It has been looked up.
    const LookUp looked = std::max(look_up_, LookUp::kMissed);
    return TypedLoads(&cache_, looked).Ask(key, options);
  }
  Asked asked;
  asked.result = *std::move(given);
  return asked;
}

template <typename Cache>
template <typename Duty>
uint64_t TypedLoads<Cache>::WaitFor(const Handle& placeholder,
                                    const LoadOptions& options, Done done,
                                    TakeTicket<Duty> take) {
  // The caller's own may go as soon as it has left its callbacks.
  const Handle pin = placeholder.Share();
  Load& load = Lead::LoadOf(pin);
  cache_.engine().CountEvent(Count::kLoadWaits);
  const uint64_t number = load.NewNumber();
  Load::Callbacks callbacks = Telling(placeholder, std::move(done));
  const LimitedWaits::Id wait = Limit(placeholder, number, options, &callbacks);
  if (take != nullptr) {
    callbacks.lead = [take = std::move(take), cache = &cache_,
                      pin = placeholder.Share(), options]() mutable {
      take(Duty(Lead(cache, std::move(pin), options)));
    };
  }
  Interleave("load: before it leaves callbacks");
  if (!load.WhenDone(number, std::move(callbacks), &clock())) {
    cache_.engine().EndWait(wait);
    return 0;
  }
  // The cache may have ended: whoever was told may have ended it.
  Interleave("load: after it has left callbacks");
  return number;
}

template <typename Cache>
template <typename K>
typename Cache::Ticket TypedLoads<Cache>::BeginLoad(
    const K& key, const LoadOptions& options, Done done,
    TakeTicket<Ticket> take_ticket) {
  Asked asked = Ask(key, options);
  if (asked.other) {
    // Shared, as they are needed again if the load ends before it has them.
    const auto callbacks =
        std::make_shared<std::pair<Done, TakeTicket<Ticket>>>(
            std::move(done), std::move(take_ticket));
    do {
      TakeTicket<Ticket> take;
      if (callbacks->second != nullptr) {
        take = [callbacks](Ticket ticket) {
          callbacks->second(std::move(ticket));
        };
      }
      const auto tell = [callbacks](absl::StatusOr<Handle> result) {
        callbacks->first(std::move(result));
      };
      if (WaitFor(asked.other, options, tell, std::move(take)) != 0) return {};
      asked = AskAgain(key, options, asked.other);
    } while (asked.other);
    done = std::move(callbacks->first);
  }
  if (!asked.lead.empty()) {
    const Handle& mine = asked.lead.placeholder();
    Load& load = Lead::LoadOf(mine);
    load.WhenDone(load.NewNumber(), Telling(mine, std::move(done)), nullptr);
    return Ticket(std::move(asked.lead));
  }
  Contain([&] { done(std::move(asked.result)); });
  return {};
}

template <typename Cache>
std::vector<absl::StatusOr<typename Cache::Handle>>
TypedLoads<Cache>::FindOrLoadMany(absl::Span<const Key> keys,
                                  const LoadOptions& options,
                                  BatchLoader loader) {
  std::vector<absl::StatusOr<Handle>> results(keys.size());
  std::vector<Lead> leads;
  std::vector<size_t> led;  // The positions of their keys.
  std::vector<std::pair<size_t, Handle>> others;
  for (size_t i = 0; i < keys.size(); ++i) {
    Handle handle = FindYoung(keys[i], options);
    Joined joined;
    if (!handle) {
      joined = Join(keys[i], options, Load::Leader::kThisThread);
      handle = std::move(joined.handle);
    }
    if (handle) {
      results[i] = std::move(handle);
    } else if (joined.other) {
      others.emplace_back(i, std::move(joined.other));
    } else {
      led.push_back(i);
      leads.push_back(std::move(joined.lead));
    }
  }
  LoadBatch(absl::MakeSpan(leads), led, loader, absl::MakeSpan(results));
  // Only now: two batches that wait with loads open might wait for each other.
  int64_t deadline = DeadlineOf(options);
  for (const auto& [i, load] : others) {
    const auto load_one = [&, position = i](View<Key>) {
      const int64_t begin = clock().NowNanos();
      Result result = LoadOne(position, loader);
      // What this caller's own loader takes is no wait.
      deadline = Clock::NanosAfter(
          deadline, std::max<int64_t>(clock().NowNanos() - begin, 0));
      return result;
    };
    if (!Await({load, deadline, options}, load_one, &results[i])) {
      results[i] = LoadMissing(keys[i], options, deadline, load_one);
    }
  }
  return results;
}

template <typename Cache>
void TypedLoads<Cache>::LoadBatch(absl::Span<Lead> leads,
                                  absl::Span<const size_t> positions,
                                  BatchLoader loader,
                                  absl::Span<absl::StatusOr<Handle>> results) {
  if (leads.empty()) return;
  const typename Lead::FailOnException fail(leads);
  std::vector<Result> loaded = loader(positions);
  const bool complete = loaded.size() == leads.size();
  for (size_t i = 0; i < leads.size(); ++i) {
    results[positions[i]] = leads[i].FinishAndGet(
        complete ? std::move(loaded[i])
                 : WrongCount(loaded.size(), leads.size()));
  }
}

template <typename Cache>
typename TypedLoads<Cache>::Result TypedLoads<Cache>::LoadOne(
    size_t position, BatchLoader loader) {
  std::vector<Result> loaded = loader(absl::MakeConstSpan(&position, 1));
  if (loaded.size() != 1) return WrongCount(loaded.size(), 1);
  return std::move(loaded[0]);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_TYPED_LOADS_H_
