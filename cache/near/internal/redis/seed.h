// A seed that differs from one call, process and machine to the next.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SEED_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SEED_H_

#include <cstdint>
#include <random>

namespace wheelcache::internal {

inline uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SEED_H_
