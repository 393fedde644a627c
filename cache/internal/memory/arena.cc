#include "wheelcache/cache/internal/memory/arena.h"

#include <algorithm>
#include <thread>

#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {
namespace {

// That go back under one lock: some 100 us.
constexpr int kRanges = 64;

}  // namespace

auto Arena::Allocate(size_t bytes) -> Ref {
  const Ref ref = TryAllocate(bytes);
  if (ABSL_PREDICT_FALSE(ref == 0)) ThrowBadAlloc();
  return ref;
}

auto Arena::TryAllocate(size_t bytes) -> Ref {
  const uint32_t granules = Granules(bytes);
  Ref ref = granules <= kMaxSmall
                ? TakeFromStripe(stripes_[ThreadIndex() % kStripes], granules)
                : 0;
  if (ref == 0) ref = TakeShared(granules);
  if (ref != 0) Unpoison(At(ref), BlockBytes(bytes));
  return ref;
}

void Arena::Free(Ref ref, size_t bytes) {
  const uint32_t granules = Granules(bytes);
  Poison(At(ref), BlockBytes(bytes));
  if (ABSL_PREDICT_FALSE(in_round_.load(std::memory_order_relaxed)) &&
      IsCondemned(ref) && heap_mu_.TryLock()) {
    heap_.Give(ref, granules);
    PublishState();
    heap_mu_.Unlock();
    return;
  }
  if (granules <= kMaxSmall && GiveToStripe(ref, granules)) return;
  {
    MutexLock lock(&depot_mu_);
    depot_.PutLoose(ref, granules);
  }
  MoveSurplusToHeap(granules);
}

inline auto Arena::TakeFromStripe(Stripe& stripe, uint32_t granules) -> Ref {
  if (stripe.lists[granules].load(std::memory_order_relaxed) == 0) return 0;
  if (!stripe.mu.TryLock()) return 0;
  const Ref ref = Pop(stripe, granules);
  stripe.mu.Unlock();
  return ref;
}

inline auto Arena::Pop(Stripe& stripe, uint32_t granules) -> Ref {
  std::atomic<Ref>& list = stripe.lists[granules];
  const Ref ref = list.load(std::memory_order_relaxed);
  if (ref == 0) return 0;
  const Ref next = chunks_.Load(ref, 0);
  list.store(next, std::memory_order_relaxed);
  if (next != 0) {
    // All of the block that is to be written next: freeing it did not touch its
    // last lines.
    const auto* const begin = static_cast<const char*>(At(next));
    PrefetchToWrite(begin, begin + size_t{granules} * Chunks::kGranuleBytes);
  }
  stripe.Add(-granules);
  return ref;
}

inline bool Arena::GiveToStripe(Ref ref, uint32_t granules) {
  const size_t own = ThreadIndex();
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[(own + i) % kStripes];
    if (!stripe.mu.TryLock()) continue;
    std::atomic<Ref>& list = stripe.lists[granules];
    chunks_.Store(ref, 0, list.load(std::memory_order_relaxed));
    list.store(ref, std::memory_order_relaxed);
    stripe.Add(granules);
    uint32_t handed = 0;
    if (stripe.granules.load(std::memory_order_relaxed) >
        stripe_granules_.load(std::memory_order_relaxed)) {
      handed = Trim(stripe);
    }
    stripe.mu.Unlock();
    if (handed > 0) MoveSurplusToHeap(handed);
    return true;
  }
  return false;
}

// Moves a few batches to the depot, one size after the other, so that sizes no
// longer in use do not stay; and where there are none, single blocks. Returns
// the granules moved, or 0 if the depot may keep them.
uint32_t Arena::Trim(Stripe& stripe) {
  const auto left = [&] {
    return stripe.granules.load(std::memory_order_relaxed);
  };
  const uint32_t before = left();
  const uint32_t most = before - kTrimGranules;
  // To be linked under the lock; found without it.
  std::array<Depot::Blocks, kTrimGranules / Depot::kChainGranules> chains;
  size_t count = 0;
  uint32_t sizes = 0;  // In a row that have no batch.
  uint32_t granules = stripe.next_to_trim;
  while (left() > most && sizes <= kMaxSmall) {
    granules = stripe.next_to_trim;
    stripe.next_to_trim = (granules + 1) % (kMaxSmall + 1);
    const Ref chain = CutChain(stripe, granules);
    if (chain == 0) {
      ++sizes;
      continue;
    }
    chains[count++] = {chain, granules, Depot::ChainBlocks(granules)};
    sizes = 0;
  }
  MutexLock lock(&depot_mu_);
  for (size_t i = 0; i < count; ++i) {
    depot_.Put(chains[i].first, chains[i].granules);
  }
  const bool keeps =
      left() <= most &&
      depot_.granules() <= depot_keeps_.load(std::memory_order_relaxed);
  for (; left() > most; granules = (granules + 1) % (kMaxSmall + 1)) {
    while (const Ref ref = Pop(stripe, granules)) {
      depot_.PutLoose(ref, granules);
    }
  }
  return keeps ? 0 : before - left();
}

// Takes a batch for the depot out of the stripe, or nothing if that has too few
// blocks of the size.
auto Arena::CutChain(Stripe& stripe, uint32_t granules) -> Ref {
  std::atomic<Ref>& list = stripe.lists[granules];
  const Ref first = list.load(std::memory_order_relaxed);
  if (first == 0) return 0;
  const uint32_t blocks = Depot::ChainBlocks(granules);
  Ref last = first;
  for (uint32_t i = 1; i < blocks; ++i) {
    last = chunks_.Load(last, 0);
    if (last == 0) return 0;
  }
  list.store(chunks_.Load(last, 0), std::memory_order_relaxed);
  chunks_.Store(last, 0, 0);
  stripe.Add(-blocks * granules);
  return first;
}

// From the depot or the bins, some at a time; or else from other stripes; or
// fresh memory.
auto Arena::TakeShared(uint32_t granules) -> Ref {
  const bool small = granules <= kMaxSmall;
  Ref ref = small ? TakeFromDepot(granules) : 0;
  if (ref == 0) ref = TakeFromHeap(granules);
  if (ref == 0 && small) ref = TakeFromOtherStripes(granules);
  if (ref != 0) return ref;
  MutexLock lock(&heap_mu_);
  // Some batches, not all that the depot has: others wait for the lock.
  if (MoveToHeap(/*keep=*/0, kTrimGranules)) ref = heap_.Take(granules);
  if (ref == 0) ref = heap_.Carve(granules);
  PublishState();
  return ref;
}

// Of small blocks, takes more for the thread's stripe: at best all in one
// piece, which costs no more than one; else some. For a stripe that is short,
// also of fresh memory.
auto Arena::TakeFromHeap(uint32_t granules) -> Ref {
  const bool large =
      stripe_granules_.load(std::memory_order_relaxed) > kLeastOfStripe;
  const uint32_t most = granules > kMaxSmall ? 0 : kRefill;
  Ref first = 0;
  Ref rest = 0;
  uint32_t blocks = 0;
  const auto keep = [&](Ref ref) {
    chunks_.Store(ref, 0, rest);
    rest = ref;
    ++blocks;
  };
  {
    MutexLock lock(&heap_mu_);
    if (most > 0 && large) {
      const uint32_t piece = granules * (kRefillOfLarge + 1);
      first = heap_.Take(piece);
      if (first == 0 && OwnStripeIsShort()) first = heap_.Carve(piece);
      for (uint32_t i = kRefillOfLarge; first != 0 && i > 0; --i) {
        keep(first + i * granules);
      }
    }
    if (first == 0) {
      first = heap_.Take(granules);
      while (first != 0 && blocks < most) {
        const Ref ref = heap_.Take(granules);
        if (ref == 0) break;
        keep(ref);
      }
    }
    if (first != 0) PublishState();
  }
  if (blocks > 0) LeaveRest(rest, granules, blocks);
  return first;
}

// Whether the thread's stripe has less than a quarter of what it may keep.
bool Arena::OwnStripeIsShort() const {
  const Stripe& own = stripes_[ThreadIndex() % kStripes];
  return own.granules.load(std::memory_order_relaxed) <
         stripe_granules_.load(std::memory_order_relaxed) / 4;
}

auto Arena::TakeFromOtherStripes(uint32_t granules) -> Ref {
  const size_t own = ThreadIndex();
  for (size_t i = 1; i < kStripes; ++i) {
    const Ref ref = TakeFromStripe(stripes_[(own + i) % kStripes], granules);
    if (ref != 0) return ref;
  }
  return 0;
}

// What the depot may keep: nothing while memory is to go back to the system,
// which is done only where all is free.
uint64_t Arena::DepotShare() const {
  return heap_.HasSurplus() ? 0 : heap_.carved() / 64;
}

void Arena::PublishState() {
  // With the bits.
  const auto resident = static_cast<int64_t>(
      heap_.resident() * Chunks::kGranuleBytes + heap_.carved() / 8);
  if (resident != resident_bytes_.load(std::memory_order_relaxed)) {
    resident_bytes_.store(resident, std::memory_order_relaxed);
  }
  const uint64_t keeps = DepotShare();
  if (keeps != depot_keeps_.load(std::memory_order_relaxed)) {
    depot_keeps_.store(keeps, std::memory_order_relaxed);
  }
  const auto stripe = static_cast<uint32_t>(std::clamp<uint64_t>(
      heap_.carved() / 256, kLeastOfStripe, kMostOfStripe));
  if (stripe != stripe_granules_.load(std::memory_order_relaxed)) {
    stripe_granules_.store(stripe, std::memory_order_relaxed);
  }
  const bool needs_round = heap_.NeedsRound();
  if (needs_round != needs_round_.load(std::memory_order_relaxed)) {
    needs_round_.store(needs_round, std::memory_order_relaxed);
  }
}

bool Arena::BeginRound() {
  {
    MutexLock lock(&heap_mu_);
    heap_.ReleaseLarge(kRanges);
    const bool begins = heap_.NeedsRound() && heap_.Condemn();
    PublishState();
    if (!begins) return false;
  }
  in_round_.store(true, std::memory_order_relaxed);
  // Where they would be found before the bins, and keep pages from being free.
  MoveAllToHeap();
  return true;
}

void Arena::EndRound() {
  in_round_.store(false, std::memory_order_relaxed);
  // What could not be given to the heap at once.
  MoveAllToHeap();
  for (bool ended = false; !ended;) {
    MutexLock lock(&heap_mu_);
    ended = heap_.Pardon(kRanges);
    PublishState();
  }
}

void Arena::MoveAllToHeap() {
  for (size_t i = 0; i < kStripes; ++i) MoveStripeToHeap(&stripes_[i]);
  constexpr uint64_t kBatch = uint64_t{4} * Depot::kChainGranules;
  for (uint64_t left = DepotGranules(); left > 0;
       left -= std::min(left, kBatch)) {
    MutexLock lock(&heap_mu_);
    MoveToHeap(/*keep=*/0, kBatch);
    PublishState();
  }
}

void Arena::MoveStripeToHeap(Stripe* stripe) {
  std::array<Ref, kMaxSmall + 1> lists;
  if (!stripe->mu.TryLock()) return;
  for (uint32_t size = 0; size <= kMaxSmall; ++size) {
    lists[size] = stripe->lists[size].load(std::memory_order_relaxed);
    if (lists[size] != 0) {
      stripe->lists[size].store(0, std::memory_order_relaxed);
    }
  }
  stripe->granules.store(0, std::memory_order_relaxed);
  stripe->mu.Unlock();
  for (uint32_t size = 0; size <= kMaxSmall; ++size) {
    if (lists[size] == 0) continue;
    MutexLock lock(&heap_mu_);
    GiveToHeap({lists[size], size, /*count=*/0});
  }
}

// Takes a batch, and leaves all but its first block.
auto Arena::TakeFromDepot(uint32_t granules) -> Ref {
  Ref first;
  {
    MutexLock lock(&depot_mu_);
    first = depot_.Take(granules);
  }
  if (first == 0) return 0;
  const Ref rest = chunks_.Load(first, 0);
  if (rest != 0) LeaveRest(rest, granules, Depot::ChainBlocks(granules) - 1);
  return first;
}

// Leaves so many linked blocks to the first stripe that has none of the size,
// from the thread's own on, or else to the depot as loose ones.
void Arena::LeaveRest(Ref rest, uint32_t granules, uint32_t blocks) {
  const size_t own = ThreadIndex();
  for (size_t i = 0; i < kStripes; ++i) {
    Stripe& stripe = stripes_[(own + i) % kStripes];
    if (!stripe.mu.TryLock()) continue;
    std::atomic<Ref>& list = stripe.lists[granules];
    const bool empty = list.load(std::memory_order_relaxed) == 0;
    if (empty) {
      list.store(rest, std::memory_order_relaxed);
      stripe.Add(blocks * granules);
    }
    stripe.mu.Unlock();
    if (empty) return;
  }
  MutexLock lock(&depot_mu_);
  while (rest != 0) {
    const Ref next = chunks_.Load(rest, 0);  // PutLoose writes there.
    depot_.PutLoose(rest, granules);
    rest = next;
  }
}

// Moves the depot's surplus to the heap: up to twice what the caller handed to
// it. A preempted holder of the heap's lock must not stop all others: they
// leave the blocks to the next one, unless too many wait.
void Arena::MoveSurplusToHeap(uint32_t handed) {
  if (!heap_mu_.TryLock()) {
    if (!TooManyWait()) return;
    heap_mu_.Lock();
  }
  const uint64_t keep = DepotShare();
  MoveToHeap(keep, uint64_t{2} * handed);
  {
    MutexLock lock(&depot_mu_);
    kept_ = std::max(keep, std::min(kept_, depot_.granules()));
  }
  PublishState();
  heap_mu_.Unlock();
}

bool Arena::TooManyWait() const {
  MutexLock lock(&depot_mu_);
  return depot_.granules() > kept_ + kMostWaiting;
}

// Moves the depot's loose blocks, and what it has beyond `keep`, to the heap,
// until `most` granules are reached. Returns whether anything was moved.
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

// Prefetches the neighbours of some blocks ahead: they are likely cache misses.
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

}  // namespace wheelcache::internal
