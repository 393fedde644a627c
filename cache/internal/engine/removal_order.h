// The order in which the entries of a shard leave: those that expire by a
// timing wheel; those that have to make room by OneList or TwoLists.
//
// Invariant: an entry of the shard is in a list; it is in the wheel exactly
// if its deadline is finite. One entry that was replaced may still be in both,
// until UnlinkReplaced.
//
// A replaced entry. Its neighbours in list and wheel lie anywhere in memory, so
// that to unlink it at once is to wait for them. Replace leaves it where it is,
// for the next UnlinkReplaced, if nobody notices: there is no listener to tell,
// and to destroy it does nothing but free a small block.
//
// Prefetching. The lines of neighbours are cache misses of 100 ns or so: what
// is asked for together arrives together, while the shard does something else.
// - Set: the neighbours of the entry that is replaced, as soon as that is
// found.
//   Lines come to the core of the thread that asks: if another thread did the
//   Set before, they are prefetched again for this one.
// - Eviction: what the next one will touch. That entry itself came as the
//   neighbour of the one before.
// - Expiry: an entry is handed out a few timers after its own has fired.
//
// Time. The wheel counts in ticks and rounds deadlines up: an entry that it
// fires has expired, and one that has expired for less than a tick may still be
// here.
//
// Threads. Thread-compatible: belongs to the lock of its shard.

#ifndef WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_
#define WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "wheelcache/cache/internal/engine/budget.h"
#include "wheelcache/cache/internal/engine/eviction_links.h"
#include "wheelcache/cache/internal/engine/one_list.h"
#include "wheelcache/cache/internal/engine/recency.h"
#include "wheelcache/cache/internal/engine/shared_state.h"
#include "wheelcache/cache/internal/engine/tail_board.h"
#include "wheelcache/cache/internal/engine/ticks.h"
#include "wheelcache/cache/internal/entry/entry.h"
#include "wheelcache/cache/internal/entry/entry_pool.h"
#include "wheelcache/cache/internal/index/index.h"
#include "wheelcache/cache/internal/index/key_hash.h"
#include "wheelcache/cache/internal/memory/chunks.h"
#include "wheelcache/lru/lru_list.h"
#include "wheelcache/wheel/base/export.h"
#include "wheelcache/wheel/basic_timing_wheel.h"
#include "wheelcache/wheel/clock.h"
#include "wheelcache/wheel/timer_links.h"

namespace wheelcache::internal {

class TwoLists;

// What is inlined into the shard's calls is in removal_order_impl.h.
class WHEELCACHE_EXPORT RemovalOrder {
 public:
  // The largest block that a replaced entry may keep until UnlinkReplaced, in
  // bytes.
  static constexpr size_t kMostDeferred = 512;

  // The shard whose entries these are.
  struct Owner {
    SharedState* shared;
    Recency* recency;
    UseCount* uses;
    const Index* index;
    int number;
  };

  // An empty one, at this time.
  RemovalOrder(const Owner& shard, int64_t now_nanos);
  ~RemovalOrder();

  RemovalOrder(const RemovalOrder&) = delete;
  RemovalOrder& operator=(const RemovalOrder&) = delete;

  // Whether there is no entry, nor a replaced one.
  bool empty() const;

  // The hash of an entry's key. Of the next victim it is known already.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Hash32 HashOf(EntryRef ref) const;

  // Says that an entry with this hash, probably of a new key, is about to be
  // added.
  void PrefetchNew(Hash32 hash) const;
  // Says that the entry is about to be replaced or removed.
  void PrefetchRemoval(EntryRef ref) const { Prefetch(NeighboursOf(ref)); }

  // Adds an entry as the most recently used. It takes so much room.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(const Added& added, const Room& room);

  // Takes an entry with this charge out; the second, what FindVictim returned
  // and is evicted. REQUIRES: it is not the replaced one.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Remove(EntryRef ref, int64_t charge);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void RemoveVictim(EntryRef ref, Hash32 hash,
                                                 int64_t charge);

  // Takes out an entry in whose place another one was added, or leaves that to
  // UnlinkReplaced; returns whether it has gone. `plain` says whether it is a
  // small block that only has to be freed. REQUIRES: UnlinkReplaced was called
  // since the last Replace.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Replace(EntryRef old, int64_t charge,
                                            bool plain);

  // Takes out what Replace has left, and returns it, or null. To be called
  // before the next Replace, Advance and FindVictim. The second, before a Set
  // of the entry `next`; the third, before evictions for others.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef UnlinkReplaced();
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef UnlinkReplacedForSet(EntryRef next);
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef UnlinkReplacedForEviction();

  // Puts a copy of an entry in its place. REQUIRES: UnlinkReplaced was called
  // since the last Replace.
  void Substitute(EntryRef old, EntryRef copy);

  // Records a use of an entry; the second also makes it the most recently used
  // of its list.
  void Use(EntryRef ref);
  void MoveToFront(EntryRef ref);

  // Marks an entry, until it is removed: see Recency.
  void Mark(EntryRef ref) {
    At(ref).stamp.fetch_or(kMark, std::memory_order_relaxed);
  }

  // Gives an entry another deadline; where there is an idle TTL, another hard
  // one, by this clock. Returns false if it has expired.
  bool SetDeadline(EntryRef ref, int64_t deadline_nanos, const Clock& clock);

  // Whether an entry has expired; then it stays so. The second, with an idle
  // TTL, of one whose timer has fired: if it has not, schedules it again.
  bool HasExpired(EntryRef ref, int64_t now_nanos) {
    if (!At(ref).ExpiredAt(now_nanos)) return false;
    return !pool_.idle().on() || EntryPool::TryExpire(&At(ref), now_nanos);
  }
  bool ExpiresNow(EntryRef ref, int64_t now_nanos);

  // Returns the entry to evict, but never `keep`, or null. It makes room for
  // `incoming`: the entry of a new key, unless `keep` is to be replaced. Takes
  // from *budget what it costs to find it, and returns null if that has become
  // 0 before. Lets the other shards know how old it is.
  ABSL_ATTRIBUTE_ALWAYS_INLINE EntryRef FindVictim(EntryRef keep,
                                                   const Room& incoming,
                                                   uint64_t* budget);

  // Whether another shard is to evict in place of this one: if it has an entry
  // that was clearly longer unused or, with two lists, holds clearly more. To
  // be called after FindVictim. Looks at one shard, the next in turn each time:
  // shares of the limits that have drifted come back bit by bit.
  bool AnotherShardHasOlder() {
    return tail_.PeerIsOlder(standing_.tail, standing_.margin);
  }

  // Changes the room that the shard is expected to have.
  void SetShare(Room share);

  // When the wheel next has something to do; also on the DueBoard.
  int64_t due_nanos() const { return due_nanos_; }

  // Calls `fire(ref)` for each entry that has expired, with its timer out of
  // the wheel; it may Remove entries. Stops after `budget` fired and cascaded
  // timers. Returns how many those were: less than `budget` means that nothing
  // due is left.
  uint64_t Advance(int64_t now_nanos, uint64_t budget,
                   absl::FunctionRef<void(EntryRef)> fire);

  // Takes out all entries at once, in O(occupied slots of the wheel). The
  // `older` links of the entries still lead from the first returned one to the
  // second.
  std::pair<EntryRef, EntryRef> TakeAll();

  // For tests: finds the first broken invariant, and calls `visit(ref)` for
  // each entry but the replaced one. O(entries).
  absl::Status CheckInvariants(absl::FunctionRef<void(EntryRef)> visit);

  // For tests: whether the wheel has worked beyond this time, and so would fire
  // what is due next too late.
  bool IsAheadOf(int64_t now_nanos) const {
    return wheel_.now() > ticks().Floor(now_nanos);
  }

 private:
  // How the wheel finds the links of an entry.
  struct Links {
    using Ref = EntryRef;
    TimerLinks<Ref>& links(Ref ref) const { return pool->At(ref).timer; }
    // Rounded up: a timer that fires is past its deadline.
    uint64_t deadline(Ref ref) const {
      return ticks.Ceil(pool->At(ref).deadline());
    }
    EntryPool* pool;
    Ticks ticks;
  };
  using Wheel = BasicTimingWheel<Links, WheelSlots>;
  // The wheel marks its lists by the largest references.
  static_assert(!ListTag<EntryRef>::Holds(Chunks::kLastRef));

  // The entries whose links a removal of one will change.
  struct Neighbours {
    LruLinks<EntryRef> lru;
    TimerLinks<EntryRef> timer;
  };
  // What was prefetched for the eviction of the entry at the tail of a list, or
  // null: the hash of its key, and its neighbours then.
  struct Tail {
    EntryRef ref = 0;
    Hash32 hash = 0;
    Neighbours neighbours = {};
  };

  // Calls `f(lists)`: the policy is chosen here, and nowhere else.
  template <typename F>
  ABSL_ATTRIBUTE_ALWAYS_INLINE decltype(auto) WithLists(F&& f);
  template <typename F>
  ABSL_ATTRIBUTE_ALWAYS_INLINE decltype(auto) WithLists(F&& f) const;

  EntryHeader& At(EntryRef ref) const { return pool_.At(ref); }
  Ticks ticks() const { return Ticks(shared_.tick_nanos); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Unlink(EntryRef ref, int64_t charge);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Schedule(EntryRef ref);
  void SetDue(std::optional<uint64_t> tick);

  ABSL_ATTRIBUTE_ALWAYS_INLINE Neighbours NeighboursOf(EntryRef ref) const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Prefetch(
      const Neighbours& neighbours) const;
  // Whether all that is at a tail was prefetched.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool VictimsAreKnown() const;
  ABSL_ATTRIBUTE_ALWAYS_INLINE void PrefetchVictims();
  void PrefetchForThisThread(EntryRef next) const;
  // Before an entry leaves its list: another one may get its block.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void ForgetTail(EntryRef ref);

  absl::Status CheckEntry(EntryRef ref) const;
  absl::Status CheckDue() const;

  SharedState& shared_;
  EntryPool& pool_;  // Of shared_.
  const Index& index_;
  Recency& recency_;
  const int shard_;

  EntryRef replaced_ = 0;  // What UnlinkReplaced is to take out.
  int64_t replaced_charge_ = 0;
  Neighbours replaced_neighbours_ = {};  // When it was replaced.
  // Of the only list or the window, and of the main list.
  std::array<Tail, 2> tails_ = {};
  size_t last_writer_ = 0;  // The ThreadIndex() of the last UnlinkReplaced.

  int64_t due_nanos_ = Clock::kNever;
  Wheel wheel_;
  ShardTail tail_;
  Standing standing_ = {};  // When FindVictim was called last.
  // The lists are two, if that is not null, and else the one.
  OneList one_list_;
  const std::unique_ptr<TwoLists> two_lists_;
};

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_INTERNAL_ENGINE_REMOVAL_ORDER_H_
