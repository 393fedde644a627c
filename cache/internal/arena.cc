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
  if (ref == 0) ref = TakeFromHeap(granules);
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

// Gives an eighth of what the stripe holds back to the heap, of one size after
// the other, so that no size stays that nobody asks for any more.
void Arena::Trim(Stripe& stripe) {
  MutexLock lock(&mu_);
  while (stripe.granules > kStripeGranules / 8 * 7) {
    const uint32_t granules = stripe.next_to_trim;
    const Ref ref = Pop(stripe, granules);
    if (ref != 0) {
      heap_.Give(ref, granules);
    } else {
      stripe.next_to_trim = (granules + 1) % (kMaxSmall + 1);
    }
  }
}

auto Arena::TakeFromHeap(uint32_t granules) -> Ref {
  MutexLock lock(&mu_);
  const Ref ref = heap_.Take(granules);
  return ref != 0 ? ref : heap_.Carve(granules);
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
