// Where entries that have left the cache wait until no reader can be looking
// at them.
//
// Each thread collects the entries that it removed in a stripe of its own.
// When these weigh enough, it ends an epoch for all of them at once, and gives
// up the cache's pin on those that nobody can see any more; the rest waits for
// the next time. While only one thread uses caches there is nobody to wait for,
// and entries are destroyed at once.
//
// Memory. Not more than 256 KiB a stripe is collected at a time. A reader that
// does not end its section holds back what existed when it began and what was
// made until that was noticed, sixteen collections later: about as much again
// as the cache holds, however long it stalls.
//
// Threads. Thread-safe. Entries are destroyed without a lock.
//
// Errors. None: where there is no memory to note a collection, it goes on
// collecting.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <new>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/interleave.h"
#include "wheelcache/cache/internal/threads/thread_index.h"
#include "wheelcache/wheel/base/contain.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache {
namespace internal {

template <typename Key, typename Value>
class Limbo {
 public:
  using Pool = EntryPool<Key, Value>;

  // Collects up to `patience` entries, less if they are large, before it ends
  // an epoch for them.
  Limbo(Pool* pool, int64_t patience)
      : pool_(*pool),
        patience_(static_cast<uint32_t>(
            std::clamp<int64_t>(patience, 1, kMostPatience))) {}

  Limbo(const Limbo&) = delete;
  Limbo& operator=(const Limbo&) = delete;

  // REQUIRES: it is empty.
  ~Limbo() = default;

  // Takes over the cache's pin on an entry that no index shows any more.
  void Add(EntryRef ref) {
    Interleave("limbo: before an entry is added");
    if (NobodyReads()) {
      pool_.Unpin(ref);
      return;
    }
    Stripe& stripe = stripes_[ThreadIndex() % kStripes];
    if (Push(stripe, ref) >= patience_) Release(&stripe);
  }

  // Destroys, of what has been added before, all that no reader holds back.
  void Flush() {
    for (Stripe& stripe : stripes_) {
      if (stripe.load(std::memory_order_relaxed) != 0) Release(&stripe);
    }
    if (has_waiting_.load(std::memory_order_relaxed)) Release(nullptr);
  }

  // Whether this thread has left anything for Flush. Relaxed: it sees its own
  // additions; where they have gone, another thread has them, and asks itself.
  bool HasOwn() const {
    return stripes_[ThreadIndex() % kStripes].load(std::memory_order_relaxed) !=
               0 ||
           has_waiting_.load(std::memory_order_relaxed);
  }

  // Destroys all that has been added, at the end of the cache.
  // REQUIRES: no other thread is in the cache.
  void DestroyAll() {
    for (Stripe& stripe : stripes_) UnpinChain(TakeChain(stripe));
    Batches batches;
    {
      MutexLock lock(&mu_);
      batches.swap(waiting_);
      has_waiting_.store(false, std::memory_order_relaxed);
    }
    for (const Batch& batch : batches) UnpinChain(batch.first);
  }

  // Whether Flush has anything to look at. Sequentially consistent, with the
  // stores of what is added: a RunDue that finds nothing began before the
  // addition in that order, so that the WakeAt after the addition sees that it
  // began, and plans another.
  bool empty() const {
    for (const Stripe& stripe : stripes_) {
      if (stripe.load(std::memory_order_seq_cst) != 0) return false;
    }
    return !has_waiting_.load(std::memory_order_seq_cst);
  }

  // Around fork(): keeps the one lock whole in the child.
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.LockAmongMany(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mu_) { mu_.UnlockAmongMany(); }
  void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mu_.UnlockInChild();
  }

 private:
  static constexpr size_t kStripes = 16;
  static constexpr int64_t kMostPatience = 1024;

  // A chain of entries linked by their LRU links, and what they weigh above.
  struct alignas(ABSL_CACHELINE_SIZE) Stripe : std::atomic<uint64_t> {
    Stripe() : std::atomic<uint64_t>(0) {}
  };

  // A chain that was unlinked before `epoch` ended.
  struct Batch {
    EntryRef first = 0;
    Epoch epoch = 0;
    // The reader for whose sake it was looked through, or 0.
    Epoch sifted_for = 0;
  };
  // A list, whose elements go from one to another without allocation.
  using Batches = std::list<Batch>;

  // Adds the entry to the stripe's chain and returns the chain's weight. Who
  // takes the chain sees what was written before: the removal from the index,
  // so that the epoch it ends is late enough, and the links.
  uint32_t Push(Stripe& stripe, EntryRef ref) {
    auto& entry = pool_.At(ref);
    const uint64_t weight = 1 + static_cast<uint64_t>(pool_.Charge(ref)) / 256;
    uint64_t chain = stripe.load(std::memory_order_relaxed);
    uint64_t longer;
    do {
      entry.lru.older = static_cast<EntryRef>(chain);
      longer = ((chain >> 32) + weight) << 32 | ref;
    } while (!stripe.compare_exchange_weak(
        chain, longer, std::memory_order_seq_cst, std::memory_order_relaxed));
    return static_cast<uint32_t>(longer >> 32);
  }

  static EntryRef TakeChain(Stripe& stripe) {
    if (stripe.load(std::memory_order_relaxed) == 0) return 0;
    return static_cast<EntryRef>(stripe.exchange(0, std::memory_order_acquire));
  }

  // Ends an epoch for the stripe's chain, if any, and destroys what can be of
  // it and of those that wait.
  void Release(Stripe* stripe) {
    Batches batches;
    // Before anything is taken that would have to be put back.
    if (stripe != nullptr && !Contain([&] { batches.emplace_back(); })) return;
    Batches waiting;
    {
      MutexLock lock(&mu_);
      waiting.swap(waiting_);
    }
    const bool stalled =
        waiting.size() >= kStalled ||
        std::any_of(waiting.begin(), waiting.end(),
                    [](const Batch& batch) { return batch.sifted_for != 0; });
    if (stripe != nullptr) {
      Batch& fresh = batches.back();
      fresh.first = TakeChain(*stripe);
      if (fresh.first == 0) {
        batches.pop_back();  // Another thread was faster.
      } else {
        // What is made from here on, a reader that has stalled cannot see.
        fresh.epoch = stalled ? AdvanceBirth() : AdvanceEpoch();
      }
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
    MutexLock lock(&mu_);
    waiting_.splice(waiting_.end(), kept);
    has_waiting_.store(!waiting_.empty(), std::memory_order_seq_cst);
  }

  // With so many batches waiting, a reader has stalled.
  static constexpr size_t kStalled = 16;

  // Destroys the entries of the first of `batches` that `reader` cannot see.
  // The others join those that are kept for the same reader, so that a long
  // stall does not make a long list.
  void Sift(Epoch reader, Batches* batches, Batches* kept) {
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

  void UnpinChain(EntryRef ref) {
    while (ref != 0) {
      const EntryRef next = pool_.At(ref).lru.older;
      pool_.Unpin(ref);
      ref = next;
    }
  }

  Pool& pool_;
  const uint32_t patience_;
  std::array<Stripe, kStripes> stripes_;

  Mutex mu_;
  Batches waiting_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> has_waiting_{false};  // Written under mu_.
};

}  // namespace internal
}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_
