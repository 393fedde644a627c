// A near cache: a local tier in front of a store that many processes share,
// with a hard bound on staleness.
//
//   wheelcache::NearCacheOptions options;
//   options.local.max_entries = 100'000;
//   options.key_prefix = "user:";
//   auto users = wheelcache::NearCache<std::string>::Create(options, &store);
//   if (!users.ok()) return users.status();
//
//   auto user = (*users)->Get("alice");  // Of the store; from now on local.
//   if (!user.ok()) return user.status();
//   if (user->has_value()) Greet(**user);
//   return (*users)->Set("alice", "Alice B.", absl::Hours(1));
//
// Promise. Let a write W to k execute on the connected primary at w. A Get(k)
// that starts at w + L or later, or after this process handled W's
// invalidation, or after this NearCache's own W returned OK, never returns a
// value older than W's. L is NearCacheOptions::max_staleness; in a failover of
// a Redis Cluster, with its cluster-node-timeout. Excluded: SWAPDB, a failover
// that loses writes or asks nobody, reads from replicas, computers that are
// suspended unless the store is on Clock::SinceBoot(), and what stale_if_error
// returns. Besides, outside a failover, what one thread reads of a key never
// goes back to an older version. docs/near_cache.md has the proof.
//
// How. Local hits are served under a lease, which answers of the store renew.
// Whatever breaks, the lease runs out: then reads go to the store, coalesced,
// and nothing is kept, unless without_tracking says for how long. What was
// fetched in another session is not served, unless stale_if_error serves it in
// place of errors.
//
// Reads. A miss is single-flight: one caller fetches a key, the others wait for
// that. The value stays for the store's TTL, less the time since sending, and
// for max_local_ttl at most. That the store lacks a key is remembered for
// negative_ttl. A write never fills the local tier: the next Get fetches.
//
// Loads. GetOrLoad has a loader behind the store: what neither the local tier
// nor the store has, it loads once in this process, and with load_lock once in
// all, and writes to the store. A Set or Del beats a load that began before it,
// unless the connection is lost on which that writes without load_lock; from
// elsewhere, a Del beats one with load_lock alone. What a loader returns is as
// new as the loader makes it, until the store has it.
//
// Threads. Thread-safe. The store's I/O thread deletes from the local tier, and
// so may run destructors of values, but no other code of yours. fork(). In the
// child the lease runs out: make another store and near cache there.
//
// Errors. What the store returns (cache/near/remote_store.h): after
// DeadlineExceeded or Unavailable, a Set or Del may have happened, or may still
// happen. DataLoss: a value does not decode, and is not kept. A key that is
// absent is no error. No call waits longer than command_timeout, but for the
// loads of GetOrLoad.
//
// Cost. A local hit is a hit of cache/cache.h, which takes no lock, and a
// reading of the coarse clock. A string is stored with 8 bytes before it. Of
// other types, max_bytes counts the object alone.
//
// Lifetime. The store must outlive the near cache. Destroy it when no call runs
// in it.

#ifndef WHEELCACHE_CACHE_NEAR_NEAR_CACHE_H_
#define WHEELCACHE_CACHE_NEAR_NEAR_CACHE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/call_once.h"
#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/near/codec.h"
#include "wheelcache/cache/near/fetch_stamp.h"
#include "wheelcache/cache/near/near_core.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/near_stats.h"
#include "wheelcache/cache/near/store/remote_store.h"
#include "wheelcache/cache/near/stored_value.h"
#include "wheelcache/cache/types/load.h"

namespace wheelcache {

template <typename Value, typename Codec = DefaultCodec<Value>>
class NearCache final {
 public:
  // A value, or nothing if the store lacks the key, or an error.
  using Result = absl::StatusOr<std::optional<Value>>;

  // Returns a near cache in front of the store, or InvalidArgument: which field
  // breaks which rule, or which prefix overlaps with another. Does not wait for
  // the store: until that has answered, reads go there.
  static absl::StatusOr<std::unique_ptr<NearCache>> Create(
      NearCacheOptions options, RemoteStore* store, Codec codec = {});

  ~NearCache() { core_.Detach(); }
  NearCache(const NearCache&) = delete;
  NearCache& operator=(const NearCache&) = delete;

  // Returns the value, from the local tier or from the store. See Promise.
  Result Get(absl::string_view key);

  // As Get, for a thread that must not wait: `done` is called once, by this
  // call on a hit, else on whatever thread has the result, as the store's I/O
  // thread, on which the codec decodes as well. Neither may block. The near
  // cache must outlive it.
  using GetDone = absl::AnyInvocable<void(Result result)>;
  void BeginGet(absl::string_view key, GetDone done);

  // As Get, but always from the store, and never stale: what was written before
  // the call is seen. Fills the local tier.
  Result GetFresh(absl::string_view key);

  // As Get for each key, in their order, with at most one fetch of those that
  // are missing. Writes may come between two keys. Equal keys get equal
  // results.
  std::vector<Result> GetMany(absl::Span<const absl::string_view> keys);

  // Returns the value, of the local tier or the store, or of the loader, which
  // it calls if the key is absent, and writes it to the store. While the store
  // is Unavailable or does not answer, loads are not written. Other errors of
  // the store, and those of the loader, are returned; NotFound, say, where
  // there is no value. See Loads, and Unimplemented of load_lock: the store has
  // no locks.
  absl::StatusOr<Value> GetOrLoad(absl::string_view key, Loader<Value> loader) {
    return GetOrLoad(key, {}, loader);
  }
  absl::StatusOr<Value> GetOrLoad(absl::string_view key,
                                  const NearLoadOptions& options,
                                  Loader<Value> loader);

  // Writes a value to the store, for a TTL of more than zero.
  absl::Status Set(absl::string_view key, const Value& value,
                   absl::Duration ttl = absl::InfiniteDuration());

  // Deletes a key from the store. Returns whether it was there.
  absl::StatusOr<bool> Del(absl::string_view key);

  // The same for many keys, in as few round trips as the store needs. Of equal
  // keys, the last one is set, and has the result of all.
  struct Item {
    absl::string_view key = {};
    Value value = {};
    absl::Duration ttl = absl::InfiniteDuration();
  };
  std::vector<absl::Status> SetMany(absl::Span<const Item> items);
  std::vector<absl::StatusOr<bool>> DelMany(
      absl::Span<const absl::string_view> keys);

  // Waits until there is a lease, of any one node of a cluster, so that Gets
  // fill the local tier. Returns OK, or why there is none: which command the
  // store refused, and how. Returns at once where waiting does not help: the
  // login, a right or a feature is missing.
  absl::Status WaitUntilReady(absl::Duration timeout) {
    return core_.WaitUntilReady(timeout);
  }

  // Limits and maintenance of the local tier, for a MemoryShare as well.
  AnyCache& local_tier() { return *local_; }

  NearCacheStats stats() const { return core_.stats(); }
  const NearCacheOptions& options() const { return core_.options(); }

 private:
  using Core = internal::NearCore;
  using Count = internal::NearCount;
  using FetchStamp = internal::FetchStamp;
  using Stored = internal::StoredValue<Value>;
  using Local = Cache<std::string, typename Stored::Type>;
  using Handle = typename Local::Handle;
  using LoadedValue = Loaded<typename Stored::Type>;

  // What a look-up in the local tier has found.
  struct Look {
    bool outdated = false;  // An entry that is not to be served.
    // Whose entries might have been; set before anything is joined.
    Core::Sessions sessions;
  };

  // How a read has obtained what it returns.
  enum class Source { kOwnFetch, kLocalOrJoined };

  NearCache(NearCacheOptions options, RemoteStore* store, Codec codec)
      : codec_(std::move(codec)), core_(std::move(options), store) {}

  ABSL_ATTRIBUTE_NOINLINE Result GetMissing(absl::string_view key, Look look);

  // The look-up of each read. Returns whether it found what may be served, and
  // copies that to *result, which is empty.
  bool FindLocally(absl::string_view key, Look* look, Result* result);

  void CountMiss(const Look& look) {
    if (look.sessions.empty()) core_.Count(Count::kUnleasedReads);
  }

  // Loads of the local tier after a look-up, to fetch.
  auto LoadsAfter(const Look& look) {
    const bool refused = look.sessions.empty() || look.outdated;
    return internal::TypedLoads<Local>(local_, refused
                                                   ? internal::LookUp::kRefused
                                                   : internal::LookUp::kMissed);
  }
  LoadOptions Options() const {
    LoadOptions load;
    load.wait = core_.options().command_timeout;
    return load;
  }

  // Fetches as the leader of a load, or apart from any.
  absl::StatusOr<LoadedValue> FetchOne(absl::string_view key,
                                       const Core::CallTime& call) {
    const Core::FetchTime time = core_.BeginFetch();
    internal::Interleave("near: before the fetch");
    auto fetched = core_.Fetch({key}, call);
    internal::Interleave("near: after the fetch");
    return ToStore(key, time, std::move(fetched[0]));
  }
  absl::StatusOr<LoadedValue> ToStore(absl::string_view key,
                                      const Core::FetchTime& time,
                                      absl::StatusOr<Core::Fetched> fetched);

  // What a read returns of the end of a load.
  struct Read {
    absl::string_view key;
    const Look& look;
    const Core::CallTime& call;
  };
  Result ResultOf(const Read& read, absl::StatusOr<Handle> handle,
                  Source source) {
    std::optional<Result> result = Take(read, std::move(handle), source);
    return result.has_value() ? *std::move(result) : FetchApart(read);
  }
  std::optional<Result> Take(const Read& read, absl::StatusOr<Handle> handle,
                             Source source);
  bool MayReturn(const Read& read, const Handle& handle) const;
  void ForgetOlder(absl::string_view key, const Handle& handle);
  Result FetchApart(const Read& read) {
    return TakeApart(read, FetchOne(read.key, read.call));
  }
  Result TakeApart(const Read& read, absl::StatusOr<LoadedValue> fetched);

  // A BeginGet that has not found the key.
  struct Asked {
    Read read() const { return {key, look, call}; }

    std::string key;
    Look look;
    Core::CallTime call;
    GetDone done;
    Source source = Source::kLocalOrJoined;
  };
  using AskedPointer = std::shared_ptr<Asked>;
  using TakeFetched = absl::AnyInvocable<void(absl::StatusOr<LoadedValue>)>;
  void StartFetch(const AskedPointer& asked, TakeFetched take);
  void Lead(const AskedPointer& asked, typename Local::Ticket ticket);
  void End(const AskedPointer& asked, absl::StatusOr<Handle> handle);
  Result Failed(absl::string_view key, absl::Status status);
  static std::optional<Value> Copy(typename Stored::View stored) {
    std::optional<Value> value;
    Stored::CopyTo(stored, &value);
    return value;
  }
  Result CountFetched(std::optional<Value> value) {
    core_.Count(value.has_value() ? Count::kFetchedHits
                                  : Count::kFetchedAbsences);
    return value;
  }

  // A write of some keys to the store: supersedes their loads when it begins,
  // and deletes them from the local tier when it ends, however that happens.
  class OwnWrite {
   public:
    OwnWrite(NearCache* near, absl::Span<const absl::string_view> keys)
        : near_(*near), keys_(keys), call_(near->core_.BeginCall()) {
      for (const absl::string_view key : keys_) {
        near_.core_.Supersede(key, call_);
      }
    }
    OwnWrite(const OwnWrite&) = delete;
    OwnWrite& operator=(const OwnWrite&) = delete;
    ~OwnWrite() {
      internal::Interleave("near: between a write and its Del");
      for (const absl::string_view key : keys_) near_.DelHere(key);
    }

    absl::Duration time_left() const { return near_.core_.TimeLeft(call_); }

   private:
    NearCache& near_;
    const absl::Span<const absl::string_view> keys_;
    const Core::CallTime call_;
  };

  absl::StatusOr<Value> GetOrLoadOnce(absl::string_view key,
                                      const NearLoadOptions& options,
                                      Loader<Value> loader,
                                      bool* joined_beaten);

  // Instead of a session, in the stamp of what such a load returns.
  static constexpr uint64_t kBeaten = 1;

  // Makes the loads of GetOrLoad single-flight. Apart from the local tier,
  // whose loads are fetches, so that no Get waits for a loader.
  Local& SharedLoads() {
    absl::call_once(has_shared_loads_, [this] {
      CacheOptions options;
      options.name = core_.options().local.name;
      options.clock = core_.options().local.clock;
      options.reaper = core_.options().local.reaper;
      options.max_entries = 1;  // Nothing is stored.
      options.registered = false;
      owned_shared_loads_ = *Local::Create(std::move(options));
      shared_loads_ = owned_shared_loads_.get();
    });
    return *shared_loads_;
  }

  // Deletes a key from the local tier, and supersedes its loads: nobody joins
  // them from now on. Returns whether the local tier had it.
  bool DelHere(absl::string_view key) {
    if (Local* const loads = shared_loads_) loads->Del(key);
    return local_->Del(key);
  }
  void ClearHere() {
    SupersedeLoads();
    local_->Clear();
  }
  void SupersedeLoads() {
    if (Local* const loads = shared_loads_) loads->Clear();
  }

  const Codec codec_;
  Core core_;
  Local* local_ = nullptr;
  absl::once_flag has_shared_loads_;
  std::unique_ptr<Local> owned_shared_loads_;
  std::atomic<Local*> shared_loads_{nullptr};
  // The last: destructors of values may call the near cache until it ends.
  std::unique_ptr<Local> owned_local_;
};

template <typename Value, typename Codec>
absl::StatusOr<std::unique_ptr<NearCache<Value, Codec>>>
NearCache<Value, Codec>::Create(NearCacheOptions options, RemoteStore* store,
                                Codec codec) {
  absl::Status status = internal::Validate(options, store->clock());
  if (!status.ok()) return status;
  CacheOptions tier_options = options.local;
  tier_options.registered = false;  // The near cache shows it with its own.
  auto local = Local::Create(std::move(tier_options));
  if (!local.ok()) return local.status();
  auto cache = absl::WrapUnique(
      new NearCache(std::move(options), store, std::move(codec)));
  cache->owned_local_ = *std::move(local);
  Local* const tier = cache->owned_local_.get();
  cache->local_ = tier;
  NearCache* const near = cache.get();
  status = cache->core_.Attach(
      {tier, [near](absl::string_view key) { return near->DelHere(key); },
       [near] { near->ClearHere(); }, [near] { near->SupersedeLoads(); }});
  if (!status.ok()) return status;
  return cache;
}

template <typename Value, typename Codec>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool NearCache<Value, Codec>::FindLocally(
    absl::string_view key, Look* look, Result* result) {
  const uint64_t begin = core_.BeginLook();
  internal::Interleave("near: before the look");
  bool may_serve = false;
  bool has_value = false;
  const bool found = local_->Visit(key, [&](typename Stored::View stored) {
    internal::Interleave("near: after the entry");
    has_value = Stored::HasValue(stored);
    may_serve = core_.MayServe(Stored::Stamp(stored), has_value, begin);
    if (ABSL_PREDICT_TRUE(may_serve)) Stored::CopyTo(stored, &**result);
  });
  if (ABSL_PREDICT_FALSE(!may_serve)) {
    look->outdated = found;
    return false;
  }
  core_.Count(has_value ? Count::kLocalHits : Count::kLocalAbsences);
  return true;
}

template <typename Value, typename Codec>
typename NearCache<Value, Codec>::Result NearCache<Value, Codec>::Get(
    absl::string_view key) {
  Look look;
  Result result = std::nullopt;
  if (ABSL_PREDICT_FALSE(!FindLocally(key, &look, &result))) {
    result = GetMissing(key, look);
  }
  return result;
}

// The store sees this call's fetch, or that of a load that began after Del.
template <typename Value, typename Codec>
typename NearCache<Value, Codec>::Result NearCache<Value, Codec>::GetFresh(
    absl::string_view key) {
  Look look;
  look.outdated = true;
  local_->Del(key);
  return GetMissing(key, look);
}

template <typename Value, typename Codec>
typename NearCache<Value, Codec>::Result NearCache<Value, Codec>::GetMissing(
    absl::string_view key, Look look) {
  look.sessions = core_.LeasedSessions();
  internal::Interleave("near: after the look-up");
  const Core::CallTime call = core_.BeginCall();
  CountMiss(look);
  Source source = Source::kLocalOrJoined;
  absl::StatusOr<Handle> handle =
      LoadsAfter(look).FindOrLoad(key, Options(), [&](std::string_view) {
        source = Source::kOwnFetch;
        return FetchOne(key, call);
      });
  return ResultOf({key, look, call}, std::move(handle), source);
}

template <typename Value, typename Codec>
absl::StatusOr<Loaded<typename internal::StoredValue<Value>::Type>>
NearCache<Value, Codec>::ToStore(absl::string_view key,
                                 const Core::FetchTime& time,
                                 absl::StatusOr<Core::Fetched> fetched) {
  if (!fetched.ok()) return std::move(fetched).status();
  std::optional<Value> value;
  if (fetched->bytes.has_value()) {
    absl::StatusOr<Value> decoded = codec_.Decode(*fetched->bytes);
    if (!decoded.ok()) {
      return core_.Undecodable(key, *fetched, decoded.status());
    }
    value = *std::move(decoded);
  }
  const FetchStamp stamp = core_.StampOf(*fetched, time);
  const absl::Duration ttl = core_.LocalTtl(*fetched, stamp, time);
  // Before anybody gets it: see ForgetOlder.
  if (ttl <= absl::ZeroDuration()) local_->Del(key);
  return LoadedValue{Stored::Make(stamp, std::move(value)), ttl};
}

// Nothing if what has been joined will not do.
template <typename Value, typename Codec>
std::optional<typename NearCache<Value, Codec>::Result>
NearCache<Value, Codec>::Take(const Read& read, absl::StatusOr<Handle> handle,
                              Source source) {
  if (!handle.ok()) return Failed(read.key, std::move(handle).status());
  const bool joined = source != Source::kOwnFetch;
  if (joined && !MayReturn(read, *handle)) return std::nullopt;
  internal::Interleave("near: before older versions are forgotten");
  ForgetOlder(read.key, *handle);
  if (!joined) return CountFetched(Copy(**handle));
  core_.Count(Count::kJoined);
  return Result(Copy(**handle));
}

// So that versions never go back on one thread. A superseded load is not kept,
// and the server may have executed its fetch after that of a younger load. What
// the younger one finds may be older, and must not be read after this value.
// Where nothing is ever kept, ToStore has done this, once for all who wait.
template <typename Value, typename Codec>
void NearCache<Value, Codec>::ForgetOlder(absl::string_view key,
                                          const Handle& handle) {
  const typename Stored::View stored = *handle;
  if (handle.TimeToLive() <= absl::ZeroDuration() &&
      core_.Keeps(Stored::Stamp(stored), Stored::HasValue(stored))) {
    local_->Del(key);
  }
}

// The entry is one that another caller has stored since the look-up, or it
// comes from a load that this call has joined. It will do if it belongs to the
// session whose lease this call has seen: then it is as good as a local hit. Or
// if it has no session, and its fetch began lately enough: whoever leads a load
// may be suspended between the answer of the store and the end of the load.
template <typename Value, typename Codec>
bool NearCache<Value, Codec>::MayReturn(const Read& read,
                                        const Handle& handle) const {
  const Core::Sessions& sessions = read.look.sessions;
  const FetchStamp stamp = Stored::Stamp(*handle);
  return std::find(sessions.begin(), sessions.end(), stamp.session()) !=
             sessions.end() ||
         core_.IsRecent(stamp, read.call);
}

// Without joining anybody. What is older must not be seen after this: neither
// in the local tier, nor from a load that still runs.
template <typename Value, typename Codec>
typename NearCache<Value, Codec>::Result NearCache<Value, Codec>::TakeApart(
    const Read& read, absl::StatusOr<LoadedValue> fetched) {
  if (!fetched.ok()) return Failed(read.key, std::move(fetched).status());
  local_->Del(read.key);
  return CountFetched(Copy(fetched->value));
}

template <typename Value, typename Codec>
void NearCache<Value, Codec>::BeginGet(absl::string_view key, GetDone done) {
  Look look;
  Result result = std::nullopt;
  if (FindLocally(key, &look, &result)) return done(std::move(result));
  look.sessions = core_.LeasedSessions();
  internal::Interleave("near: after the look-up");
  CountMiss(look);
  const AskedPointer asked = std::make_shared<Asked>(
      Asked{std::string(key), look, core_.BeginCall(), std::move(done)});
  auto ticket = LoadsAfter(look).BeginLoad(
      key, Options(),
      [this, asked](absl::StatusOr<Handle> handle) {
        End(asked, std::move(handle));
      },
      [this, asked](typename Local::Ticket taken) {
        Lead(asked, std::move(taken));
      });
  if (ticket) Lead(asked, std::move(ticket));
}

template <typename Value, typename Codec>
void NearCache<Value, Codec>::StartFetch(const AskedPointer& asked,
                                         TakeFetched take) {
  const Core::FetchTime time = core_.BeginFetch();
  core_.StartFetch(asked->key, asked->call,
                   [this, asked, time, take = std::move(take)](
                       absl::StatusOr<Core::Fetched> fetched) mutable {
                     take(ToStore(asked->key, time, std::move(fetched)));
                   });
}

template <typename Value, typename Codec>
void NearCache<Value, Codec>::Lead(const AskedPointer& asked,
                                   typename Local::Ticket ticket) {
  asked->source = Source::kOwnFetch;
  StartFetch(asked, [ticket = std::move(ticket)](
                        absl::StatusOr<LoadedValue> fetched) mutable {
    ticket.Finish(std::move(fetched));
  });
}

template <typename Value, typename Codec>
void NearCache<Value, Codec>::End(const AskedPointer& asked,
                                  absl::StatusOr<Handle> handle) {
  std::optional<Result> result =
      Take(asked->read(), std::move(handle), asked->source);
  if (result.has_value()) return asked->done(*std::move(result));
  StartFetch(asked, [this, asked](absl::StatusOr<LoadedValue> fetched) {
    asked->done(TakeApart(asked->read(), std::move(fetched)));
  });
}

template <typename Value, typename Codec>
typename NearCache<Value, Codec>::Result NearCache<Value, Codec>::Failed(
    absl::string_view key, absl::Status status) {
  if (absl::IsDeadlineExceeded(status)) core_.Count(Count::kTimeouts);
  if (core_.MayServeStale(status)) {
    if (const auto stale = local_->Peek(key)) {
      core_.Count(Count::kStaleServed);
      return Copy(*stale);
    }
  }
  core_.Count(Count::kFailedReads);
  return Result(std::move(status));
}

template <typename Value, typename Codec>
std::vector<typename NearCache<Value, Codec>::Result>
NearCache<Value, Codec>::GetMany(absl::Span<const absl::string_view> keys) {
  std::vector<Result> results(keys.size(), Result(std::nullopt));
  absl::flat_hash_map<absl::string_view, size_t> first;  // Where a key is.
  std::vector<size_t> missing;
  std::vector<std::string> missing_keys;
  Look all;  // Whether any was outdated.
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!first.emplace(keys[i], i).second) continue;
    Look look;
    if (FindLocally(keys[i], &look, &results[i])) continue;
    all.outdated |= look.outdated;
    missing.push_back(i);
    missing_keys.emplace_back(keys[i]);
  }
  if (!missing.empty()) {
    all.sessions = core_.LeasedSessions();
    internal::Interleave("near: after the look-up");
    const Core::CallTime call = core_.BeginCall();
    for (size_t i = 0; i < missing.size(); ++i) CountMiss(all);
    LoadOptions load = Options();
    std::vector<Source> sources(missing.size(), Source::kLocalOrJoined);
    auto handles = LoadsAfter(all).FindOrLoadMany(
        missing_keys, load, [&](absl::Span<const size_t> positions) {
          std::vector<absl::string_view> wanted;
          for (const size_t position : positions) {
            sources[position] = Source::kOwnFetch;
            wanted.push_back(missing_keys[position]);
          }
          const Core::FetchTime time = core_.BeginFetch();
          internal::Interleave("near: before the fetch");
          auto fetched = core_.Fetch(wanted, call);
          internal::Interleave("near: after the fetch");
          std::vector<absl::StatusOr<LoadedValue>> loaded;
          for (size_t i = 0; i < wanted.size(); ++i) {
            loaded.push_back(ToStore(wanted[i], time, std::move(fetched[i])));
          }
          // The wait for others begins after this, and has what is left.
          load.wait = core_.TimeLeft(call);
          return loaded;
        });
    for (size_t i = 0; i < missing.size(); ++i) {
      results[missing[i]] = ResultOf({keys[missing[i]], all, call},
                                     std::move(handles[i]), sources[i]);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t same = first.find(keys[i])->second;
    if (same != i) results[i] = results[same];
  }
  return results;
}

// A load that another process has beaten is superseded by no message that this
// one gets in time, or at all. So whoever has joined one looks again; the next
// load begins after this call.
template <typename Value, typename Codec>
absl::StatusOr<Value> NearCache<Value, Codec>::GetOrLoad(
    absl::string_view key, const NearLoadOptions& options,
    Loader<Value> loader) {
  const int64_t end = core_.clock().NanosAfter(options.wait);
  bool joined_beaten = false;
  absl::StatusOr<Value> value =
      GetOrLoadOnce(key, options, loader, &joined_beaten);
  if (!joined_beaten) return value;
  NearLoadOptions again = options;
  again.wait = std::max(absl::Nanoseconds(end) - core_.clock().Now(),
                        absl::ZeroDuration());
  return GetOrLoadOnce(key, again, loader, &joined_beaten);
}

template <typename Value, typename Codec>
absl::StatusOr<Value> NearCache<Value, Codec>::GetOrLoadOnce(
    absl::string_view key, const NearLoadOptions& options, Loader<Value> loader,
    bool* joined_beaten) {
  Result found = Get(key);
  if (found.ok() && found->has_value()) return **std::move(found);
  if (!found.ok() && !Core::IsDown(found.status())) {
    return std::move(found).status();
  }
  internal::Interleave("near: before a load");
  LoadOptions load;
  load.wait = options.wait;
  bool joined = true;
  absl::StatusOr<Handle> handle =
      SharedLoads().FindOrLoad(key, load, [&]() -> absl::StatusOr<LoadedValue> {
        joined = false;
        bool is_beaten = false;
        std::optional<Value> value;
        const auto find = [&](bool fresh) -> absl::StatusOr<bool> {
          Result again = fresh ? GetFresh(key) : Get(key);
          if (!again.ok()) return std::move(again).status();
          value = *std::move(again);
          return value.has_value();
        };
        const auto call = [&]() -> absl::StatusOr<Core::Encoded> {
          absl::StatusOr<Loaded<Value>> loaded = loader();
          if (!loaded.ok()) return std::move(loaded).status();
          const absl::Duration ttl = loaded->ttl.value_or(options.ttl);
          value.emplace(std::move(loaded->value));
          return Core::Encoded{codec_.Encode(*value), ttl};
        };
        absl::Status status =
            core_.Load(key, options, {!found.ok(), find, call, &is_beaten});
        if (!status.ok()) return status;
        const FetchStamp stamp = FetchStamp::Of(is_beaten ? kBeaten : 0, 0);
        return LoadedValue{Stored::Make(stamp, std::move(value)),
                           absl::ZeroDuration()};
      });
  if (!handle.ok()) return std::move(handle).status();
  *joined_beaten = joined && Stored::Stamp(**handle).session() == kBeaten;
  return *Copy(**handle);
}

template <typename Value, typename Codec>
absl::Status NearCache<Value, Codec>::Set(absl::string_view key,
                                          const Value& value,
                                          absl::Duration ttl) {
  const std::string bytes = codec_.Encode(value);
  const OwnWrite write(this, {&key, 1});
  return core_.Put({key, bytes, ttl}, write.time_left());
}

template <typename Value, typename Codec>
absl::StatusOr<bool> NearCache<Value, Codec>::Del(absl::string_view key) {
  const OwnWrite write(this, {&key, 1});
  return std::move(core_.RemoveMany({key}, write.time_left())[0]);
}

template <typename Value, typename Codec>
std::vector<absl::Status> NearCache<Value, Codec>::SetMany(
    absl::Span<const Item> items) {
  absl::flat_hash_map<absl::string_view, size_t> place;  // Among the writes.
  std::vector<std::string> bytes(items.size());
  std::vector<absl::string_view> keys;
  std::vector<RemoteStore::Write> writes;
  for (size_t i = items.size(); i-- > 0;) {
    if (!place.emplace(items[i].key, writes.size()).second) continue;
    bytes[i] = codec_.Encode(items[i].value);
    keys.push_back(items[i].key);
    writes.push_back({items[i].key, bytes[i], items[i].ttl});
  }
  const OwnWrite write(this, keys);
  const std::vector<absl::Status> written =
      core_.PutMany(writes, write.time_left());
  std::vector<absl::Status> results;
  for (const Item& item : items) {
    results.push_back(written[place.find(item.key)->second]);
  }
  return results;
}

template <typename Value, typename Codec>
std::vector<absl::StatusOr<bool>> NearCache<Value, Codec>::DelMany(
    absl::Span<const absl::string_view> keys) {
  absl::flat_hash_map<absl::string_view, size_t> place;
  std::vector<absl::string_view> different;
  for (const absl::string_view key : keys) {
    if (place.emplace(key, different.size()).second) different.push_back(key);
  }
  const OwnWrite write(this, different);
  const std::vector<absl::StatusOr<bool>> removed =
      core_.RemoveMany(different, write.time_left());
  std::vector<absl::StatusOr<bool>> results;
  for (const absl::string_view key : keys) {
    results.push_back(removed[place.find(key)->second]);
  }
  return results;
}

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_NEAR_CACHE_H_
