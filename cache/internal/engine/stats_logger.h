// Hands a cache's line of statistics to CacheOptions::stats_log once a minute,
// and stays silent in a minute in which nobody read.
//
// Threads. Thread-safe; the log is called with no lock held.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT StatsLogger {
 public:
  StatsLogger(const CacheOptions& options, int64_t now_nanos);

  // When the next line is due; never without a log.
  int64_t due_nanos() const { return due_.load(std::memory_order_relaxed); }

  // Logs the line that is due, if it is, from the present statistics.
  void Run(int64_t now_nanos, const CacheStats& stats);

  // Around fork(): keeps the lock whole in the child.
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mu_.UnlockInChild();
  }

 private:
  const std::string name_;
  const std::function<void(absl::string_view)> log_;

  // Written under mu_, and looked at there again before it counts: relaxed.
  std::atomic<int64_t> due_;
  Mutex mu_;
  // At the last line. Not a CacheStats, for each cache has them.
  int64_t last_hits_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t last_misses_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_
