// A best-fit allocator of blocks of granules, with coalescing.
//
// A block has no header; its owner passes its size to Give. A free block has
// inside it its size, at both ends, and its links in the free list of its bin.
// One bit for each granule tells whether a free block begins or ends there, so
// that a block that is given back is coalesced with free neighbours: no memory
// is bound to the size in which it was used once.
//
// Bins hold free blocks by size, one size each up to 63 granules and a range of
// 3 % above. Take looks at a few blocks of the bin of the size, and then takes
// the first of the next bin that has any; the rest of the block stays free. It
// has a few cache misses: the price of coalescing, which Arena's stripes keep
// small.
//
// While more than a fifth is free, as after a Clear or a change of sizes,
// memory goes back to the system: each aligned 64 KiB that become free.
//
// With Sizes::kOne all blocks are promised to have one size. Then there is no
// search, no coalescing and no giving back to the system.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/zero_pages.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT BlockHeap {
 public:
  using Ref = GranuleRef;

  enum class Sizes { kOne, kMany };

  // The largest block, in granules: 64 KiB.
  static constexpr uint32_t kMaxBlock = 1 << 13;

  BlockHeap(Chunks* chunks, Sizes sizes) : chunks_(*chunks), sizes_(sizes) {}
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // Returns a block that was given back, or a part of one; 0 if none is large
  // enough.
  Ref Take(uint32_t granules);

  // Returns a block of fresh memory. May throw; see Chunks::Extend.
  Ref Carve(uint32_t granules);

  // Takes a block back.
  void Give(Ref ref, uint32_t granules);

  // Prefetches what Give of this block will read first: whether its neighbours
  // are free.
  void PrefetchNeighbours(Ref ref, uint32_t granules) const {
    if (sizes_ == Sizes::kOne) return;
    PrefetchLineToWrite(chunks_.At(ref - 1));
    PrefetchLineToWrite(chunks_.At(ref + granules));
    PrefetchLineToWrite(&chunks_.BitOf(ref).word);
  }

  // Where the next fresh memory begins, and the free granules before that.
  Ref carved() const { return carved_; }
  uint64_t free_granules() const { return free_granules_; }

  // Whether more than a fifth is free, so that memory goes back to the system.
  bool HasMuchFree() const { return free_granules_ > carved_ / 5; }

  // For tests: finds the first broken invariant. O(free blocks).
  absl::Status CheckInvariants() const;

 private:
  // Not 0, which is null; aligned, so that blocks that fill cache lines begin
  // at one.
  static constexpr Ref kFirstBlock = 8;

  static constexpr uint32_t kExactBins = 64;
  static constexpr int kBinsPerDoubling = 32;
  static constexpr int kBins = kExactBins + (32 - 6) * kBinsPerDoubling;

  // How many blocks of a bin Take looks at.
  static constexpr int kLooks = 8;

  static int BinOf(uint32_t granules);

  // A free block of two or more granules has its size in the first word of the
  // first granule and in the last word of the last; the next block of its bin
  // in the second word, the previous one in the third. A single granule has its
  // size twice and is in no bin: unusable until it is coalesced.
  uint32_t Size(Ref ref) const { return chunks_.Load(ref, 0); }
  uint32_t SizeBefore(Ref end) const { return chunks_.Load(end - 1, 1); }
  Ref Next(Ref ref) const { return chunks_.Load(ref, 1); }
  Ref Previous(Ref ref) const { return chunks_.Load(ref + 1, 0); }
  void SetNext(Ref ref, Ref next) { chunks_.Store(ref, 1, next); }
  void SetPrevious(Ref ref, Ref previous) {
    chunks_.Store(ref + 1, 0, previous);
  }

  // Whether a free block begins or ends with the granule.
  bool IsEdge(Ref ref) const {
    const Chunks::Bit bit = chunks_.BitOf(ref);
    return (bit.word & bit.mask) != 0;
  }
  void MarkEdges(Ref ref, uint32_t granules);
  void ClearEdges(Ref ref, uint32_t granules);

  Ref FindFit(uint32_t granules) const;
  int FirstBin(int from) const;  // That is not empty; or kBins.

  // Gives back to the system the memory whose last granules in use were `given`
  // to `given_end`, now a part of the free block from `begin` to `end`.
  void Release(Ref given, Ref given_end, Ref begin, Ref end);

  // Adds a free block to the bins, or takes it out of them.
  void Insert(Ref ref, uint32_t granules);
  void Remove(Ref ref, uint32_t granules);

  Chunks& chunks_;
  const Sizes sizes_;
  Ref carved_ = kFirstBlock;
  uint64_t free_granules_ = 0;
  // A bit for each bin.
  std::array<uint64_t, (kBins + 63) / 64> occupied_ = {};
  // Of each bin, the first block, or null. Not inside, so that small heaps are
  // small.
  const ZeroPages bin_pages_{kBins * sizeof(Ref)};
  Ref* const bins_ = reinterpret_cast<Ref*>(bin_pages_.begin());
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_
