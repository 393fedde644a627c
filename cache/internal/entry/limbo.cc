#include "wheelcache/cache/internal/entry/limbo.h"

#include <algorithm>
#include <utility>

#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/wheel/base/contain.h"

namespace wheelcache::internal {
namespace {

// With so many batches waiting, a reader has stalled.
constexpr size_t kStalled = 16;

uint32_t Bounded(int64_t patience) {
  // Each end of an epoch interrupts all threads: too few of them to show in a
  // reader's p99.9.
  constexpr int64_t kMost = 2048;
  return static_cast<uint32_t>(std::clamp<int64_t>(patience, 1, kMost));
}

}  // namespace

Limbo::Limbo(EntryPool* pool, int64_t patience)
    : pool_(*pool), patience_(Bounded(patience)) {}

void Limbo::SetPatience(int64_t patience) {
  patience_.store(Bounded(patience), std::memory_order_relaxed);
}

void Limbo::Add(EntryRef ref) {
  Interleave("limbo: before an entry is added");
  if (NobodyReads()) {
    pool_.Unpin(ref);
    return;
  }
  Stripe& stripe = stripes_[ThreadIndex() % kStripes];
  if (Push(stripe, ref) >= patience_.load(std::memory_order_relaxed)) {
    Release(absl::MakeSpan(&stripe, 1));
  }
}

void Limbo::Flush() {
  if (!empty()) Release(absl::MakeSpan(stripes_));
  // For those that a reader held back, which may have ended meanwhile.
  if (has_waiting_.load(std::memory_order_relaxed)) Release({});
}

void Limbo::DestroyAll() {
  for (Stripe& stripe : stripes_) UnpinChain(TakeChain(stripe));
  Batches batches;
  {
    MutexLock lock(&mu_);
    batches.swap(waiting_);
    has_waiting_.store(false, std::memory_order_relaxed);
  }
  for (const Batch& batch : batches) UnpinChain(batch.first);
}

bool Limbo::empty() const {
  for (const Stripe& stripe : stripes_) {
    if (stripe.load(std::memory_order_seq_cst) != 0) return false;
  }
  return !has_waiting_.load(std::memory_order_seq_cst);
}

// Adds the entry to the stripe's list and returns the list's weight. The thread
// that takes the list sees what was written before: the removal from the index,
// so that the epoch it ends is late enough, and the links.
uint32_t Limbo::Push(Stripe& stripe, EntryRef ref) {
  auto& entry = pool_.At(ref);
  const uint64_t weight =
      1 + static_cast<uint64_t>(pool_.Charge(ref) / kBytesPerEntry);
  uint64_t chain = stripe.load(std::memory_order_relaxed);
  uint64_t longer;
  do {
    entry.lru.older = static_cast<EntryRef>(chain);
    longer = ((chain >> 32) + weight) << 32 | ref;
  } while (!stripe.compare_exchange_weak(
      chain, longer, std::memory_order_seq_cst, std::memory_order_relaxed));
  return static_cast<uint32_t>(longer >> 32);
}

EntryRef Limbo::TakeChain(Stripe& stripe) {
  return static_cast<EntryRef>(stripe.exchange(0, std::memory_order_acquire));
}

// Advances the epoch once for the lists of these stripes, and destroys all
// entries in them and in waiting batches whose grace period has ended.
void Limbo::Release(absl::Span<Stripe> stripes) {
  at_work_.fetch_add(1, std::memory_order_seq_cst);
  Batches batches;
  for (Stripe& stripe : stripes) {
    if (stripe.load(std::memory_order_relaxed) == 0) continue;
    // Allocates before anything is taken that would have to be put back.
    if (!Contain([&] { batches.emplace_back(); })) break;
    batches.back().first = TakeChain(stripe);
    if (batches.back().first == 0) batches.pop_back();  // Another was faster.
  }
  Batches waiting;
  {
    MutexLock lock(&mu_);
    waiting.swap(waiting_);
  }
  const bool stalled = IsStalled(waiting);
  if (!batches.empty()) {
    // A stalled reader cannot see what is made from here on.
    const Epoch ended = stalled ? AdvanceBirth() : AdvanceEpoch();
    for (Batch& batch : batches) batch.epoch = ended;
  }
  Interleave("limbo: between the epoch's end and the scan of readers");
  batches.splice(batches.begin(), waiting);
  Batches kept;
  while (!batches.empty()) {
    Batch& batch = batches.front();
    const bool same_reader =
        batch.sifted_for != 0 &&
        NewestReaderUpTo(batch.sifted_for) == batch.sifted_for;
    const Epoch reader =
        same_reader ? batch.sifted_for : NewestReaderUpTo(batch.epoch);
    if (reader == 0) {
      UnpinChain(batch.first);
      batches.pop_front();
    } else if (stalled && !same_reader) {
      Sift(reader, &batches, &kept);
    } else {
      kept.splice(kept.end(), batches, batches.begin());
    }
  }
  {
    MutexLock lock(&mu_);
    waiting_.splice(waiting_.end(), kept);
    has_waiting_.store(!waiting_.empty(), std::memory_order_seq_cst);
    stalled_.store(IsStalled(waiting_), std::memory_order_relaxed);
  }
  at_work_.fetch_sub(1, std::memory_order_seq_cst);
}

bool Limbo::IsStalled(const Batches& waiting) {
  return waiting.size() >= kStalled ||
         std::any_of(waiting.begin(), waiting.end(),
                     [](const Batch& batch) { return batch.sifted_for != 0; });
}

// Destroys the entries of the first of `batches` that `reader` cannot see. The
// others join those that are kept because of the same reader, so that a long
// stall does not make a long list.
void Limbo::Sift(Epoch reader, Batches* batches, Batches* kept) {
  const Batch batch = batches->front();
  auto same = std::find_if(
      kept->begin(), kept->end(),
      [reader](const Batch& other) { return other.sifted_for == reader; });
  if (same == kept->end()) {
    same = batches->begin();
    kept->splice(kept->end(), *batches, same);
    *same = {0, 0, reader};
  } else {
    batches->pop_front();
  }
  same->epoch = std::max(same->epoch, batch.epoch);
  for (EntryRef ref = batch.first; ref != 0;) {
    auto& entry = pool_.At(ref);
    const EntryRef next = entry.lru.older;
    if (MaySee(reader, entry.birth)) {
      entry.lru.older = std::exchange(same->first, ref);
    } else {
      pool_.Unpin(ref);
    }
    ref = next;
  }
}

void Limbo::UnpinChain(EntryRef ref) {
  while (ref != 0) {
    const EntryRef next = pool_.At(ref).lru.older;
    pool_.Unpin(ref);
    ref = next;
  }
}

}  // namespace wheelcache::internal
