// What the calls that load know of refreshes.
//
// TypedRefreshes (cache/internal/engine/typed_refreshes.h) does it. It is
// behind a virtual function so that only programs which set Hooks::reload
// compile it.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REFRESH_AHEAD_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REFRESH_AHEAD_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "wheelcache/cache/internal/entry/handle.h"
#include "wheelcache/cache/types/load.h"
#include "wheelcache/cache/types/view.h"

namespace wheelcache::internal {

template <typename Key, typename Value>
class RefreshAhead {
 public:
  using Handle = CacheHandle<Key, Value>;
  using Function =
      std::function<absl::StatusOr<Loaded<Value>>(View<Key>, View<Value> old)>;
  using Executor = std::function<void(std::function<void()> task)>;

  RefreshAhead() = default;
  RefreshAhead(const RefreshAhead&) = delete;
  RefreshAhead& operator=(const RefreshAhead&) = delete;
  virtual ~RefreshAhead() = default;

  // Refreshes the value that the handle pins, or has the executor do so, if it
  // is old enough and nobody else does. Returns the new value, or the old one.
  virtual Handle RefreshIfStale(Handle old) = 0;

  // The same, however young it is and whatever has failed before. Returns
  // whether a refresh has begun.
  virtual bool RefreshNow(Handle old) = 0;
};

template <typename Key, typename Value, typename Hash, typename Equal>
class TypedEngine;
template <typename Key, typename Value, typename Hash, typename Equal>
class TypedRefreshes;

// A function that reloads values; may be empty. Compiles what calls it where it
// is made of one.
template <typename Key, typename Value, typename Hash, typename Equal>
class ReloadHook {
 public:
  using Engine = TypedEngine<Key, Value, Hash, Equal>;
  using Refreshes = RefreshAhead<Key, Value>;
  using Function = typename Refreshes::Function;
  using Executor = typename Refreshes::Executor;

  ReloadHook() = default;
  ReloadHook(std::nullptr_t) {}  // NOLINT: as std::function.
  template <typename F, typename = std::enable_if_t<std::is_invocable_r_v<
                            absl::StatusOr<Loaded<Value>>, F&, View<Key>,
                            View<Value>>>>
  ReloadHook(F function)  // NOLINT: as std::function.
      : function_(std::move(function)), make_(&MakeRefreshes) {}

  bool set() const { return static_cast<bool>(function_); }

  // Returns what calls it, or null if it is empty.
  std::unique_ptr<Refreshes> Make(Engine* engine, Executor executor) {
    if (!set()) return nullptr;
    return make_(engine, std::move(function_), std::move(executor));
  }

 private:
  static std::unique_ptr<Refreshes> MakeRefreshes(Engine* engine,
                                                  Function function,
                                                  Executor executor) {
    return std::make_unique<TypedRefreshes<Key, Value, Hash, Equal>>(
        engine, std::move(function), std::move(executor));
  }

  Function function_;
  std::unique_ptr<Refreshes> (*make_)(Engine*, Function, Executor) = nullptr;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REFRESH_AHEAD_H_
