#include "wheelcache/cache/internal/engine/stats_logger.h"

#include "absl/time/time.h"
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
  int64_t due = due_nanos();
  const int64_t next = Clock::NanosAfter(now_nanos, kInterval);
  if (due > now_nanos ||
      !due_.compare_exchange_strong(due, next, std::memory_order_relaxed)) {
    return;
  }
  CacheStats before;
  before.hits = last_hits_.exchange(stats.hits, std::memory_order_relaxed);
  before.misses =
      last_misses_.exchange(stats.misses, std::memory_order_relaxed);
  const bool idle = stats.hits == before.hits && stats.misses == before.misses;
  if (!idle) log_(StatsLine(name_, before, stats));
}

}  // namespace wheelcache::internal
