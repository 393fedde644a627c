#include "wheelcache/cache/internal/engine/jitter.h"

#include <algorithm>

#include "absl/random/random.h"
#include "wheelcache/cache/types/hash_strings.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache::internal {
namespace {

// Wang Yi's wyrand (2019): a counter with this step, each value mixed. Abseil's
// generators are no choice here: they add salt of the process to a seed, and so
// repeat nothing.
constexpr uint64_t kStep = 0xa0761d6478bd642f;

uint64_t Mix(uint64_t z) { return FoldedProduct(z, z ^ 0xe7037ed1a0b428db); }

uint64_t FirstState(const CacheOptions& options, uint32_t stream) {
  if (!options.jitter_seed.has_value()) return absl::InsecureBitGen()();
  // Far from the other streams' states, that they do not follow each other.
  return Mix(Mix(*options.jitter_seed + kStep) + stream);
}

}  // namespace

Jitter::Jitter(const CacheOptions& options, uint32_t stream)
    : low_(1 - options.jitter),
      high_(options.jitter_mode == JitterMode::kAround ? 1 + options.jitter
                                                       : 1),
      state_(FirstState(options, stream)) {}

double Jitter::NextFraction() {
  state_ += kStep;
  // 53 bits are what a double holds.
  return static_cast<double>(Mix(state_) >> 11) * 0x1p-53;
}

int64_t Jitter::Vary(int64_t ttl_nanos) {
  if (low_ == high_) return ttl_nanos;
  const double factor = low_ + (high_ - low_) * NextFraction();
  const double varied = static_cast<double>(ttl_nanos) * factor;
  // Doubles from 2^63 on do not fit.
  if (varied >= static_cast<double>(Clock::kNever)) return Clock::kNever;
  return std::max<int64_t>(static_cast<int64_t>(varied), 1);
}

}  // namespace wheelcache::internal
