// Which cache of a share gives bytes to which, and how many.
//
//   std::optional<Move> move = ChooseMove(members, /*free=*/0, max_bytes);
//
// The bytes go to the full cache that gains most, from the one that loses
// least, with a byte each. They come to rest because a move
//  - needs a gain that is more than the loss by a tenth, and by three standard
//    errors: two caches of the same load do not trade;
//  - is half of what would make the two equal, as the curve of the logarithm
//    says, and at most a kStep-th of all bytes, and of those that the cache
//    has: what it gives in a second is known to hurt before it gives the next.
//
// What a cache does not use is free for others, but for a margin in which it
// may grow.
//
// Threads. Functions of their arguments alone.

#ifndef WHEELCACHE_CACHE_SHARE_INTERNAL_CHOICE_H_
#define WHEELCACHE_CACHE_SHARE_INTERNAL_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

// A member of a share. Hits a second and byte are weighted.
struct Holding {
  int64_t bytes = 0;  // Its limit.
  int64_t used = 0;
  int64_t min_bytes = 0;
  double gain = 0;
  double loss = 0;
  double error = 0;
};

struct Move {
  std::optional<size_t> from;  // A member; nothing for free bytes.
  size_t to = 0;
  int64_t bytes = 0;
  double gain = 0;
  double loss = 0;
};

// Returns what to do next, if anything, where `free` bytes belong to nobody.
WHEELCACHE_EXPORT std::optional<Move> ChooseMove(
    absl::Span<const Holding> members, int64_t free, int64_t max_bytes);

// Returns how many bytes each member gives if all together are to give `most`,
// or what they can above their floors: in proportion to that.
WHEELCACHE_EXPORT std::vector<int64_t> SpreadLoss(
    absl::Span<const Holding> members, int64_t most);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_SHARE_INTERNAL_CHOICE_H_
