// What stands around a cache and has more to report of it: a near cache, of
// which the cache is the local tier. EngineRegistry has it.
//
// Threads. Methods are called under the lock of the registry: they must neither
// make nor end a cache, nor take a lock that is held while one ends or during a
// fork().

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_EXTENSION_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_EXTENSION_H_

#include "absl/functional/function_ref.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT ReportExtension {
 public:
  virtual ~ReportExtension() = default;

  // Corrects what the cache has counted, which takes the calls of the extension
  // for those of a user.
  virtual void Correct(CacheStats* stats) const = 0;

  // As CacheStats::ForEachMetric. All extensions have the same metrics.
  virtual void ForEachMetric(
      absl::FunctionRef<void(const Metric&)> visit) const = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REPORT_EXTENSION_H_
