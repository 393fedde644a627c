#include "wheelcache/cache/internal/engine/stats_logger.h"

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "wheelcache/cache/types/options.h"
#include "wheelcache/cache/types/stats.h"
#include "wheelcache/wheel/base/mutex.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

constexpr absl::Duration kInterval = absl::Minutes(1);

}  // namespace

StatsLogger::StatsLogger(const CacheOptions& options, int64_t now_nanos)
    : name_(options.name),
      log_(options.stats_log),
      due_(log_ ? Clock::NanosAfter(now_nanos, kInterval) : Clock::kNever) {}

void StatsLogger::Run(int64_t now_nanos, const CacheStats& stats) {
  CacheStats before;
  {
    MutexLock lock(&mu_);
    if (due_nanos() > now_nanos) return;
    due_.store(Clock::NanosAfter(now_nanos, kInterval),
               std::memory_order_relaxed);
    before.hits = std::exchange(last_hits_, stats.hits);
    before.misses = std::exchange(last_misses_, stats.misses);
  }
  const bool idle = stats.hits == before.hits && stats.misses == before.misses;
  if (!idle) log_(StatsLine(name_, before, stats));
}

}  // namespace wheelcache::internal
