// Hands a cache's line of statistics to CacheOptions::stats_log once a minute,
// and stays silent in a minute in which nobody read.
//
// Threads. Thread-safe, and takes no lock.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT StatsLogger {
 public:
  StatsLogger(const CacheOptions& options, int64_t now_nanos);

  // When the next line is due; never without a log.
  int64_t due_nanos() const { return due_.load(std::memory_order_relaxed); }

  // Logs the line that is due, if it is, from the present statistics.
  void Run(int64_t now_nanos, const CacheStats& stats);

 private:
  const std::string name_;
  const decltype(CacheOptions::stats_log) log_;

  // Relaxed: whoever moves it on logs the line.
  std::atomic<int64_t> due_;
  // At the last line. Not a CacheStats, for each cache has them.
  std::atomic<int64_t> last_hits_{0};
  std::atomic<int64_t> last_misses_{0};
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_STATS_LOGGER_H_
