// Passes free blocks in batches from thread to thread, or to a BlockHeap.
//
// A thread may free much more than it allocates: the first to see that a grace
// period has ended destroys what all others have retired meanwhile. It hands
// the blocks over in batches: about 16 KiB of blocks of one size, linked
// through their first words. A thread that has none of a size takes a batch.
// Either is O(1) and touches one block, where a BlockHeap reads the neighbours
// of each.
//
// Blocks that are too few for a batch, or too large, are loose: they wait here
// until a thread moves them to the heap.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_DEPOT_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_DEPOT_H_

#include <array>
#include <cstdint>

#include "wheelcache/cache/internal/memory/chunks.h"

namespace wheelcache::internal {

class Depot {
 public:
  using Ref = GranuleRef;

  // The largest block of a batch, in granules: 512 bytes.
  static constexpr uint32_t kMaxBlock = 64;

  // The number of blocks in a batch: enough for 16 KiB.
  static constexpr uint32_t ChainBlocks(uint32_t granules) {
    return (kChainGranules + granules - 1) / granules;
  }
  static constexpr uint32_t kChainGranules = 1 << 11;

  explicit Depot(const Chunks* chunks) : chunks_(*chunks) {}
  Depot(const Depot&) = delete;
  Depot& operator=(const Depot&) = delete;

  // The sum of the sizes, loose blocks included.
  uint64_t granules() const { return granules_; }

  // Adds a batch of ChainBlocks(granules) blocks of that size. Each has the
  // next one in its first word, the last one null.
  void Put(Ref first, uint32_t granules) {
    chunks_.Store(first, 1, chains_[granules]);
    chains_[granules] = first;
    granules_ += uint64_t{ChainBlocks(granules)} * granules;
  }

  // Takes such a batch out; null if there is none.
  Ref Take(uint32_t granules) {
    const Ref first = chains_[granules];
    if (first == 0) return 0;
    chains_[granules] = chunks_.Load(first, 1);
    granules_ -= uint64_t{ChainBlocks(granules)} * granules;
    return first;
  }

  // Adds a block that only a heap may take.
  void PutLoose(Ref ref, uint32_t granules) {
    chunks_.Store(ref, 0, loose_);
    chunks_.Store(ref, 1, granules);
    loose_ = ref;
    granules_ += granules;
  }

  // Blocks of one size, linked through their first words; `first` is 0 if there
  // is none.
  struct Blocks {
    Ref first = 0;
    uint32_t granules = 0;  // Of each.
    uint32_t count = 0;
  };

  // Takes out, for a heap, a loose block or, if there is none, a batch of the
  // smallest size if all batches together have more than `keep` granules.
  Blocks TakeForHeap(uint64_t keep) {
    if (loose_ != 0) return TakeLoose();
    if (granules_ <= keep) return {};
    uint32_t granules = 0;
    while (chains_[granules] == 0) ++granules;
    return {Take(granules), granules, ChainBlocks(granules)};
  }

 private:
  Blocks TakeLoose() {
    const Blocks block = {loose_, chunks_.Load(loose_, 1), 1};
    loose_ = chunks_.Load(block.first, 0);
    chunks_.Store(block.first, 0, 0);
    granules_ -= block.granules;
    return block;
  }

  const Chunks& chunks_;
  // By size, the batches: their first blocks, linked by their second words.
  std::array<Ref, kMaxBlock + 1> chains_ = {};
  // The first of the loose blocks: each has the next one in its first word, and
  // its size in the second.
  Ref loose_ = 0;
  uint64_t granules_ = 0;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_DEPOT_H_
