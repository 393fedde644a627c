#include "wheelcache/cache/internal/arena.h"

#include <new>
#include <thread>

#include "wheelcache/cache/internal/asan.h"
#include "wheelcache/cache/internal/thread_index.h"

namespace wheelcache {
namespace internal {

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
  MutexLock lock(&mu_);
  heap_.Give(ref, granules);
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
  list.store(chunks_.Load(ref, 0), std::memory_order_relaxed);
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
    if (stripe.granules > kStripeGranules) Trim(stripe);
    stripe.mu.Unlock();
    return true;
  }
  return false;
}

// Gives away an eighth of what the stripe holds, of one size after the other,
// so that no size stays that nobody asks for any more: by the chain to the
// depot, and what is not enough for a chain to the heap.
void Arena::Trim(Stripe& stripe) {
  while (stripe.granules > kStripeGranules / 8 * 7) {
    const uint32_t granules = stripe.next_to_trim;
    stripe.next_to_trim = (granules + 1) % (kMaxSmall + 1);
    if (stripe.lists[granules].load(std::memory_order_relaxed) == 0) continue;
    const Ref chain = CutChain(stripe, granules);
    MutexLock lock(&mu_);
    if (chain != 0) {
      GiveToDepot(chain, granules);
    } else {
      while (const Ref ref = Pop(stripe, granules)) heap_.Give(ref, granules);
    }
  }
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
  MutexLock lock(&mu_);
  Ref ref = granules <= kMaxSmall ? TakeFromDepot(granules) : 0;
  if (ref == 0) ref = heap_.Take(granules);
  if (ref == 0 && depot_.granules() > 0) {
    GiveBackChain();
    ref = heap_.Take(granules);
  }
  return ref != 0 ? ref : heap_.Carve(granules);
}

// Takes a chain, and leaves all but its first block to a stripe.
auto Arena::TakeFromDepot(uint32_t granules) -> Ref {
  const Ref first = depot_.Take(granules);
  if (first == 0) return 0;
  const Ref rest = chunks_.Load(first, 0);
  if (!GiveRestToStripe(rest, granules)) GiveToHeap(rest, granules);
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

// The depot keeps up to a 64th of the memory; and less each time while the heap
// gives memory back to the system, which it can do only where all is free.
void Arena::GiveToDepot(Ref chain, uint32_t granules) {
  const bool much_free = heap_.HasMuchFree();
  if (much_free && depot_.granules() > 0) GiveBackChain();
  if (much_free || depot_.granules() > heap_.carved() / 64) {
    GiveToHeap(chain, granules);
  } else {
    depot_.Put(chain, granules);
  }
}

// One chain from the depot to the heap, not all: others wait for the lock.
void Arena::GiveBackChain() {
  const uint32_t granules = depot_.SmallestBlock();
  GiveToHeap(depot_.Take(granules), granules);
}

void Arena::GiveToHeap(Ref chain, uint32_t granules) {
  while (chain != 0) {
    const Ref next = chunks_.Load(chain, 0);  // Give writes there.
    heap_.Give(chain, granules);
    chain = next;
  }
}

size_t Arena::free_bytes() {
  uint64_t granules = 0;
  for (Stripe& stripe : stripes_) {
    while (!stripe.mu.TryLock()) std::this_thread::yield();
    for (uint32_t size = 0; size <= kMaxSmall; ++size) {
      Ref ref = stripe.lists[size].load(std::memory_order_relaxed);
      for (; ref != 0; ref = chunks_.Load(ref, 0)) granules += size;
    }
    stripe.mu.Unlock();
  }
  MutexLock lock(&mu_);
  granules += depot_.granules() + heap_.free_granules();
  return granules * Chunks::kGranuleBytes;
}

void Arena::BeforeFork() {
  for (Stripe& stripe : stripes_) {
    while (!stripe.mu.TryLock()) std::this_thread::yield();
  }
  mu_.LockAmongMany();
}

void Arena::AfterForkInParent() {
  mu_.UnlockAmongMany();
  for (Stripe& stripe : stripes_) stripe.mu.Unlock();
}

void Arena::AfterForkInChild() {
  mu_.UnlockInChild();
  for (Stripe& stripe : stripes_) stripe.mu.Unlock();
}

}  // namespace internal
}  // namespace wheelcache
