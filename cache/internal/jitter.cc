#include "wheelcache/cache/internal/jitter.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/numeric/int128.h"
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
    : below_(options.jitter),
      width_(options.jitter_mode == JitterMode::kAround ? 2 * options.jitter
                                                        : options.jitter),
      random_(Generator(options, stream)) {}

int64_t Jitter::Vary(int64_t ttl_nanos) {
  if (width_ == 0) return ttl_nanos;
  const auto ttl = static_cast<double>(ttl_nanos);
  const int64_t lowest =
      std::max<int64_t>(ttl_nanos - static_cast<int64_t>(below_ * ttl), 1);
  // A product of 64-bit numbers, of which the high half is uniform in [0,
  // width]; drawing a double would take three times as long.
  const auto width = static_cast<uint64_t>(std::min(width_ * ttl, 0x1p62)) + 1;
  const auto offset = static_cast<int64_t>(
      absl::Uint128High64(absl::uint128(width) * random_()));
  return lowest < Clock::kNever - offset ? lowest + offset : Clock::kNever;
}

}  // namespace internal
}  // namespace wheelcache
