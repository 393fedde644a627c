// Where retired entries wait until no reader can be looking at them: the grace
// period of epoch-based reclamation.
//
// Each thread collects the entries that it retires in its stripe. When these
// weigh enough, it advances the epoch once for all of them, and gives up the
// cache's pin on those whose grace period has ended; the rest stays for the
// next time. While only one thread uses caches, there is no reader to wait for,
// and entries are destroyed at once.
//
// Memory. At most 512 KiB a stripe is collected at a time. A reader that stalls
// in its section holds back what existed when it began and what was made until
// that was noticed, sixteen collections later: about as much again as the cache
// holds, however long it stalls.
//
// Threads. Thread-safe. Entries are destroyed without a lock.
//
// Errors. None: where there is no memory to record a collection, the stripe
// goes on collecting.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_
#define WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/epoch/epoch.h"
#include "wheelcache/cache/internal/threads/thread_record.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/mutex.h"

namespace wheelcache::internal {

class WHEELCACHE_EXPORT Limbo {
 public:
  // An entry of more bytes counts as several.
  static constexpr int64_t kBytesPerEntry = 256;

  // Collects up to `patience` entries, fewer if they are large, before it
  // advances the epoch for them.
  Limbo(EntryPool* pool, int64_t patience);

  // The same for what is added from now on.
  void SetPatience(int64_t patience);

  Limbo(const Limbo&) = delete;
  Limbo& operator=(const Limbo&) = delete;

  // REQUIRES: it is empty.
  ~Limbo() = default;

  // Retires an entry that is in no index any more: takes over the cache's pin.
  void Add(EntryRef ref);

  // Destroys all entries added before that no reader holds back. Advances the
  // epoch at most once, for all stripes.
  void Flush();

  // Whether this thread has left anything for Flush. Relaxed: a thread sees its
  // own additions; if another one has taken them, that one calls this itself.
  bool HasOwn() const {
    const Stripe& own = stripes_[ThreadIndex() % kStripes];
    return own.load(std::memory_order_relaxed) != 0 ||
           has_waiting_.load(std::memory_order_relaxed);
  }

  // Whether a reader holds back much, so that nothing that is removed now would
  // soon be free. A hint.
  bool stalled() const { return stalled_.load(std::memory_order_relaxed); }

  // Whether a thread is in Flush, or in an Add that destroys: it has entries in
  // its hands that another thread's Flush does not find. Sequentially
  // consistent; but a hint.
  bool at_work() const { return at_work_.load(std::memory_order_seq_cst) > 0; }

  // Destroys all that has been added, at the end of the cache.
  // REQUIRES: no other thread is in the cache.
  void DestroyAll();

  // Whether there is nothing for Flush to do. Sequentially consistent, as the
  // stores of Add: a RunDue that finds nothing began before the addition in
  // that order, so that the WakeAt after the addition sees that it began, and
  // plans another.
  bool empty() const;

 private:
  static constexpr size_t kStripes = 16;

  // A list of entries, linked by their LRU links: the first one in the low 32
  // bits, their weight in the high ones.
  struct alignas(ABSL_CACHELINE_SIZE) Stripe : std::atomic<uint64_t> {
    Stripe() : std::atomic<uint64_t>(0) {}
  };

  // A list of entries that were unlinked before `epoch` ended.
  struct Batch {
    EntryRef first = 0;
    Epoch epoch = 0;
    // The reader because of which it was sifted, or 0.
    Epoch sifted_for = 0;
  };
  // A list, whose elements move to another list without an allocation.
  using Batches = std::list<Batch>;

  uint32_t Push(Stripe& stripe, EntryRef ref);
  static EntryRef TakeChain(Stripe& stripe);
  void Release(absl::Span<Stripe> stripes);
  static bool IsStalled(const Batches& waiting);
  void Sift(Epoch reader, Batches* batches, Batches* kept);
  void UnpinChain(EntryRef ref);

  EntryPool& pool_;
  std::atomic<uint32_t> patience_;  // Relaxed: a number to compare with.
  std::array<Stripe, kStripes> stripes_;

  Mutex mu_;
  Batches waiting_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> has_waiting_{false};  // Written under mu_, as the next.
  std::atomic<bool> stalled_{false};
  std::atomic<int> at_work_{0};  // The threads in Release.
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENTRY_LIMBO_H_
