// The hash of a key, split for its uses: parts of one 64-bit number choose the
// shard, the bucket of its index and the tag there.
//
// Threads. Thread-safe.

#ifndef WHEELCACHE_CACHE_INTERNAL_INDEX_KEY_HASH_H_
#define WHEELCACHE_CACHE_INTERNAL_INDEX_KEY_HASH_H_

#include <cstdint>
#include <type_traits>

#include "absl/base/attributes.h"
#include "wheelcache/cache/types/hash.h"
#include "wheelcache/cache/types/hash_strings.h"

namespace wheelcache::internal {

// The 32 bits of a hash that the index of a shard uses. The home bucket comes
// from the high bits, the tag from the low ones.
using Hash32 = uint32_t;

struct KeyHash {
  uint32_t for_shard;
  Hash32 for_index;
};

// The placeholder of a key (cache/internal/entry/entry.h) is in the index under
// a hash of its own, with another tag and the same home bucket. A look-up of
// the key does not see the placeholder under the lock; one without it may, if
// the placeholder takes the cell of an entry whose tag it has seen.
constexpr Hash32 PlaceholderHash(Hash32 of_key) { return of_key ^ (1 << 7); }

// Mixes the bits of the user's hash, which may be the identity; our own are
// mixed.
template <typename Hash, typename K>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline KeyHash HashKey(const K& key) {
  uint64_t hash = Hash()(key);
  if constexpr (!std::is_same_v<Hash, StringHash>) {
    hash = FoldedProduct(hash, 0x9e3779b97f4a7c15);
  }
  return {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(hash)};
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_INDEX_KEY_HASH_H_
