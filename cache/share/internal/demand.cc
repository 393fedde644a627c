#include "wheelcache/cache/share/internal/demand.h"

#include <algorithm>
#include <cmath>

namespace wheelcache::internal {
namespace {

// After so many seconds, what was seen counts 1 / e.
constexpr double kMemorySeconds = 10;

// That of traces of blocks, objects and database pages is .05 to .2.
constexpr double kReuse = 0.1;

constexpr double kLn2 = 0.69314718055994531;

}  // namespace

void Demand::Observe(const CacheStats& stats,
                     const std::optional<Advisor::MoreHits>& more,
                     double seconds) {
  Counts now;
  now.misses = static_cast<double>(stats.misses);
  now.evictions = static_cast<double>(stats.evictions);
  now.evicted_bytes = static_cast<double>(stats.evicted_bytes);
  now.age_seconds = stats.eviction_age.sum;
  if (more.has_value()) {
    now.sampled_misses = more->misses;
    now.half = more->half;
    now.twice = more->twice;
    now.four_times = more->four_times;
  }
  const Counts last = last_.value_or(now);
  last_ = now;
  const double keep = std::exp(-seconds / kMemorySeconds);
  for (const auto count :
       {&Counts::misses, &Counts::sampled_misses, &Counts::half, &Counts::twice,
        &Counts::four_times, &Counts::evictions, &Counts::evicted_bytes,
        &Counts::age_seconds}) {
    recent_.*count = recent_.*count * keep + (now.*count - last.*count);
  }
  seconds_ = seconds_ * keep + seconds;
  seconds_without_eviction_ =
      now.evictions > last.evictions ? 0 : seconds_without_eviction_ + seconds;
  gain_ = loss_ = error_ = 0;
  if (seconds_ <= 0) return;
  if (more.has_value() && stats.advice.has_value()) {
    FromSample(static_cast<double>(stats.max_bytes), stats.advice->sampled);
  } else {
    FromAges();
  }
}

void Demand::FromSample(double bytes, double sampled) {
  // As the same part of the misses as of those of the sample, of which there
  // are more or fewer by chance.
  const double chance =
      recent_.sampled_misses > 0
          ? std::min(recent_.misses / recent_.sampled_misses, 1 / sampled)
          : 1;
  const double half = std::max(-recent_.half, 0.0);
  const double twice = std::max(recent_.twice, 0.0) * chance;
  const double four_times = std::max(recent_.four_times, 0.0) * chance;
  const double per_hit = 1 / (2 * kLn2 * bytes * seconds_);
  loss_ = (half + twice) * per_hit;
  gain_ = std::max(loss_, four_times / (3 * bytes * seconds_));
  // Each sampled hit stands for others. One more, for where there was none.
  error_ = std::sqrt((half + twice + 1) / sampled) * per_hit;
}

void Demand::FromAges() {
  // Less than one is what is left of what was long ago.
  if (recent_.evictions < 1 || recent_.age_seconds <= 0) return;
  const double age =
      recent_.age_seconds / recent_.evictions + seconds_without_eviction_;
  const double bytes = recent_.evicted_bytes / recent_.evictions;
  gain_ = loss_ = kReuse / (age * bytes);
  error_ = gain_ / std::sqrt(recent_.evictions);
}

}  // namespace wheelcache::internal
