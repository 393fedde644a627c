// Two shared objects that use caches, each compiled from module.cc with hidden
// symbols.
//
// Whatever a module does with a cache, its own copy of the inline code does it.

#ifndef WHEELCACHE_TESTS_VISIBILITY_MODULE_H_
#define WHEELCACHE_TESTS_VISIBILITY_MODULE_H_

#include <functional>
#include <memory>
#include <string>

#include "wheelcache/cache/cache.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::testing {

// Values of which one can tell whether they still exist.
using ModuleCache = Cache<std::string, std::shared_ptr<int>>;

inline constexpr char kKeySetAtLoad[] = "set at load time";

struct Module {
  // A cache for a hundred entries without a reaper, and its end.
  ModuleCache* (*make)();
  void (*destroy)(ModuleCache* cache);

  // Each calls the method of its name.
  void (*set)(ModuleCache* cache, const std::string& key,
              std::shared_ptr<int> value);
  bool (*get)(ModuleCache* cache, const std::string& key);
  bool (*contains)(ModuleCache* cache, const std::string& key);
  bool (*visit)(ModuleCache* cache, const std::string& key,
                const std::function<void()>& visitor);
  bool (*get_or_load)(ModuleCache* cache, const std::string& key);
  bool (*touch)(ModuleCache* cache, const std::string& key);
  bool (*del)(ModuleCache* cache, const std::string& key);
  void (*clear)(ModuleCache* cache);
  void (*run_maintenance)(ModuleCache* cache);
  bool (*check_invariants)(ModuleCache* cache);

  // Made when the module was loaded, before the program's own initialization;
  // has kKeySetAtLoad. Never destroyed.
  ModuleCache* made_at_load;
};

WHEELCACHE_EXPORT const Module& FirstModule();
WHEELCACHE_EXPORT const Module& SecondModule();

}  // namespace wheelcache::testing

#endif  // WHEELCACHE_TESTS_VISIBILITY_MODULE_H_
