// The hash of a key as the cache uses it: parts of one 64-bit number choose
// the shard, the bucket of its index and the tag there.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_KEY_HASH_H_
#define WHEELCACHE_CACHE_INTERNAL_KEY_HASH_H_

#include <cstddef>
#include <cstdint>

#include "absl/numeric/int128.h"

namespace wheelcache {
namespace internal {

struct KeyHash {
  uint32_t for_shard;
  uint32_t for_index;
};

// Spreads the bits of the user's hash, which may be as plain as the number
// itself.
template <typename Hash, typename K>
KeyHash HashKey(const K& key) {
  const absl::uint128 product =
      absl::uint128(Hash()(key)) * uint64_t{0x9e3779b97f4a7c15};
  const uint64_t mixed =
      absl::Uint128High64(product) ^ absl::Uint128Low64(product);
  return {static_cast<uint32_t>(mixed >> 32), static_cast<uint32_t>(mixed)};
}

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_KEY_HASH_H_
