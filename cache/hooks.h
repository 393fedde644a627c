// The user's code that a cache calls.
//
//   Cache<std::string, Session>::Hooks hooks;
//   hooks.on_removal = [](std::string_view key, const Session& session,
//                         wheelcache::RemovalCause cause) {
//     if (cause == RemovalCause::kDeleted) session.LogOut(key);
//   };
//   auto cache = *Cache<std::string, Session>::Create({}, hooks);
//
// Threads. Thread-compatible. The cache calls each hook with no lock held, on
// any thread that calls the cache, and on the reaper's, but for `load` and
// `reload`.

#ifndef WHEELCACHE_CACHE_HOOKS_H_
#define WHEELCACHE_CACHE_HOOKS_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/removal.h"
#include "wheelcache/cache/types/view.h"

namespace wheelcache {

// Each may be empty.
template <typename Key, typename Value>
struct CacheHooks {
  // Returns the bytes that key and value take; see cache/weigh.h.
  internal::Callback<uint64_t(View<Key>, View<Value>)> weigher = {};

  // Is told of each entry that has left; see cache/removal.h.
  internal::Callback<void(View<Key>, View<Value>, RemovalCause)> on_removal =
      {};

  // Loads a key, for the calls that name no loader; see cache/load.h.
  internal::Callback<absl::StatusOr<Loaded<Value>>(View<Key>)> load = {};

  // Refreshes the value of a key. If empty, `load` does.
  internal::Callback<absl::StatusOr<Loaded<Value>>(View<Key>, View<Value> old)>
      reload = {};

  // Runs refreshes, on any thread; if empty, the calls that begin them do. It
  // may drop a task, and must destroy those that it has not run.
  std::function<void(std::function<void()> task)> executor = {};
};

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_HOOKS_H_
