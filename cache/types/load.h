// What a loader returns, and how a call that loads behaves.
//
//   wheelcache::LoadOptions options;
//   options.wait = absl::Milliseconds(200);
//   options.error_ttl = absl::Seconds(1);
//   auto user = cache->FindOrLoad(id, options, [&]() -> Users::LoadResult {
//     absl::StatusOr<Row> row = database.Read(id);
//     if (!row.ok()) return row.status();
//     return wheelcache::Loaded<User>{Parse(*row), row->max_age};
//   });
//
// A loader returns a Value, a Loaded<Value>, which names the TTL, or a StatusOr
// of either. FindOrLoad and GetOrLoad without one use Hooks::load.
//
// Single-flight. One caller loads a key; calls for it that come meanwhile get
// the same result, a failure as well, and run no loader.
//
// Superseded. A Set, Del, Take, Clear or EraseIf that comes while a load runs
// supersedes it, whether or not it finds anything; SetIf, DelIf and Update do
// if they change something. Then the result still reaches those who wait for
// it, but is not stored, and whoever asks later starts another load. So a value
// that was read before an invalidation is never stored after it. Expiry,
// eviction and Touch supersede nothing.
//
// Absence is data: a Cache<Key, std::optional<User>> whose loader returns
// {std::nullopt, absl::Seconds(5)} remembers for five seconds that there is no
// such user.
//
// Cancelled. kCancelled from a loader means "for my own reasons, not the
// source's", as when its client has gone away: it is not handed on, and of
// those who wait the first one leads instead: a blocked caller runs its own
// loader, and a caller of BeginLoad that gave a `lead` gets the ticket. Callers
// of BeginLoad get kCancelled if there is none.
//
// Refresh-ahead. With Hooks::reload, or else Hooks::load, a call that finds a
// value older than CacheOptions::refresh_after, or beyond refresh_at of its
// life, has it refreshed: FindOrLoad, GetOrLoad, BeginLoad and Refresh do,
// plain reads do not. One caller runs the hook, or hands it to Hooks::executor;
// all others, and that one if there is an executor, get the old value
// meanwhile. The deadline still ends the old value. If the hook fails or
// throws, the old value stays, and is refreshed again retry_after later. What
// supersedes a load supersedes a refresh. A miss joins a refresh that runs, and
// takes the place of one that is queued. After Stop, no refresh begins.
//
// Waiting for ever. A call that would do so gets FailedPrecondition: that of a
// loader for its own key, and the one that closes a cycle of loaders that wait
// for each other, on any threads and in any caches of the process.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_TYPES_LOAD_H_
#define WHEELCACHE_CACHE_TYPES_LOAD_H_

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "wheelcache/cache/types/requirements.h"
#include "wheelcache/wheel/base/version.h"

namespace wheelcache {

template <typename Value>
struct Loaded;

namespace internal {

// Whether V becomes the Value of a Loaded: not what a std::any, say, would take
// although a StatusOr of its value is meant.
template <typename V, typename Value>
struct MayBeLoaded : std::bool_constant<kConverts<Value, V&&>> {};
template <typename V, typename Value>
struct MayBeLoaded<absl::StatusOr<V>, Value>
    : std::is_same<absl::StatusOr<V>, Value> {};
template <typename Value>
struct MayBeLoaded<Loaded<Value>, Value> : std::false_type {};

}  // namespace internal

// A value, and how long it may be used, varied by the jitter. A TTL of zero or
// less: the callers get the value, and it is not stored; an old one stays.
template <typename Value>
struct Loaded {
  // Implicit, so that a loader may return what converts to a Value.
  template <typename V = Value,
            std::enable_if_t<
                internal::MayBeLoaded<
                    std::remove_cv_t<std::remove_reference_t<V>>, Value>::value,
                int> = 0>
  Loaded(V&& loaded,  // NOLINT(google-explicit-constructor)
         std::optional<absl::Duration> loaded_ttl = std::nullopt)
      : value(std::forward<V>(loaded)), ttl(loaded_ttl) {}

  Value value;
  // None: that of the call; from the hooks, CacheOptions::default_ttl.
  std::optional<absl::Duration> ttl;
};

// What loads one key.
template <typename Value>
using Loader = absl::FunctionRef<absl::StatusOr<Loaded<Value>>()>;

// What loads many: gets the positions of their keys, and returns a result for
// each, or all get Internal.
template <typename Value>
using BatchLoader =
    absl::FunctionRef<std::vector<absl::StatusOr<Loaded<Value>>>(
        absl::Span<const size_t> missing)>;

// What BeginLoad calls with the result, once. Each handle has a pin of its own.
template <typename Handle>
using LoadDone = absl::AnyInvocable<void(absl::StatusOr<Handle>)>;

// What BeginLoad calls with the ticket of a load that was given up.
template <typename Ticket>
using TakeTicket = absl::AnyInvocable<void(Ticket)>;

struct LoadOptions {
  // The TTL where the loader names none. None: CacheOptions::default_ttl.
  std::optional<absl::Duration> ttl = std::nullopt;

  // How long to wait for the load of another caller, by the cache's clock; then
  // the call returns kDeadlineExceeded, and the load goes on. Zero never waits.
  // The caller's own loader takes the time it takes. FindOrLoadMany waits that
  // long for all its keys together.
  absl::Duration wait = absl::InfiniteDuration();

  // How long a failure of this load is remembered: until then it answers later
  // callers, unless the load is superseded. It counts as an entry without a
  // value and may be evicted, but is not shown, nor told to a listener, nor
  // counted among what is removed. An exception or kCancelled is not
  // remembered.
  absl::Duration error_ttl = absl::ZeroDuration();

  // A value of a greater age counts as missing, and stays if its load fails,
  // which returns the error. Ages are in steps of 20 ms; see CacheHandle::Age.
  absl::Duration max_age = absl::InfiniteDuration();
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_TYPES_LOAD_H_
