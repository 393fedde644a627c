#include "wheelcache/cache/internal/jitter.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/random/random.h"
#include "wheelcache/cache/options.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace internal {
namespace {

absl::InsecureBitGen Generator(const CacheOptions& options, uint32_t stream) {
  if (!options.jitter_seed.has_value()) return absl::InsecureBitGen();
  const uint64_t seed = *options.jitter_seed;
  std::seed_seq words{static_cast<uint32_t>(seed),
                      static_cast<uint32_t>(seed >> 32), stream};
  return absl::InsecureBitGen(words);
}

}  // namespace

Jitter::Jitter(const CacheOptions& options, uint32_t stream)
    : low_(1 - options.jitter),
      high_(options.jitter_mode == JitterMode::kAround ? 1 + options.jitter
                                                       : 1),
      random_(Generator(options, stream)) {}

int64_t Jitter::Vary(int64_t ttl_nanos) {
  if (low_ == high_) return ttl_nanos;
  const double factor =
      absl::Uniform(absl::IntervalClosedClosed, random_, low_, high_);
  const double varied = static_cast<double>(ttl_nanos) * factor;
  // Doubles from 2^63 on do not fit.
  if (varied >= static_cast<double>(Clock::kNever)) return Clock::kNever;
  return std::max<int64_t>(static_cast<int64_t>(varied), 1);
}

}  // namespace internal
}  // namespace wheelcache
