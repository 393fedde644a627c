// The part of a key's hash by which the index of a shard finds the entry.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_

#include <cstdint>

namespace wheelcache::internal {

// The home bucket comes from the high bits, the tag from the low ones.
using Hash32 = uint32_t;

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_HASH32_H_
