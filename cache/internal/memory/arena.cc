#include "wheelcache/cache/internal/memory/arena.h"

#include <algorithm>
#include <new>
#include <thread>

#include "wheelcache/cache/internal/memory/asan.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

auto Arena::Allocate(size_t bytes) -> Ref {
  const uint32_t granules = Granules(bytes);
  Ref ref = granules <= kMaxSmall ? TakeFromStripes(granules) : 0;
  if (ref == 0) ref = TakeShared(granules);
  Unpoison(At(ref), BlockBytes(bytes));
  return ref;
}

void Arena::Free(Ref ref, size_t bytes) {
  const uint32_t granules = Granules(bytes);
  Poison(At(ref), BlockBytes(bytes));
  if (granules <= kMaxSmall && GiveToStripe(ref, granules)) return;
  {
    MutexLock lock(&depot_mu_);
    depot_.PutLoose(ref, granules);
  }
  MoveSurplusToHeap(granules);
}

// From the thread's own stripe or, before fresh memory is used, another's.
auto Arena::TakeFromStripes(uint32_t granules) -> Ref {
  const size_t own = ThreadIndex();
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[(own + i) % kStripes];
    if (stripe.lists[granules].load(std::memory_order_relaxed) == 0) continue;
    if (!stripe.mu.TryLock()) continue;
    const Ref ref = Pop(stripe, granules);
    stripe.mu.Unlock();
    if (ref != 0) return ref;
  }
  return 0;
}

auto Arena::Pop(Stripe& stripe, uint32_t granules) -> Ref {
  std::atomic<Ref>& list = stripe.lists[granules];
  const Ref ref = list.load(std::memory_order_relaxed);
  if (ref == 0) return 0;
  const Ref next = chunks_.Load(ref, 0);
  list.store(next, std::memory_order_relaxed);
  if (next != 0) {
    // All of the block that is to be written next: who freed it did not look at
    // its last lines.
    const auto* const begin = static_cast<const char*>(At(next));
    PrefetchToWrite(begin, begin + size_t{granules} * Chunks::kGranuleBytes);
  }
  stripe.granules -= granules;
  return ref;
}

bool Arena::GiveToStripe(Ref ref, uint32_t granules) {
  const size_t own = ThreadIndex();
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[(own + i) % kStripes];
    if (!stripe.mu.TryLock()) continue;
    std::atomic<Ref>& list = stripe.lists[granules];
    chunks_.Store(ref, 0, list.load(std::memory_order_relaxed));
    list.store(ref, std::memory_order_relaxed);
    stripe.granules += granules;
    uint32_t handed = 0;
    if (stripe.granules > kStripeGranules) handed = Trim(stripe);
    stripe.mu.Unlock();
    if (handed > 0) MoveSurplusToHeap(handed);
    return true;
  }
  return false;
}

// Hands an eighth of what the stripe holds to the depot, of one size after the
// other, so that no size stays that nobody asks for any more. Returns how many
// granules those are.
uint32_t Arena::Trim(Stripe& stripe) {
  const uint32_t before = stripe.granules;
  while (stripe.granules > kStripeGranules / 8 * 7) {
    const uint32_t granules = stripe.next_to_trim;
    stripe.next_to_trim = (granules + 1) % (kMaxSmall + 1);
    if (stripe.lists[granules].load(std::memory_order_relaxed) == 0) continue;
    const Ref chain = CutChain(stripe, granules);
    MutexLock lock(&depot_mu_);
    if (chain != 0) {
      depot_.Put(chain, granules);
    } else {
      while (const Ref ref = Pop(stripe, granules)) {
        depot_.PutLoose(ref, granules);
      }
    }
  }
  return before - stripe.granules;
}

// Takes a chain for the depot out of the stripe, or nothing if that has not
// enough blocks of the size. REQUIRES: it has one.
auto Arena::CutChain(Stripe& stripe, uint32_t granules) -> Ref {
  std::atomic<Ref>& list = stripe.lists[granules];
  const Ref first = list.load(std::memory_order_relaxed);
  const uint32_t blocks = Depot::ChainBlocks(granules);
  Ref last = first;
  for (uint32_t i = 1; i < blocks; ++i) {
    last = chunks_.Load(last, 0);
    if (last == 0) return 0;
  }
  list.store(chunks_.Load(last, 0), std::memory_order_relaxed);
  chunks_.Store(last, 0, 0);
  stripe.granules -= blocks * granules;
  return first;
}

// From what all threads share, and fresh where there is nothing.
auto Arena::TakeShared(uint32_t granules) -> Ref {
  Ref ref = granules <= kMaxSmall ? TakeFromDepot(granules) : 0;
  if (ref != 0) return ref;
  MutexLock lock(&heap_mu_);
  ref = heap_.Take(granules);
  // A chain, not all that the depot has: others wait for the lock.
  if (ref == 0 && MoveToHeap(/*keep=*/0, Depot::kChainGranules)) {
    ref = heap_.Take(granules);
  }
  return ref != 0 ? ref : heap_.Carve(granules);
}

// Takes a chain, and leaves all but its first block to a stripe or, where none
// takes them, to the heap.
auto Arena::TakeFromDepot(uint32_t granules) -> Ref {
  Ref first;
  {
    MutexLock lock(&depot_mu_);
    first = depot_.Take(granules);
  }
  if (first == 0) return 0;
  Ref rest = chunks_.Load(first, 0);
  if (GiveRestToStripe(rest, granules)) return first;
  MutexLock lock(&depot_mu_);
  while (rest != 0) {
    const Ref next = chunks_.Load(rest, 0);  // PutLoose writes there.
    depot_.PutLoose(rest, granules);
    rest = next;
  }
  return first;
}

// To the first that has no other blocks of the size, from the thread's own on.
bool Arena::GiveRestToStripe(Ref rest, uint32_t granules) {
  const size_t own = ThreadIndex();
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[(own + i) % kStripes];
    if (!stripe.mu.TryLock()) continue;
    std::atomic<Ref>& list = stripe.lists[granules];
    const bool empty = list.load(std::memory_order_relaxed) == 0;
    if (empty) {
      list.store(rest, std::memory_order_relaxed);
      stripe.granules += (Depot::ChainBlocks(granules) - 1) * granules;
    }
    stripe.mu.Unlock();
    if (empty) return true;
  }
  return false;
}

// Takes what the depot is not to keep to the heap: twice as much as the caller
// has handed to it. A thread that has lost its processor in there must not stop
// all others: they leave the blocks to the next one, unless too many wait.
void Arena::MoveSurplusToHeap(uint32_t handed) {
  if (!heap_mu_.TryLock()) {
    if (!TooManyWait()) return;
    heap_mu_.Lock();
  }
  // The heap gives memory back to the system only where all is free.
  const uint64_t keep = heap_.HasMuchFree() ? 0 : heap_.carved() / 64;
  MoveToHeap(keep, uint64_t{2} * handed);
  {
    MutexLock lock(&depot_mu_);
    kept_ = std::max(keep, std::min(kept_, depot_.granules()));
  }
  heap_mu_.Unlock();
}

bool Arena::TooManyWait() const {
  MutexLock lock(&depot_mu_);
  return depot_.granules() > kept_ + kMostWaiting;
}

// Moves what the depot has, but for `keep`, up to `most` granules and the
// blocks that go beyond. Returns whether there was anything.
bool Arena::MoveToHeap(uint64_t keep, uint64_t most) {
  uint64_t moved = 0;
  while (moved < most) {
    Depot::Blocks blocks;
    {
      MutexLock lock(&depot_mu_);
      blocks = depot_.TakeForHeap(keep);
    }
    if (blocks.first == 0) break;
    GiveToHeap(blocks);
    moved += uint64_t{blocks.granules} * blocks.count;
  }
  return moved > 0;
}

// Fetches the neighbours of some blocks ahead: they lie anywhere in memory.
void Arena::GiveToHeap(Depot::Blocks blocks) {
  constexpr int kAhead = 6;
  Ref ahead = blocks.first;
  const auto fetch = [&] {
    if (ahead == 0) return;
    heap_mu_.AssertHeld();
    heap_.PrefetchNeighbours(ahead, blocks.granules);
    ahead = chunks_.Load(ahead, 0);
  };
  for (int i = 0; i < kAhead; ++i) fetch();
  for (Ref ref = blocks.first; ref != 0;) {
    fetch();
    const Ref next = chunks_.Load(ref, 0);  // Give writes there.
    heap_.Give(ref, blocks.granules);
    ref = next;
  }
}

size_t Arena::free_bytes() {
  uint64_t granules = 0;
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[i];
    while (!stripe.mu.TryLock()) std::this_thread::yield();
    for (uint32_t size = 0; size <= kMaxSmall; ++size) {
      Ref ref = stripe.lists[size].load(std::memory_order_relaxed);
      for (; ref != 0; ref = chunks_.Load(ref, 0)) granules += size;
    }
    stripe.mu.Unlock();
  }
  MutexLock heap_lock(&heap_mu_);
  MutexLock depot_lock(&depot_mu_);
  granules += depot_.granules() + heap_.free_granules();
  return granules * Chunks::kGranuleBytes;
}

void Arena::LockStripes() {
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[i];
    while (!stripe.mu.TryLock()) std::this_thread::yield();
  }
}

void Arena::UnlockStripes() {
  for (size_t i = 0; i < kStripes; ++i) stripes_[i].mu.Unlock();
}

void Arena::BeforeFork() {
  LockStripes();
  heap_mu_.LockAmongMany();
  depot_mu_.LockAmongMany();
}

void Arena::AfterForkInParent() {
  depot_mu_.UnlockAmongMany();
  heap_mu_.UnlockAmongMany();
  UnlockStripes();
}

void Arena::AfterForkInChild() {
  depot_mu_.UnlockInChild();
  heap_mu_.UnlockInChild();
  UnlockStripes();
}

}  // namespace wheelcache::internal
