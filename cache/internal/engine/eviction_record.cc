#include "wheelcache/cache/internal/engine/eviction_record.h"

#include "wheelcache/cache/types/histogram.h"

namespace wheelcache::internal {

void EvictionRecord::AddTo(CacheStats* stats) const {
  Histogram& ages = stats->eviction_age;
  for (size_t i = 0; i < ages_.size(); ++i) {
    const auto bucket = static_cast<int64_t>(Read(ages_[i]));
    ages.counts[i] += bucket;
    stats->evictions += bucket;
  }
  stats->evicted_bytes += static_cast<int64_t>(Read(bytes_));
  ages.sum += static_cast<double>(Read(age_sum_)) * kAgeStepNanos / 1e9;

  Histogram& left = stats->eviction_life_left;
  for (size_t i = 0; i < kLifeBuckets; ++i) {
    const auto bucket = static_cast<int64_t>(Read(lived_[i]));
    left.counts[kLifeBuckets - 1 - i] += bucket;
    const double middle = 1 - (static_cast<double>(i) + 0.5) / kLifeBuckets;
    left.sum += static_cast<double>(bucket) * middle;
  }
}

}  // namespace wheelcache::internal
