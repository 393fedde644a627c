// The order in which the entries of a shard are evicted: an LRU list or, in a
// scan-resistant order, two.
//
// With EvictionPolicy::kLru all entries are in one list, and its tail goes.
//
// With kScanResistant that list is a window for new entries, and a main list
// takes those that have proved worth it (docs/policy.md). Admission decides
// (cache/internal/engine/admission.h); this class moves the entries. Which list
// an entry is in, a bit of its header says. A hit touches neither list: both
// find out at their tails what was used.
//
// Invariant: an entry of the order is in one of the lists, that of its bit.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_ORDER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_ORDER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/admission.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/lru/lazy_lru_list.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/base/prefetch.h"

namespace wheelcache::internal {

// How a list finds the links and the stamp of an entry.
struct EvictionLinks {
  using Ref = EntryRef;
  LruLinks<Ref>& lru_links(Ref ref) const { return pool->At(ref).lru; }
  Stamp stamp(Ref ref) const {
    return recency->Unmarked(
        pool->At(ref).stamp.load(std::memory_order_relaxed));
  }
  EntryPool* pool;
  const Recency* recency;
};

using EvictionList = LazyLruList<EvictionLinks>;

// The main list, and the Admission that decides what enters it, in cache lines
// of their own, which are prefetched together.
struct alignas(ABSL_CACHELINE_SIZE) MainList {
  MainList(const EvictionLinks& links, const SharedState& shared, int shard)
      : list(links),
        admission(shared.AdmissionMemoryOf(shard),
                  shared.ShareOf(shared.budget.limit()),
                  shared.window_target.get()) {}

  EvictionList list;
  Admission admission;
  // What Recency was told last of both lists.
  uint32_t window_shown = 0;
  uint32_t main_shown = 0;
};

class WHEELCACHE_EXPORT EvictionOrder {
 public:
  // The shard whose entries these are.
  struct Owner {
    SharedState* shared;
    Recency* recency;
    int number;
  };

  // A new entry, its hash, and the one that it replaces, or null.
  struct Added {
    EntryRef ref;
    Hash32 hash;
    EntryRef old;
  };

  // An entry that was found at the tail of a list, or null, and the hash of its
  // key.
  struct Tail {
    EntryRef ref = 0;
    Hash32 hash = 0;
  };

  explicit EvictionOrder(const Owner& shard);
  ~EvictionOrder();

  EvictionOrder(const EvictionOrder&) = delete;
  EvictionOrder& operator=(const EvictionOrder&) = delete;

  bool empty() const { return list_.empty() && main_back() == 0; }

  // The entry that was added last to the one list or the window, or null.
  EntryRef front() const { return list_.front(); }
  // The tail of that list, and of the main list, or null.
  EntryRef back() const { return list_.back(); }
  EntryRef main_back() const;

  // Whether there are two lists.
  bool has_two_lists() const { return main_ != nullptr; }

  // Finds the entry at the tail of the main list, or of the one or the window.
  // Returns null if there is none, or it was found before.
  ABSL_ATTRIBUTE_ALWAYS_INLINE const Tail* FindNewTail(bool in_main);
  // What that found last, as far as it is still in the order: of the one list
  // or the window, and of the main list.
  const std::array<Tail, 2>& tails() const { return tails_; }

  // The hash of an entry's key. Of a tail it is known already.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Hash32 HashOf(EntryRef ref) const;

  // Where there are two lists: prefetches what a Set of the key with this hash,
  // or its eviction, will touch in the sketch; and once more what another
  // thread had prefetched or written to.
  void PrefetchSketch(Hash32 hash) const;
  void PrefetchForThisThread() const;

  // Adds an entry as the most recently used: to the list of the entry that it
  // replaces, which is still in the order. It takes so much room.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(const Added& added, const Room& room);

  // Takes an entry out.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Remove(EntryRef ref);

  // As Remove, of an entry that is evicted, with the hash of its key and its
  // charge.
  // REQUIRES: there are two lists.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RemoveVictim(EntryRef ref, Hash32 hash,
                                                 int64_t charge);

  // Puts a copy of an entry in its place.
  void Substitute(EntryRef old, EntryRef copy);

  // Makes an entry the most recently used of its list. The second is for one
  // list that is exact.
  void Use(EntryRef ref);
  void MoveToFront(EntryRef ref);

  // Marks an entry, until it is removed: see Recency.
  void Mark(EntryRef ref) { Restamp(ref, MarkedStamp(StampOf(ref))); }

  // Returns the entry to evict, but never `keep`, or null. It makes room for
  // `incoming`: the entry of a new key, unless `keep` is to be replaced. Takes
  // from *budget what it costs to find it, and lets the other shards know how
  // old it is.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef FindVictim(EntryRef keep,
                                                   const Room& incoming,
                                                   int64_t now_nanos,
                                                   uint64_t* budget);

  // Whether another shard is to evict in place of this one: if it has an entry
  // that was clearly longer unused. Looks at one shard, the next in turn each
  // time: shares of the limits that have drifted come back bit by bit.
  //
  // Where there are two lists, never for an entry of the window: a shard keeps
  // its own share of new entries. But with a limit of bytes, if the other shard
  // is clearly larger, for an entry of either list. A victim may be larger than
  // what needs its room, and other shards take the rest: their shares drift
  // faster than ages bring them back.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool AnotherShardHasOlder(EntryRef victim);

  // Lets the other shards know what they compare, as far as the budget goes.
  void PublishOldest(uint64_t* budget);

  // Changes the room that the shard is expected to have.
  void SetShare(Room share);

  // Takes out all entries at once. The `older` links still lead from the first
  // returned one to the second.
  std::pair<EntryRef, EntryRef> TakeAll();

  // For tests: finds the first broken invariant, and calls `visit(ref)` for
  // each entry. O(entries).
  absl::Status CheckInvariants(absl::FunctionRef<absl::Status(EntryRef)> visit);

 private:
  // The least recently used entry of a list, or null, and the hash of its key.
  struct Oldest {
    EntryRef ref = 0;
    Hash32 hash = 0;
    const EntryHeader* entry = nullptr;
  };

  // How much of the cache a shard holds, as a stamp that is the older the more
  // that is; and by how much another one has to be older.
  struct Size {
    Stamp stamp;
    uint32_t margin;
  };

  EntryHeader& HeaderOf(EntryRef ref) const { return pool_.At(ref); }
  // The stamp of an entry, without its mark.
  Stamp StampOf(const EntryHeader& entry) const {
    return recency_.Unmarked(entry.stamp.load(std::memory_order_relaxed));
  }
  Stamp StampOf(EntryRef ref) const { return StampOf(HeaderOf(ref)); }
  void Restamp(EntryRef ref, Stamp stamp) {
    HeaderOf(ref).stamp.store(stamp, std::memory_order_relaxed);
  }
  // Gives an entry the next stamp, and leaves its mark.
  void StampAnew(EntryRef ref);
  Room RoomOf(EntryRef ref) const { return {1, pool_.Charge(ref)}; }
  static Admission::List ListNumber(bool in_main) {
    return in_main ? Admission::kMain : Admission::kWindow;
  }
  // The main list, or the one or the window.
  EvictionList& ListWith(bool in_main);

  ABSL_ATTRIBUTE_ALWAYS_INLINE Oldest FindOldestBut(EntryRef keep, bool in_main,
                                                    uint64_t* budget);
  ABSL_ATTRIBUTE_NOINLINE EntryRef MoveToOldestBut(EntryRef keep,
                                                   EvictionList* list,
                                                   uint64_t* budget);
  EntryRef FindVictimOfTwo(EntryRef keep, Room incoming, int64_t now_nanos,
                           uint64_t* budget);
  void AddToTwo(const Added& added, const Room& room);
  void RemoveFromTwo(EntryRef ref);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void TakeOutOfTwo(EntryRef ref, bool in_main,
                                                 int64_t charge);
  ABSL_ATTRIBUTE_NOINLINE void FillMain(EntryRef newest);
  void MoveToMain(EntryRef ref);
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool WindowWins(const Oldest& window,
                                               const Oldest& main,
                                               int64_t now_nanos);
  // Before an entry leaves its list: another one may get its block.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void ForgetTail(EntryRef ref);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PublishResolutions();
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PublishTail(const EntryHeader& oldest,
                                                uint32_t margin);
  // Of an empty list. Exactly: a Set that was sent to this shard for an older
  // entry must not be sent here again.
  void PublishNoTail() { shared_.uses.set_tail(shard_, recency_.Now()); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PublishMain(const Oldest& oldest);
  ABSL_ATTRIBUTE_NOINLINE void PublishSize();
  Stamp NextPeersTail();
  bool AnotherShardPaysFor(EntryRef victim);
  Size SizeInCache() const;
  absl::Status CheckList(bool in_main,
                         absl::FunctionRef<absl::Status(EntryRef)> visit);

  SharedState& shared_;
  EntryPool& pool_;  // Of shared_.
  Recency& recency_;
  const int shard_;
  const bool trades_by_size_;  // See AnotherShardHasOlder.
  int next_peer_ = 0;  // The shard that AnotherShardHasOlder looked at last.
  // Recency's count, kept here because readers look at Recency.
  uint32_t uncounted_uses_ = 0;
  std::array<Tail, 2> tails_ = {};        // By Admission::List.
  EvictionList list_;                     // Where there are two, the window.
  const std::unique_ptr<MainList> main_;  // Null if there is one list.
};

// Inlined into the shard's Set and eviction; of two lists, what is short.

inline EntryRef EvictionOrder::main_back() const {
  return main_ == nullptr ? 0 : main_->list.back();
}

inline EvictionList& EvictionOrder::ListWith(bool in_main) {
  return in_main ? main_->list : list_;
}

inline void EvictionOrder::PrefetchSketch(Hash32 hash) const {
  PrefetchLineToWrite(main_->admission.SketchLineOf(hash));
}

inline auto EvictionOrder::FindNewTail(bool in_main) -> const Tail* {
  Tail& tail = tails_[ListNumber(in_main)];
  const EntryRef last = ListWith(in_main).back();
  if (last == 0 || last == tail.ref) return nullptr;
  tail = {last, pool_.operations().hash(HeaderOf(last))};
  return &tail;
}

inline Hash32 EvictionOrder::HashOf(EntryRef ref) const {
  if (ref == tails_[0].ref) return tails_[0].hash;
  if (ref == tails_[1].ref) return tails_[1].hash;
  return pool_.operations().hash(HeaderOf(ref));
}

inline void EvictionOrder::ForgetTail(EntryRef ref) {
  if (ref == tails_[0].ref) tails_[0].ref = 0;
  if (ref == tails_[1].ref) tails_[1].ref = 0;
}

inline void EvictionOrder::Add(const Added& added, const Room& room) {
  HeaderOf(added.ref).stamp.store(recency_.NextStamp(&uncounted_uses_),
                                  std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(main_ != nullptr)) {
    AddToTwo(added, room);
    return;
  }
  list_.PushFront(added.ref);
  recency_.SetResolution(list_.Resolution());
}

inline void EvictionOrder::Remove(EntryRef ref) {
  if (ABSL_PREDICT_FALSE(main_ != nullptr)) {
    RemoveFromTwo(ref);
    return;
  }
  ForgetTail(ref);
  list_.Remove(ref);
}

inline void EvictionOrder::RemoveVictim(EntryRef ref, Hash32 hash,
                                        int64_t charge) {
  const bool in_main = HeaderOf(ref).in_main();
  main_->admission.RecordEvicted(hash, ListNumber(in_main));
  TakeOutOfTwo(ref, in_main, charge);
}

inline void EvictionOrder::TakeOutOfTwo(EntryRef ref, bool in_main,
                                        int64_t charge) {
  ForgetTail(ref);
  main_->admission.Remove(ListNumber(in_main), {1, charge});
  ListWith(in_main).Remove(ref);
}

inline EntryRef EvictionOrder::FindVictim(EntryRef keep, const Room& incoming,
                                          int64_t now_nanos, uint64_t* budget) {
  if (ABSL_PREDICT_FALSE(main_ != nullptr)) {
    return FindVictimOfTwo(keep, keep == 0 ? incoming : Room(), now_nanos,
                           budget);
  }
  EntryRef victim = list_.FindOldest(budget);
  if (victim == keep && victim != 0) {
    // It is about to be replaced.
    StampAnew(keep);
    list_.MoveToFront(keep);
    victim = list_.FindOldest(budget);
    if (victim == keep) victim = 0;
  }
  if (ABSL_PREDICT_TRUE(victim != 0)) {
    PublishTail(HeaderOf(victim), recency_.Margin());
  } else if (*budget > 0) {
    PublishNoTail();
  }
  return victim;
}

inline void EvictionOrder::PublishTail(const EntryHeader& oldest,
                                       uint32_t margin) {
  shared_.uses.set_tail(shard_, StampOf(oldest), /*slack=*/margin / 8);
}

inline bool EvictionOrder::AnotherShardHasOlder(EntryRef victim) {
  if (shared_.shards == 1) return false;
  const uint32_t margin = recency_.Margin();
  if (ABSL_PREDICT_FALSE(main_ != nullptr)) {
    return (trades_by_size_ || HeaderOf(victim).in_main()) &&
           AnotherShardPaysFor(victim);
  }
  return IsOlderBy(NextPeersTail(), StampOf(victim), margin);
}

inline Stamp EvictionOrder::NextPeersTail() {
  do {
    next_peer_ = (next_peer_ + 1) & (shared_.shards - 1);
  } while (next_peer_ == shard_);
  return shared_.uses.tail(next_peer_);
}

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_EVICTION_ORDER_H_
