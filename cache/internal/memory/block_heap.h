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
// Idle memory is free and still resident. While there is a surplus of it, pages
// go back to the system as they become free: 2 MiB at a time, or those of a
// large block. Each system call interrupts all threads of the process, so
// ranges are few and large, and many of them share a call where the system can
// do that. What small blocks in use pin cannot go back. For that
// there are rounds: Condemn chooses the units of 64 KiB with the most idle
// memory and takes their free blocks out of the bins, so that nothing new comes
// to lie there; the owner moves what is in use elsewhere, which frees whole
// units; and Pardon ends the round and gives back what is free there, all that
// lies together as one range.
//
// Threads. Thread-compatible.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

class PageRelease;

class WHEELCACHE_EXPORT BlockHeap {
 public:
  using Ref = GranuleRef;

  // The largest block, in granules: 256 KiB.
  static constexpr uint32_t kMaxBlock = 1 << 15;

  explicit BlockHeap(Chunks* chunks) : chunks_(*chunks) {}
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // Returns a block that was given back, or a part of one; 0 if none is large
  // enough.
  Ref Take(uint32_t granules);

  // Returns a block of fresh memory; 0 if there is none.
  Ref Carve(uint32_t granules);

  // Takes a block back.
  void Give(Ref ref, uint32_t granules);

  // Prefetches what Give of this block will read first: whether its neighbours
  // are free.
  void PrefetchNeighbours(Ref ref, uint32_t granules) const {
    PrefetchLineToWrite(chunks_.At(ref - 1));
    PrefetchLineToWrite(chunks_.At(ref + granules));
    PrefetchLineToWrite(&chunks_.BitOf(ref).word);
  }

  // Where the next fresh memory begins, and the free granules before that.
  Ref carved() const { return carved_; }
  uint64_t free_granules() const { return free_granules_; }

  // The granules that are resident; and those of them that are free.
  uint64_t resident() const { return carved_ - released_; }
  uint64_t idle() const { return free_granules_ - released_; }

  // Whether there is more idle memory than a 16th of what is in use, so that
  // free pages go back to the system.
  bool HasSurplus() const {
    constexpr uint64_t kFew = 1 << 17;  // 1 MiB.
    return idle() > in_use() / 16 + kFew;
  }

  // Whether there is enough of it for a round: more than a 12th, and clearly
  // more than the last round could not change, unless half of what was in use
  // then has gone.
  bool NeedsRound() const {
    constexpr uint64_t kFew = 1 << 18;  // 2 MiB.
    if (round_required_) return true;
    return idle() > in_use() / 12 + kFew &&
           (idle() > hopeless_ || in_use() < hopeless_in_use_ / 2);
  }

  // Gives the idle pages of large blocks back, at most so many ranges.
  void ReleaseLarge(int most_ranges);

  // Begins a round. Returns whether anything was condemned.
  bool Condemn();

  // Whether a block begins in a condemned unit. Thread-safe: a hint.
  bool IsCondemned(Ref ref) const {
    return chunks_.UnitOf(ref).condemned.load(std::memory_order_relaxed);
  }

  // Ends the round: what is still in use in condemned units may stay. Returns
  // false if it has given about so many ranges back and is to be called again.
  bool Pardon(int most_ranges);

  // For tests: has the next round condemn all units, however little is idle.
  void RequireRound() { round_required_ = true; }

  // For tests: the ranges that were given back.
  uint64_t releases() const { return releases_; }

  // For tests: finds the first broken invariant. O(memory).
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

  // From this size on (16 KiB), each block that becomes free is worth a system
  // call of its own.
  static constexpr uint32_t kLarge = 1 << 11;

  static constexpr uint32_t kUnit = Chunks::kUnit;
  static constexpr uint32_t kPage = Chunks::kPage;
  // What small blocks give back at once: fewer calls, and no huge page split.
  static constexpr uint32_t kRegion = Chunks::kHugePage;

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

  // Calls `visit(ref, granules)` for each free block that begins in the unit.
  template <typename Visit>
  void ForEachFreeIn(Ref unit, Visit&& visit) const;
  Ref EndOfFreeOver(Ref unit) const;
  Ref NextEdge(Ref from, Ref end) const;  // Or `end`.

  // The idle granules that free blocks which begin or end in the unit have
  // there.
  static uint32_t IdleIn(const Chunks::Unit& unit);
  // Which units to condemn, by how many steps of idle memory they have: all
  // with more than `least_step`, and some of those with so many.
  static constexpr uint32_t kStep = kUnit / 32;
  struct Sparse {
    uint32_t least_step;
    uint32_t units_of_least;
  };
  Sparse FindSparse() const;
  void CondemnUnit(Ref unit);
  // Where a round changes little, the next one waits until more is idle.
  void GiveUp();

  // Gives pages back that have become free with the block from `given` to
  // `given_end`, which is a part of the free block from `begin` to `end` now.
  void Release(Ref given, Ref given_end, Ref begin, Ref end);
  // Adds what is resident of these pages of one free block to what goes back.
  // Returns the number of ranges: 0 or 1.
  int ReleasePages(uint32_t begin, uint32_t end, PageRelease* release);
  void MarkReleased(uint32_t begin, uint32_t end);
  template <typename Visit>
  void ForEachUnitOf(uint32_t begin, uint32_t end, Visit visit);
  // The first page that a free block does not need for its links and size, and
  // the one behind the last of these.
  static uint32_t FirstPage(Ref begin) {
    return (begin + 2 + kPage - 1) / kPage;
  }
  static uint32_t EndPage(Ref end) { return (end - 1) / kPage; }
  // The first page of the system's own page that this one is in, and the one
  // behind the last of them.
  uint32_t SystemPageBegin(uint32_t page) const {
    return page / pages_at_once_ * pages_at_once_;
  }
  uint32_t SystemPageEnd(uint32_t page) const {
    return SystemPageBegin(page) + pages_at_once_;
  }
  // Records that these granules will be written to.
  void UseAgain(Ref begin, Ref end) {
    if (released_ > 0) UsePagesAgain(begin / kPage, (end - 1) / kPage + 1);
  }
  void UsePagesAgain(uint32_t begin, uint32_t end);

  // Adds a free block, or takes it out.
  void Insert(Ref ref, uint32_t granules);
  void Remove(Ref ref, uint32_t granules);
  // The same for the bins alone.
  void Link(Ref ref, uint32_t granules);
  void Unlink(Ref ref, uint32_t granules);
  // Counts the free block's granules in the units of its ends, or no longer.
  void CountInUnits(Ref ref, uint32_t granules, bool free);

  absl::Status CheckBins() const;
  absl::Status CheckUnits() const;

  uint64_t in_use() const { return carved_ - free_granules_; }
  // Whether there is no unit yet.
  bool untouched() const { return carved_ == kFirstBlock; }

  Chunks& chunks_;
  const uint32_t pages_at_once_ = Chunks::PagesAtOnce();
  Ref carved_ = kFirstBlock;
  uint64_t free_granules_ = 0;
  uint64_t released_ = 0;  // Granules, all of them free.
  // What was idle before the present round, and how much has to be for the next
  // one after a round that changed little; and what was in use after that.
  uint64_t idle_before_ = 0;
  uint64_t hopeless_ = 0;
  uint64_t hopeless_in_use_ = 0;
  bool round_required_ = false;
  Ref next_to_pardon_ = 0;
  uint64_t releases_ = 0;
  // A bit for each bin.
  std::array<uint64_t, (kBins + 63) / 64> occupied_ = {};
  // Of each bin, the first block, or null. Not inside, so that small heaps are
  // small.
  const Pages bin_pages_ = Pages::Map(kBins * sizeof(Ref));
  Ref* const bins_ = reinterpret_cast<Ref*>(bin_pages_.begin());
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_BLOCK_HEAP_H_
