// A shared object that a program loads and unloads: with a copy of the library
// that it hides, and nothing that would keep it loaded.

#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/tests/visibility/module.h"
#include "wheelcache/wheel/base/export.h"

// Makes a cache, uses it on a thread, and ends both. Returns whether it worked.
extern "C" WHEELCACHE_EXPORT bool UseACacheOnAThread() {
  bool worked = false;
  std::thread([&] {
    const std::unique_ptr<wheelcache::testing::ModuleCache> cache(
        wheelcache::testing::ModuleCache::Create({})->release());
    cache->Set("key", std::make_shared<int>(1), absl::Hours(1));
    worked = cache->reaper_status().ok() && cache->Get("key").has_value();
  }).join();
  return worked;
}
