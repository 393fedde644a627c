// Names one member of each public struct, as users of C++20 do, whose compilers
// warn of each other member that has no default. See run.

#include <string>

#include "wheelcache/cache/advice.h"
#include "wheelcache/cache/cache.h"
#include "wheelcache/cache/histogram.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/cache/near/remote_store.h"
#include "wheelcache/cache/near/testing/fake_store.h"
#include "wheelcache/cache/near/tls/tls.h"
#include "wheelcache/cache/registry.h"
#include "wheelcache/cache/snapshot/snapshot.h"
#include "wheelcache/cache/stats.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/timer_links.h"
#include "wheelcache/wheel/timer_service.h"

namespace wheelcache {

const CacheAdvice kCacheAdvice = {.half = 0.5};
const CacheLimits kCacheLimits = {.entries = 5};
const CacheOptions kCacheOptions = {.name = "x", .max_entries = 5};
const CacheReport kCacheReport = {.name = "x"};
const CacheSample kCacheSample = {.hits = 1};
const CacheStats kCacheStats = {.hits = 1};
const Cache<int, int>::Hooks kHooks = {.weigher = nullptr};
const FakeStore::Request kRequest = {.keys = {}};
const Histogram kHistogram = {.sum = 1};
const KeptMetric kKeptMetric = {.metric = {.name = "x"}};
const LoadOptions kLoadOptions = {.wait = absl::Seconds(1)};
const LruLinks<int> kLruLinks = {.newer = 1};
const NearCacheOptions kNearCacheOptions = {.key_prefix = "x"};
const NearCacheStats kNearCacheStats = {.local_hits = 1};
const NearCache<std::string>::Item kItem = {.key = "x"};
const NearLoadOptions kNearLoadOptions = {.ttl = absl::Seconds(1)};
const RedisStoreOptions kRedisStoreOptions = {.url = "x"};
const RemoteStore::Fetched kFetched = {.session = 1};
const RemoteStore::Lock kLock = {.key = "x"};
const RemoteStore::Write kWrite = {.key = "x"};
const LoadedSnapshot kLoadedSnapshot = {.stored = 1};
const SavedSnapshot kSavedSnapshot = {.entries = 1};
const SnapshotOptions kSnapshotOptions = {.progress = nullptr};
const SnapshotProgress kSnapshotProgress = {.entries = 1};
const TimerLinks<int> kTimerLinks = {.next = 1};
const TimerService<int, int>::Options kTimers = {.execute = [](int, int) {}};
const TlsOptions kTlsOptions = {.ca_file = "x"};

}  // namespace wheelcache
