// A thread-safe allocator for a cache's entries, with 32-bit references.
//
//   Arena arena;
//   const Arena::Ref ref = arena.Allocate(100);  // 104 bytes, aligned to 8.
//   new (arena.At(ref)) Page();
//   arena.Free(ref, 100);
//
// A block is a run of 8-byte granules; its reference is the number of the
// first, so that an arena addresses 32 GiB. Granules lie in chunks: an address
// is a shift, one load and one addition. A block never moves, and its memory
// stays mapped until the arena ends.
//
// A block has no header. Its owner passes its size to Free; what the arena must
// know of a free block is stored inside it, and one bit for each granule marks
// where one begins or ends. So a block takes its size rounded up to a granule,
// and free neighbours are coalesced: memory freed in one size is used again in
// any other.
//
// How a block is found. Small blocks that a thread frees go to free lists by
// size in one of a few stripes, where the next allocation of that size gets the
// one that is still in the CPU's cache. A stripe keeps a 256th of the memory,
// so that what a thread frees at a time serves its next allocations. Its
// surplus goes to the depot, many blocks at a time; a thread that has none
// takes as many. What the depot does not keep, and large blocks, go to the
// bins: free lists by size, exact for small and in steps of 3 % for larger
// ones. An allocation takes the blocks that fit best, some at a time, or in a
// large arena the piece that fits many of its size; and fresh
// memory only if none does in the bins, in the other stripes, nor after the
// depot has moved a part of what it keeps to the bins.
//
// Memory. Fresh memory is taken in the order of its addresses; what lies behind
// was never touched, except the rest of a huge page. The depot keeps up to a
// 64th of it, and for a while up to 1 MiB more. Free memory beyond a 16th of
// what is in use goes back to the system, where whole pages are free.
//
// Rounds. Small blocks in use may be spread so that no page is free. Then
// needs_round() says so, and BeginRound condemns the units where least is in
// use: the owner allocates the blocks that lie there anew, and frees them.
// EndRound gives their pages back, and ends that.
//
// Threads. Thread-safe; but one thread at a time may begin and end a round. No
// thread waits for a stripe, and the depot's lock is held for a few
// instructions. The bins' lock is held for longer, and its holder may be
// preempted: a thread that frees does not wait for it, but leaves the blocks in
// the depot for threads that allocate and for the next that frees, unless too
// many are there already. Locks never nest, except stripe or bins before depot.
//
// Errors. Allocate throws std::bad_alloc, or ends a program without exceptions,
// if no memory or no reference is left; the arena remains usable.
// AddressSanitizer reports any use of a free block.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/memory/block_heap.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/pages.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

// Passes free blocks in batches from thread to thread, or to a BlockHeap.
//
// A thread may free much more than it allocates: the first to see that a grace
// period has ended destroys what all others have retired meanwhile. It hands
// the blocks over in batches: about 6 KiB of blocks of one size, linked
// through their first words. A thread that has none of a size takes a batch.
// Either is O(1) and touches one block, where a BlockHeap reads the neighbours
// of each.
//
// Blocks that are too few for a batch, or too large, are loose: they wait here
// until a thread moves them to the heap.
//
// Threads. Thread-compatible.
class Depot {
 public:
  using Ref = GranuleRef;

  // The largest block of a batch, in granules: 512 bytes.
  static constexpr uint32_t kMaxBlock = 64;

  // The number of blocks in a batch: enough for 6 KiB.
  static constexpr uint32_t ChainBlocks(uint32_t granules) {
    return (kChainGranules + granules - 1) / granules;
  }
  static constexpr uint32_t kChainGranules = 3 << 8;

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

class WHEELCACHE_EXPORT Arena {
 public:
  using Ref = GranuleRef;  // 0 is null.
  static constexpr size_t kMinBytes = 16;
  static constexpr size_t kMaxBytes =
      BlockHeap::kMaxBlock * Chunks::kGranuleBytes;

  // The size of a block for `bytes`.
  static constexpr size_t BlockBytes(size_t bytes) {
    return (bytes + Chunks::kGranuleBytes - 1) / Chunks::kGranuleBytes *
           Chunks::kGranuleBytes;
  }

  // `expected_bytes` are known to come into use.
  explicit Arena(uint64_t expected_bytes = 0)
      : chunks_(expected_bytes), heap_(&chunks_), depot_(&chunks_) {}

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Returns a block, which belongs to the caller until it is freed.
  // REQUIRES: kMinBytes <= bytes <= kMaxBytes.
  Ref Allocate(size_t bytes);

  // As Allocate, but returns null if there is no memory.
  Ref TryAllocate(size_t bytes);

  // Frees the block. REQUIRES: `bytes` is what it was allocated for.
  void Free(Ref ref, size_t bytes);

  // The block's memory. Never faults on a reference that Allocate once gave.
  void* At(Ref ref) const { return chunks_.At(ref); }

  // The resident memory. At any time, as of the last change.
  int64_t resident_bytes() const {
    return resident_bytes_.load(std::memory_order_relaxed);
  }

  // Whether a round would give a good part of the memory back.
  bool needs_round() const {
    return needs_round_.load(std::memory_order_relaxed);
  }

  // Condemns sparse units. Returns whether there are any, so that the round has
  // begun.
  bool BeginRound();
  void EndRound();

  // Whether the block lies in a unit that is condemned.
  bool IsCondemned(Ref ref) const { return heap_ref_.IsCondemned(ref); }

  // The memory that was ever in use.
  size_t carved_bytes() const {
    MutexLock lock(&heap_mu_);
    return size_t{heap_.carved()} * Chunks::kGranuleBytes;
  }

  // For tests: has the next round condemn all units, and makes it needed.
  void RequireRound() {
    MutexLock lock(&heap_mu_);
    heap_.RequireRound();
    PublishState();
  }

  // For tests: runs `function` while this thread holds the bins' lock.
  template <typename Function>
  void InHeap(Function function) {
    MutexLock lock(&heap_mu_);
    function();
  }

  // For tests: the same with the locks of all stripes.
  template <typename Function>
  void InStripes(Function function) {
    LockStripes();
    function();
    UnlockStripes();
  }

  // For tests: the free part of the memory that was ever in use, and the
  // depot's part of that. The first needs an arena that no other thread uses.
  size_t free_bytes();
  size_t depot_bytes() const {
    return size_t{DepotGranules()} * Chunks::kGranuleBytes;
  }

  // For tests: finds the first broken invariant.
  absl::Status CheckInvariants() const {
    MutexLock lock(&heap_mu_);
    return heap_.CheckInvariants();
  }

 private:
  static constexpr size_t kStripes = 16;

  // The largest block of a stripe (512 bytes), in granules.
  static constexpr uint32_t kMaxSmall = Depot::kMaxBlock;

  // How many more blocks a thread takes from the bins than it needs, and in a
  // large arena.
  static constexpr uint32_t kRefill = 7;
  static constexpr uint32_t kRefillOfLarge = 31;

  // What a stripe keeps: a 256th of all memory, but from 128 KiB to 1 MiB; in
  // granules. A grace period ends for half a mebibyte at a time, and what that
  // frees, in any sizes, should serve the next Sets.
  static constexpr uint32_t kLeastOfStripe = 1 << 14;
  static constexpr uint32_t kMostOfStripe = 1 << 17;
  // And what one that has more gives away at a time: 24 KiB.
  static constexpr uint32_t kTrimGranules = 3 << 10;

  // How much surplus the depot may hold until a thread moves it to the heap (1
  // MiB), in granules.
  static constexpr uint64_t kMostWaiting = 1 << 17;

  // A lock for which no thread waits.
  class ABSL_LOCKABLE TryOnlyLock {
   public:
    bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
      return !taken_.load(std::memory_order_relaxed) &&
             !taken_.exchange(true, std::memory_order_acquire);
    }
    void Unlock() ABSL_UNLOCK_FUNCTION() {
      taken_.store(false, std::memory_order_release);
    }

   private:
    // Acquire and release, as any lock; the load before the exchange only
    // avoids contention for the cache line.
    std::atomic<bool> taken_{false};
  };

  // Small blocks that were freed, in a free list for each size. All bytes zero
  // is an empty, unlocked stripe.
  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    TryOnlyLock mu;
    // The sum of the sizes. Written under the lock, as the lists.
    std::atomic<uint32_t> granules{0};
    uint32_t next_to_trim ABSL_GUARDED_BY(mu) = 0;  // A size.
    // Written under the lock; read without it, relaxed, as a hint whether one
    // is empty. The blocks are read under the lock alone.
    std::array<std::atomic<Ref>, kMaxSmall + 1> lists = {};

    // Modulo 2^32.
    void Add(uint32_t more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
      granules.store(granules.load(std::memory_order_relaxed) + more,
                     std::memory_order_relaxed);
    }
  };

  static uint32_t Granules(size_t bytes) {
    assert(bytes >= kMinBytes && bytes <= kMaxBytes);
    return static_cast<uint32_t>(BlockBytes(bytes) / Chunks::kGranuleBytes);
  }

  void LockStripes() ABSL_NO_THREAD_SAFETY_ANALYSIS;    // Of a number of
  void UnlockStripes() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // locks.

  // Inlined into Allocate and Free, which each Set runs through.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref TakeFromStripe(Stripe& stripe,
                                                  uint32_t granules);
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool GiveToStripe(Ref ref, uint32_t granules);
  Ref TakeFromOtherStripes(uint32_t granules);
  Ref TakeFromHeap(uint32_t granules);
  bool OwnStripeIsShort() const;
  void LeaveRest(Ref rest, uint32_t granules, uint32_t blocks);
  ABSL_ATTRIBUTE_ALWAYS_INLINE Ref Pop(Stripe& stripe, uint32_t granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);
  Ref CutChain(Stripe& stripe, uint32_t granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);
  uint32_t Trim(Stripe& stripe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);

  uint64_t DepotGranules() const {
    MutexLock lock(&depot_mu_);
    return depot_.granules();
  }

  Ref TakeShared(uint32_t granules);
  Ref TakeFromDepot(uint32_t granules);
  void MoveSurplusToHeap(uint32_t handed);
  bool TooManyWait() const;
  bool MoveToHeap(uint64_t keep, uint64_t most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);
  // All that nobody uses, except in stripes that are locked.
  void MoveAllToHeap();
  void MoveStripeToHeap(Stripe* stripe);
  uint64_t DepotShare() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);
  void PublishState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);
  void GiveToHeap(Depot::Blocks blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);

  Chunks chunks_;  // Grows under heap_mu_.

  // Held while the neighbours of many blocks are read: many cache misses.
  mutable Mutex heap_mu_ ABSL_ACQUIRED_BEFORE(depot_mu_);
  BlockHeap heap_ ABSL_GUARDED_BY(heap_mu_);
  const BlockHeap& heap_ref_ = heap_;  // For what is thread-safe.

  // Held for a few instructions.
  mutable Mutex depot_mu_;
  Depot depot_ ABSL_GUARDED_BY(depot_mu_);
  // The granules that it is to keep or, if it holds less, does hold; see
  // MoveSurplusToHeap.
  uint64_t kept_ ABSL_GUARDED_BY(depot_mu_) = 0;

  // Relaxed: hints about the heap, by its last user. Each Set reads them and
  // what follows: away from the locks.
  alignas(ABSL_CACHELINE_SIZE) std::atomic<int64_t> resident_bytes_{0};
  std::atomic<bool> needs_round_{false};
  std::atomic<bool> in_round_{false};
  std::atomic<uint32_t> stripe_granules_{kLeastOfStripe};  // See above.
  std::atomic<uint64_t> depot_keeps_{0};  // Granules, of what Trim gives it.

  // Not inside, so that small arenas are small.
  const Pages stripe_pages_ = Pages::Map(kStripes * sizeof(Stripe));
  Stripe* const stripes_ = reinterpret_cast<Stripe*>(stripe_pages_.begin());
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_
