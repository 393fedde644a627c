#include "wheelcache/tests/visibility/module.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/options.h"

namespace wheelcache::testing {
namespace {

ModuleCache* Make() {
  CacheOptions options;
  options.max_entries = 100;
  options.reaper = nullptr;
  return ModuleCache::Create(options)->release();
}

ModuleCache* MakeWithAKey() {
  ModuleCache* const cache = Make();
  cache->Set(kKeySetAtLoad, std::make_shared<int>(1));
  return cache;
}

const Module kModule = {
    &Make,
    [](ModuleCache* cache) { delete cache; },
    [](ModuleCache* cache, const std::string& key, std::shared_ptr<int> value) {
      cache->Set(key, std::move(value));
    },
    [](ModuleCache* cache, const std::string& key) {
      return cache->Get(key).has_value();
    },
    [](ModuleCache* cache, const std::string& key) {
      return cache->Contains(key);
    },
    [](ModuleCache* cache, const std::string& key,
       const std::function<void()>& visitor) {
      return cache->Visit(key, [&](const std::shared_ptr<int>&) { visitor(); });
    },
    [](ModuleCache* cache, const std::string& key) {
      return cache->GetOrLoad(key, [] { return std::make_shared<int>(0); })
          .ok();
    },
    [](ModuleCache* cache, const std::string& key) {
      return cache->Touch(key, absl::Hours(1));
    },
    [](ModuleCache* cache, const std::string& key) { return cache->Del(key); },
    [](ModuleCache* cache) { cache->Clear(); },
    [](ModuleCache* cache) { cache->RunMaintenance(); },
    [](ModuleCache* cache) { return cache->CheckInvariants().ok(); },
    MakeWithAKey(),
};

}  // namespace

// FirstModule or SecondModule.
const Module& WHEELCACHE_TEST_MODULE() { return kModule; }

}  // namespace wheelcache::testing
