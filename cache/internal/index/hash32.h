// The 32 bits of a key's hash that a shard's index uses.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_

#include <cstdint>

namespace wheelcache::internal {

// The home bucket comes from the high bits, the tag from the low ones.
using Hash32 = uint32_t;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_
