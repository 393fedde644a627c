// Memory for the entries of a cache, addressed by 32-bit references.
//
//   Arena arena(Arena::Sizes::kMany);
//   const Arena::Ref ref = arena.Allocate(100);  // 104 bytes, aligned to 8.
//   new (arena.At(ref)) Page();
//   arena.Free(ref, 100);
//
// A block is a run of 8-byte granules; its reference is the number of the
// first, so that an arena addresses 32 GiB. Granules lie in chunks: an address
// is a shift, one load and one addition. A block never moves, and its memory
// stays mapped until the arena ends.
//
// Nothing is stored beside a block. Its owner says its size when freeing it;
// what the arena must know of a free block stands inside it, and one bit for
// each granule tells the neighbours where one begins or ends. So a block takes
// what was asked for, rounded up to a granule, and free neighbours become one:
// memory that was freed in one size is used again in any other.
//
// How a block is found. Small blocks that a thread frees wait in one of a few
// stripes, by size, where the next allocation of that size gets the one that
// is still in the processor's cache. A stripe keeps at most kStripeGranules.
// What is too much goes to the depot, many blocks at a time; a thread that has
// none takes as many. What the depot does not keep, and what is too large, goes
// to the bins: lists of free blocks by size, exact for small and in steps of
// 3 % for larger ones. An allocation takes the block that fits best, and fresh
// memory only where none does, nor when the depot has given a part of what it
// keeps to the bins.
//
// Memory. Fresh memory is taken in the order of its addresses; what lies
// behind was never touched, but for the rest of a huge page. The depot keeps up
// to a 64th of it, and for a while up to 1 MiB more.
//
// Threads. Thread-safe. No thread waits for a stripe, and the depot's lock is
// held for a few instructions. That of the bins is held for longer, and its
// holder may lose the processor meanwhile: who frees does not wait for it, but
// leaves the blocks in the depot for those who allocate and for the next who
// frees, unless too many are there already.
//
// Errors. Allocate throws std::bad_alloc, or ends a program without
// exceptions, where there is no memory or no reference left; the arena stays
// as it was. AddressSanitizer reports any use of a free block.

#ifndef WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_
#define WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/memory/block_heap.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/cache/internal/memory/depot.h"
#include "wheelcache/cache/internal/memory/zero_pages.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class Arena {
 public:
  using Ref = GranuleRef;  // 0 is null.
  using Sizes = BlockHeap::Sizes;

  static constexpr size_t kMinBytes = 16;
  static constexpr size_t kMaxBytes =
      BlockHeap::kMaxBlock * Chunks::kGranuleBytes;

  // What a block for `bytes` takes.
  static constexpr size_t BlockBytes(size_t bytes) {
    return (bytes + Chunks::kGranuleBytes - 1) / Chunks::kGranuleBytes *
           Chunks::kGranuleBytes;
  }

  // With Sizes::kOne all blocks must have one size, and cost a little less. Of
  // `expected_bytes` it is known that they will be in use.
  explicit Arena(Sizes sizes, uint64_t expected_bytes = 0)
      : chunks_(expected_bytes), heap_(&chunks_, sizes), depot_(&chunks_) {}

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Gives a block that nobody else has until it is freed.
  // REQUIRES: kMinBytes <= bytes <= kMaxBytes.
  Ref Allocate(size_t bytes);

  // Gives the block back. REQUIRES: `bytes` is what it was allocated for.
  void Free(Ref ref, size_t bytes);

  // The block's memory. Never faults on a reference that Allocate once gave.
  void* At(Ref ref) const { return chunks_.At(ref); }

  // The memory that was ever in use.
  size_t carved_bytes() const {
    MutexLock lock(&heap_mu_);
    return size_t{heap_.carved()} * Chunks::kGranuleBytes;
  }

  // For tests: runs `function` while this thread is in the bins.
  template <typename Function>
  void InHeap(Function function) {
    MutexLock lock(&heap_mu_);
    function();
  }

  // For tests: the same while it is in all stripes.
  template <typename Function>
  void InStripes(Function function) {
    LockStripes();
    function();
    UnlockStripes();
  }

  // For tests: what is free of the memory that was ever in use, and of that
  // what the depot keeps. The first while no other thread uses the arena.
  size_t free_bytes();
  size_t depot_bytes() const {
    MutexLock lock(&depot_mu_);
    return size_t{depot_.granules()} * Chunks::kGranuleBytes;
  }

  // Around fork(): keeps the locks whole in the child.
  void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // For tests: finds the first broken invariant.
  absl::Status CheckInvariants() const {
    MutexLock lock(&heap_mu_);
    return heap_.CheckInvariants();
  }

 private:
  static constexpr size_t kStripes = 16;

  // The largest block that a stripe keeps (512 bytes), and the most of all
  // (128 KiB), in granules.
  static constexpr uint32_t kMaxSmall = Depot::kMaxBlock;
  static constexpr uint32_t kStripeGranules = 1 << 14;

  // How much may wait in the depot for a thread that takes it to the heap
  // (1 MiB), in granules.
  static constexpr uint64_t kMostWaiting = 1 << 17;

  // A lock for which nobody waits.
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
    // Acquire and release, as any lock; the look ahead of the exchange spares
    // the cache line, and decides nothing.
    std::atomic<bool> taken_{false};
  };

  // Small blocks that were freed, in a list for each size. All bytes zero is an
  // empty stripe that nobody holds.
  struct alignas(ABSL_CACHELINE_SIZE) Stripe {
    TryOnlyLock mu;
    uint32_t granules ABSL_GUARDED_BY(mu) = 0;      // The sum of the sizes.
    uint32_t next_to_trim ABSL_GUARDED_BY(mu) = 0;  // A size.
    // Written under the lock; read without it to see whether one is empty: a
    // hint, so relaxed suffices. What it refers to is read under the lock
    // alone.
    std::array<std::atomic<Ref>, kMaxSmall + 1> lists = {};
  };

  static uint32_t Granules(size_t bytes) {
    assert(bytes >= kMinBytes && bytes <= kMaxBytes);
    return static_cast<uint32_t>(BlockBytes(bytes) / Chunks::kGranuleBytes);
  }

  void LockStripes() ABSL_NO_THREAD_SAFETY_ANALYSIS;    // Of a number of
  void UnlockStripes() ABSL_NO_THREAD_SAFETY_ANALYSIS;  // locks.

  Ref TakeFromStripes(uint32_t granules);
  bool GiveToStripe(Ref ref, uint32_t granules);
  bool GiveRestToStripe(Ref rest, uint32_t granules);
  Ref Pop(Stripe& stripe, uint32_t granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);
  Ref CutChain(Stripe& stripe, uint32_t granules)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);
  uint32_t Trim(Stripe& stripe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(stripe.mu);

  Ref TakeShared(uint32_t granules);
  Ref TakeFromDepot(uint32_t granules);
  void MoveSurplusToHeap(uint32_t handed);
  bool TooManyWait() const;
  bool MoveToHeap(uint64_t keep, uint64_t most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);
  void GiveToHeap(Depot::Blocks blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(heap_mu_);

  Chunks chunks_;  // Grows under heap_mu_.

  // Held for as long as it takes to look at the neighbours of many blocks.
  mutable Mutex heap_mu_ ABSL_ACQUIRED_BEFORE(depot_mu_);
  BlockHeap heap_ ABSL_GUARDED_BY(heap_mu_);

  // Held for a few instructions.
  mutable Mutex depot_mu_;
  Depot depot_ ABSL_GUARDED_BY(depot_mu_);
  // What it is to keep, in granules; once that is less than it has, what is
  // left of it.
  uint64_t kept_ ABSL_GUARDED_BY(depot_mu_) = 0;

  // Outside, so that small arenas are small.
  const ZeroPages stripe_pages_{kStripes * sizeof(Stripe)};
  Stripe* const stripes_ = reinterpret_cast<Stripe*>(stripe_pages_.begin());
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_MEMORY_ARENA_H_
