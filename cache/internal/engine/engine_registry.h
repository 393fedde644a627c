// The engines of the process that show themselves, by name; and for each of
// them a history of its hits, kept for whoever looks.
//
//   EngineRegistry::Get().ForEach([](const EngineRegistry::Item& item) {
//     Show(item.name, item.id, item.engine.stats());
//   });
//
// Engines of one name are told apart by an id: the lowest from 1 on that is
// free when the engine comes, so that what is made again looks the same again.
//
// Threads. Thread-safe. An engine that leaves waits for a ForEach to end. So
// what that calls must neither make nor end a cache, nor take a lock that is
// held while one ends or during a fork(): stats() takes none.
//
// fork(). The child may go on using it.
//
// Errors. Add and Extend may throw std::bad_alloc and have changed nothing
// then. The rest needs no memory; where there is none for a history, there is
// no history.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_REGISTRY_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/internal/engine/history.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/wheel/base/at_fork.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class Engine;
class ReportExtension;

class WHEELCACHE_EXPORT EngineRegistry {
 public:
  // By the options that an engine has.
  using Extensions = std::map<const CacheOptions*, const ReportExtension*>;

  // What ForEach shows of an engine.
  struct Item {
    const Engine& engine;
    const std::string& name;
    int id;

    // For whoever looks to add to. Null if there is no memory for it.
    History* history;

    // Of all engines.
    const Extensions& extensions;
  };

  // That of the process. Never destroyed: static caches may end at any time.
  static EngineRegistry& Get();

  // Adds an engine and returns its id.
  int Add(const Engine* engine, absl::string_view name);

  // Takes out the engine with this name and id.
  void Remove(absl::string_view name, int id);

  // Sets the extension of the engine that has these options; null for none.
  // The one before it is not called any more.
  void Extend(const CacheOptions* engine, const ReportExtension* extension);

  // Calls `visit` with each engine, ordered by name and id, under the lock of
  // the registry.
  void ForEach(absl::FunctionRef<void(const Item&)> visit);

  // For tests: how many names there are.
  size_t names();

 private:
  struct Slot {
    const Engine* engine = nullptr;    // Null: the id is free.
    std::unique_ptr<History> history;  // Null until somebody looks.
  };

  // The engines of one name.
  struct Group {
    std::vector<Slot> slots;  // By id, from 1 on. The last one is taken.
    size_t first_free = 0;    // None before it is free.
  };

  EngineRegistry() = default;

  friend class ForkRegistration;
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockInChild(); }

  Mutex mu_;
  std::map<std::string, Group, std::less<>> groups_ ABSL_GUARDED_BY(mu_);
  Extensions extensions_ ABSL_GUARDED_BY(mu_);

  ForkRegistration fork_registration_{this};  // The last member.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_ENGINE_REGISTRY_H_
